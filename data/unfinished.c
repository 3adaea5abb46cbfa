#include "data/unfinished.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *path_of(const char *directory) { return path_join(directory, ".unfinished"); }

bool unfinished_find(const char *directory, const char *what, bool *found, Error *error) {
    OWNED char *path = path_of(directory), *text = NULL;
    size_t size;
    *found = !access(path, F_OK);
    if (!*found) return true;
    if (!read_file(path, &text, &size, error)) return error_before(error, "%s: ", path);
    return !strcmp(text, what) ||
           error_set(error,
                     "%s is unfinished, and was begun with %s, not with %s; start it again with the former, or "
                     "remove it, or choose another folder",
                     directory, text, what);
}

bool unfinished_lock(FileLock *lock, const char *directory, Error *error) {
    OWNED char *path = path_of(directory);
    make_directories(directory);
    return file_lock(lock, path, error);
}

bool unfinished_check(const char *directory, Error *error) {
    OWNED char *path = path_of(directory);
    return access(path, F_OK) ||
           error_set(error,
                     "%s is unfinished: the program that fills it was stopped, or is still running; start it "
                     "again with the same options (they are in %s/.unfinished)",
                     directory, directory);
}

bool unfinished_begin(const char *directory, const char *what, Error *error) {
    OWNED char *path = path_of(directory);
    return file_write_atomic(path, what, strlen(what), error);
}

bool unfinished_end(const char *directory, Error *error) {
    OWNED char *path = path_of(directory);
    if (unlink(path)) return error_set(error, "cannot remove %s: %s", path, strerror(errno));
    return directory_flush(directory, error);
}
