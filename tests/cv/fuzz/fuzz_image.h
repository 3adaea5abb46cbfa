/* Gives bytes that a fuzzer chose to a reader of images of photon counts. */
#pragma once

#include "tests/fuzz/fuzz_file.h"

/* Reads a copy of exactly n bytes, so that the sanitizer notices reads behind its end. Aborts if the reader fails
 * without a reason or gives an image without values. */
static inline void fuzz_image(bool (*read)(const void *bytes, size_t size, int64_t dims[3], double **values,
                                           Error *error),
                              const void *bytes, size_t n) {
    char *exact = xmalloc(n);
    int64_t dims[3];
    double *values;
    volatile double seen;
    Error error = {.text = ""};
    if (n) memcpy(exact, bytes, n);
    if (read(exact, n, dims, &values, &error)) {
        if (dims[0] < 1 || dims[1] < 1 || dims[2] < 1) abort();
        for (int64_t i = 0; i < dims[0] * dims[1] * dims[2]; i++) seen = values[i];
    } else if (!error.text[0] || values) {
        abort();
    }
    (void)seen;
    free(values);
    free(exact);
}
