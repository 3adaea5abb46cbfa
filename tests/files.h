/* Helpers for files of tests: golden tensors, npy arrays, and the log of a run. */
#pragma once

#include "data/formats/tensor_file_open.h"
#include "tests/test.h"

#include <fcntl.h>
#include <jansson.h>
#include <sys/stat.h>

#include "data/formats/npy.h"
#include "data/formats/safetensors.h"

/* Sets the time at which the bytes of a file were changed last, as cp -p does. The time of its inode is then another
 * than before, however coarse the clock of the disk is. */
static inline void set_file_time(const char *path, struct timespec modified) {
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, modified};
    struct stat before, now;
    assert_int_equal(stat(path, &before), 0);
    do {
        assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
        assert_int_equal(stat(path, &now), 0);
    } while (now.st_ctim.tv_sec == before.st_ctim.tv_sec && now.st_ctim.tv_nsec == before.st_ctim.tv_nsec);
}

static inline TensorFile open_file(const char *path) {
    TensorFile file;
    Error error;
    char *followed = follow_link(path);
    if (!tensor_file_open(followed, &file, &error)) fail_msg("%s: %s", path, error.text);
    free(followed);
    return file;
}

static inline TensorFile open_in(const char *directory, const char *name) {
    char *path = path_join(directory, name);
    TensorFile file = open_file(path);
    free(path);
    return file;
}

static inline TensorFile open_golden(const char *name) {
    char *path = xformat("tests/reference/golden/%s.safetensors", name);
    TensorFile file = open_file(path);
    free(path);
    return file;
}

static inline const StoredTensor *find(const TensorFile *file, const char *prefix, const char *name) {
    char *full = xformat("%s%s", prefix, name);
    const StoredTensor *tensor = tensor_file_find(file, full);
    if (!tensor) fail_msg("%s: no tensor %s", file->path, full);
    free(full);
    return tensor;
}

static inline float *floats(const TensorFile *file, const char *prefix, const char *name) {
    const StoredTensor *tensor = find(file, prefix, name);
    float *out = xmalloc((size_t)(tensor->count + 1) * sizeof *out);
    Error error;
    if (!stored_to_f32(tensor, out, &error)) fail_msg("%s: %s", tensor->name, error.text);
    return out;
}

static inline void write_npy(const char *directory, const char *name, const char *dtype, const void *data, int rank,
                             int64_t d0, int64_t d1) {
    char *path = path_join(directory, name);
    int64_t dims[2] = {d0, d1};
    Error error;
    if (!npy_write(path, dtype, data, rank, dims, &error)) fail_msg("%s: %s", path, error.text);
    free(path);
}

/* Reads the values of one key in the log.jsonl of a run, in order. Returns how many were found. */
static inline int logged(const char *run, const char *kind, const char *key, double *values, int capacity) {
    char *path = path_join(run, "log.jsonl"), *text = read_text(path);
    int n = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        json_t *record = json_loads(line, 0, NULL);
        assert_non_null(record);
        json_t *value = json_object_get(record, key);
        if (!strcmp(json_string_value(json_object_get(record, "kind")), kind) && value && n < capacity)
            values[n++] = json_number_value(value);
        json_decref(record);
    }
    free(text);
    free(path);
    return n;
}

/* Returns the last value that a run has logged of a key. Fails if there is none among the first 64. */
static inline double logged_last(const char *run, const char *kind, const char *key) {
    double values[64];
    int n = logged(run, kind, key, values, 64);
    if (!n) fail_msg("%s has no %s", run, key);
    return values[n - 1];
}
