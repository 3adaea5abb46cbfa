/* Reads and writes NumPy's .npy files: formats 1.0, 2.0 and 3.0, every bool, integer and float dtype of 1 to 8 bytes,
 * both byte orders, C and Fortran order. Object arrays (pickles) are refused. */
#pragma once

#include "base/base.h"

typedef struct {
    char kind; /* 'b' bool, 'i' signed, 'u' unsigned, 'f' float (2, 4, 8 bytes) */
    int item_size;
    bool big_endian, fortran_order;
    int rank;
    int64_t dims[8];
    int64_t count;             /* elements; may be 0 */
    bool has_checksum;         /* the file has npy_write's checksum, and it was right */
    const unsigned char *data; /* points into the parsed bytes */
} Npy;

/* Parses the bytes of a file. A wrong checksum is an error. */
bool npy_parse(const void *bytes, size_t size, Npy *out, Error *error);
/* Convert all elements, in C order. A value that does not fit is an error: a fraction or a value out of range for i32,
 * a finite value out of range for f32. */
bool npy_to_i32(const Npy *npy, int32_t *out, Error *error);
bool npy_to_f32(const Npy *npy, float *out, Error *error);
/* Converts `count` elements from element `first` on, in C order. 64-bit integers are rounded. */
void npy_to_f64(const Npy *npy, int64_t first, int64_t count, double *out);

/* Writes format 1.0, little-endian, C order, as np.save does; atomically. The header's dictionary is followed by a
 * checksum, which Python takes for a comment. dtype: "<i4", "<f4" or "<f8". */
bool npy_write(const char *path, const char *dtype, const void *data, int rank, const int64_t *dims, Error *error);
