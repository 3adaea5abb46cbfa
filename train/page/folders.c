#include "train/page/folders.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_directory(const char *path) {
    struct stat status;
    return !lstat(path, &status) && S_ISDIR(status.st_mode);
}

/* Returns whether a folder of this name may hold a training or results. */
static bool is_searched(const char *name) {
    return name[0] != '.' && strncmp(name, "step_", 5) && strcmp(name, "logs") && !ends_with(name, ".partial");
}

bool folders_add(Folders *folders, const char *path, const char *name, int depth, Error *error) {
    struct dirent **entries;
    int n = scandir(path, &entries, NULL, alphasort);
    bool ok = n >= 0 || error_set(error, "%s: cannot read the folder: %s", path, strerror(errno));
    if (ok) {
        folders->items = xrealloc(folders->items, (size_t)(folders->n + 1) * sizeof *folders->items);
        folders->items[folders->n++] = (Folder){xstrdup(path), xstrdup(name)};
    }
    for (int i = 0; i < n; i++) {
        const char *entry = entries[i]->d_name;
        char *below = path_join(path, entry), *longer = *name ? xformat("%s/%s", name, entry) : xstrdup(entry);
        if (ok && depth > 0 && is_searched(entry) && is_directory(below))
            ok = folders_add(folders, below, longer, depth - 1, error);
        free(longer);
        free(below);
        free(entries[i]);
    }
    if (n >= 0) free(entries);
    return ok;
}

void folders_free(Folders *folders) {
    for (int i = 0; i < folders->n; i++) {
        free(folders->items[i].path);
        free(folders->items[i].name);
    }
    free(folders->items);
    *folders = (Folders){0};
}

bool folder_has(const Folder *folder, const char *file) {
    char *path = path_join(folder->path, file);
    bool has = !access(path, F_OK);
    free(path);
    return has;
}

char *folder_files(const Folder *folder, const char *end) {
    struct dirent **entries;
    int n = scandir(folder->path, &entries, NULL, alphasort);
    char *names = xstrdup("");
    for (int i = 0; i < n; i++) {
        const char *entry = entries[i]->d_name;
        if (entry[0] != '.' && ends_with(entry, end)) {
            char *longer = xformat("%s%s%s", names, *names ? "\n" : "", entry);
            free(names);
            names = longer;
        }
        free(entries[i]);
    }
    if (n >= 0) free(entries);
    return names;
}
