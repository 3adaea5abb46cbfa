/* Puts bytes that a fuzzer chose into a file, in memory, for readers that need a path. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"

/* Replaces the contents of the file. Returns its path. */
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

/* Makes a folder, in memory if possible, that is removed when the program ends. */
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

/* Returns a valid file with changes that a fuzzer chose, so that the fuzzer need not find a valid file first; free(). A
 * change has three bytes: a position, in 65536 parts of the file, and a new byte. One of the last positions cuts the
 * file off. */
static inline char *fuzz_changed(const char *good, size_t good_size, const uint8_t *data, size_t size, size_t *out) {
    char *bytes = malloc(good_size + 1);
    memcpy(bytes, good, good_size);
    *out = good_size;
    for (; size >= 3; data += 3, size -= 3) bytes[((size_t)data[0] << 8 | data[1]) * good_size >> 16] = (char)data[2];
    if (size == 2) *out = ((size_t)data[0] << 8 | data[1]) * good_size >> 16;
    return bytes;
}

/* Returns what a fuzzer chose with its first byte: its other bytes, or, more often, a good file that they change.
 * free() */
static inline char *fuzz_chosen(const char *good, size_t good_size, const uint8_t *data, size_t size, size_t *out) {
    if (size && data[0] % 4) return fuzz_changed(good, good_size, data + 1, size - 1, out);
    *out = size ? size - 1 : 0;
    return memcpy(xmalloc(*out), size ? data + 1 : data, *out);
}

/* Returns a file's bytes with another name for its checksum, which would notice each change. free() */
static inline char *fuzz_unsealed(const char *path, const char *checksum_key, size_t *size) {
    char *bytes;
    if (!read_file(path, &bytes, size, NULL)) abort();
    char *key = memmem(bytes, *size, checksum_key, strlen(checksum_key));
    if (!key) abort();
    *key = 'y';
    return bytes;
}

/* Makes a name in fuzz_directory for the file of fuzz_file, for readers that check the name. free() */
static inline char *fuzz_file_named(const char *name) {
    char *path = path_join(fuzz_directory(), name);
    if (symlink(fuzz_file("", 0), path)) abort();
    return path;
}

static inline void fuzz_write(const char *path, const char *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, size, file) != size || fclose(file)) abort();
}

/* Writes what a fuzzer chose (fuzz_chosen). */
static inline void fuzz_write_chosen(const char *path, const char *good, size_t good_size, const uint8_t *data,
                                     size_t size) {
    size_t n;
    char *chosen = fuzz_chosen(good, good_size, data, size, &n);
    fuzz_write(path, chosen, n);
    free(chosen);
}
