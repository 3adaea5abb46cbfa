#include "data/unfinished.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *path_of(const char *directory) { return path_join(directory, ".unfinished"); }

bool unfinished_find(const char *directory, const char *what, bool *found, Error *error) {
    char *path = path_of(directory), *text = NULL;
    size_t size;
    *found = !access(path, F_OK);
    bool ok = !*found || read_file(path, &text, &size, error) || error_before(error, "%s: ", path);
    if (text && strcmp(text, what))
        ok = error_set(error,
                       "%s is unfinished, and was begun with %s, not with %s; start it again with the former, or "
                       "remove it, or choose another folder",
                       directory, text, what);
    free(text);
    free(path);
    return ok;
}

bool unfinished_lock(FileLock *lock, const char *directory, Error *error) {
    char *path = path_of(directory);
    make_directories(directory);
    bool ok = file_lock(lock, path, error);
    free(path);
    return ok;
}

bool unfinished_check(const char *directory, Error *error) {
    char *path = path_of(directory);
    bool found = !access(path, F_OK);
    free(path);
    return !found || error_set(error,
                               "%s is unfinished: the program that fills it was stopped, or is still running; start it "
                               "again with the same options (they are in %s/.unfinished)",
                               directory, directory);
}

bool unfinished_begin(const char *directory, const char *what, Error *error) {
    char *path = path_of(directory);
    bool ok = file_write_atomic(path, what, strlen(what), error);
    free(path);
    return ok;
}

bool unfinished_end(const char *directory, Error *error) {
    char *path = path_of(directory);
    bool ok = !unlink(path) || error_set(error, "cannot remove %s: %s", path, strerror(errno));
    free(path);
    return ok && directory_flush(directory, error);
}
