#include "page/folders.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"

static bool is_directory(const char *path) {
    struct stat status;
    return !lstat(path, &status) && S_ISDIR(status.st_mode);
}

/* Returns whether a folder of this name may hold a training or results. */
static bool is_searched(const char *name) {
    return name[0] != '.' && strncmp(name, "step_", 5) && strcmp(name, "logs") && !ends_with(name, ".partial");
}

static void add(Folders *folders, const char *path, const char *name, int depth, bool is_within) {
    struct dirent **entries;
    int n = scandir(path, &entries, NULL, alphasort);
    char *problem = n < 0 ? xformat("cannot read the folder: %s", strerror(errno)) : NULL;
    folders->items = xrealloc(folders->items, (size_t)(folders->n + 1) * sizeof *folders->items);
    folders->items[folders->n++] = (Folder){xstrdup(path), xstrdup(name), is_within, problem};
    for (int i = 0; i < n; i++) {
        const char *entry = entries[i]->d_name;
        OWNED char *below = path_join(path, entry), *longer = *name ? xformat("%s/%s", name, entry) : xstrdup(entry);
        if (depth > 0 && is_searched(entry) && is_directory(below)) add(folders, below, longer, depth - 1, true);
        free(entries[i]);
    }
    if (n >= 0) free(entries);
}

bool folders_add(Folders *folders, const char *path, const char *name, int depth, Error *error) {
    int at = folders->n;
    add(folders, path, name, depth, false);
    const char *problem = folders->items[at].problem;
    return !problem || error_set(error, "%s: %s", path, problem);
}

void folders_free(Folders *folders) {
    for (int i = 0; i < folders->n; i++) {
        FREE(folders->items[i].path, folders->items[i].name, folders->items[i].problem);
    }
    free(folders->items);
    *folders = (Folders){0};
}

bool folder_has(const Folder *folder, const char *file) { return path_holds(folder->path, file); }

char *folder_files(const Folder *folder, const char *end) {
    struct dirent **entries;
    int n = scandir(folder->path, &entries, NULL, alphasort);
    char *names = xstrdup("");
    for (int i = 0; i < n; i++) {
        const char *entry = entries[i]->d_name;
        if (entry[0] != '.' && ends_with(entry, end)) xappend(&names, "%s%s", *names ? "\n" : "", entry);
        free(entries[i]);
    }
    if (n >= 0) free(entries);
    return names;
}
