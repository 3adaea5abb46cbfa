/* A file whose bytes a fuzzer chose, for readers that want a path: it lies in memory. */
#ifndef TESTS_FUZZ_FILE_H
#define TESTS_FUZZ_FILE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/base.h"

/* Replaces the contents of the one file that there is; its path. */
static inline const char *fuzz_file(const void *bytes, size_t size) {
    static char path[32];
    static int fd = -1;
    if (fd < 0) {
        fd = memfd_create("fuzz", MFD_CLOEXEC);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    if (fd < 0 || ftruncate(fd, 0) || (size && pwrite(fd, bytes, size, 0) != (ssize_t)size)) abort();
    return path;
}

static char fuzz_folder[64];

static inline void fuzz_remove_folder(void) {
    char command[96];
    snprintf(command, sizeof command, "rm -rf '%s'", fuzz_folder);
    if (system(command)) fprintf(stderr, "cannot remove %s\n", fuzz_folder);
}

/* Makes a folder, in memory where there is room for files in it, that goes when the program ends. */
static inline const char *fuzz_directory(void) {
    if (*fuzz_folder) return fuzz_folder;
    static const char *const roots[] = {"/dev/shm", "/tmp"};
    for (int i = 0; i < 2; i++) {
        snprintf(fuzz_folder, sizeof fuzz_folder, "%s/fuzz_XXXXXX", roots[i]);
        if (!mkdtemp(fuzz_folder)) continue;
        atexit(fuzz_remove_folder);
        return fuzz_folder;
    }
    abort();
}

/* A good file with changes that a fuzzer chose, so that it need not find out first what a good one is: three bytes
 * each, where (of 65536 parts of it) and what; a part of the last ones cuts it off. free() */
static inline char *fuzz_changed(const char *good, size_t good_size, const uint8_t *data, size_t size, size_t *out) {
    char *bytes = malloc(good_size + 1);
    memcpy(bytes, good, good_size);
    *out = good_size;
    for (; size >= 3; data += 3, size -= 3) bytes[((size_t)data[0] << 8 | data[1]) * good_size >> 16] = (char)data[2];
    if (size == 2) *out = ((size_t)data[0] << 8 | data[1]) * good_size >> 16;
    return bytes;
}

#endif
