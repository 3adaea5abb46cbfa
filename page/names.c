#include "page/names.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Returns the real path, or the path as it is if there is none; free(). */
static char *real_path(const char *directory) {
    char real[PATH_MAX];
    return xstrdup(realpath(directory, real) ? real : directory);
}

/* Returns where the last component of a path begins that is before `end`; the path itself if there is no other. */
static const char *component(const char *path, const char *end) {
    const char *at = end;
    while (at > path && at[-1] != '/') at--;
    return at;
}

/* Adds a parent to each name that two paths have. Returns whether one was added. */
static bool tell_apart(char *const *paths, const char **names, int n) {
    OWNED bool *equal = xcalloc((size_t)n, sizeof *equal);
    bool added = false;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++) equal[i] |= strcmp(paths[i], paths[k]) && !strcmp(names[i], names[k]);
    for (int i = 0; i < n; i++) {
        if (!equal[i] || names[i] - paths[i] <= 1) continue; /* one that has all parents */
        names[i] = component(paths[i], names[i] - 1);
        added = true;
    }
    return added;
}

char **names_make(const char *const *directories, int n) {
    char **paths = xcalloc((size_t)n, sizeof *paths), **names = xcalloc((size_t)n, sizeof *names);
    OWNED const char **begins = xcalloc((size_t)n, sizeof *begins);
    for (int i = 0; i < n; i++) {
        paths[i] = real_path(directories[i]);
        size_t size = strlen(paths[i]);
        while (size > 1 && paths[i][size - 1] == '/') paths[i][--size] = 0;
        begins[i] = size > 1 ? component(paths[i], paths[i] + size) : paths[i];
    }
    while (tell_apart(paths, begins, n)) {
    }
    for (int i = 0; i < n; i++) names[i] = xstrdup(begins[i]);
    names_free(paths, n);
    return names;
}

void names_free(char **names, int n) {
    for (int i = 0; i < n; i++) free(names[i]);
    free(names);
}

void names_drop_repeated(Folders *folders) {
    char **paths = xcalloc((size_t)folders->n, sizeof *paths);
    int kept = 0, n = folders->n;
    for (int i = 0; i < n; i++) {
        Folder folder = folders->items[i];
        paths[kept] = real_path(folder.path);
        int k = 0;
        while (strcmp(paths[k], paths[kept])) k++;
        if (k == kept) {
            folders->items[kept++] = folder;
            continue;
        }
        FREE(paths[kept], folder.path, folder.name);
    }
    folders->n = kept;
    names_free(paths, kept);
}
