/* Parses any bytes as an npy file, and converts valid files both ways. Uses the same bytes as changes to a valid file
 * too, so that the fuzzer need not find the magic bytes and the header first. */
#include <stdlib.h>
#include <string.h>

#include "data/formats/npy.h"

static const char *const headers[] = {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }",
                                      "{'descr': '>i8', 'fortran_order': True, 'shape': (3, 1, 2), }"};

/* Makes a valid file, overwrites its header with the input from the second byte on, and takes the numbers from the
 * rest. */
static size_t seeded(const uint8_t *data, size_t size, int which, unsigned char *file, size_t room) {
    size_t start = which ? 12 : 10, length = strlen(headers[which]), total = start + length;
    if (size < 2 || room < total) return 0;
    size_t at = data[0] % length, most = length - at, part = data[1] < most ? data[1] : most;
    data += 2;
    size -= 2;
    if (part > size) part = size;
    memcpy(file, "\x93NUMPY\x01\x00\x00\x00\x00\x00", 12);
    file[6] = (unsigned char)(which + 1);
    file[8] = (unsigned char)length;
    memcpy(file + start, headers[which], length);
    if (part) memcpy(file + start + at, data, part);
    size_t rest = size - part < room - total ? size - part : room - total;
    if (rest) memcpy(file + total, data + part, rest);
    return total + rest;
}

static void convert(const void *bytes, size_t size) {
    Npy npy;
    Error error = {.text = ""};
    if (!npy_parse(bytes, size, &npy, &error)) {
        if (!error.text[0]) abort();
        return;
    }
    if (npy.count < 0 || (size_t)npy.count > size || npy.rank < 0 || npy.rank > 8) abort();
    int32_t *integers = malloc((size_t)npy.count * sizeof *integers + 1);
    float *reals = malloc((size_t)npy.count * sizeof *reals + 1);
    double *doubles = malloc((size_t)npy.count * sizeof *doubles + 1);
    bool whole = npy_to_i32(&npy, integers, &error), real = npy_to_f32(&npy, reals, &error);
    npy_to_f64(&npy, 0, npy.count, doubles);
    /* Numbers that fit into integers are the same as floats. */
    for (int64_t i = 0; whole && i < npy.count; i++)
        if (!real || (float)integers[i] != reals[i] || integers[i] != doubles[i]) abort();
    free(integers);
    free(reals);
    free(doubles);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    unsigned char file[1024];
    convert(data, size);
    if (!size) return 0;
    size_t n = seeded(data + 1, size - 1, data[0] & 1, file, sizeof file);
    unsigned char *exact = malloc(n + 1); /* detects reads beyond its end */
    memcpy(exact, file, n);
    convert(exact, n);
    free(exact);
    return 0;
}
