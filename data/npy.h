/* NumPy's .npy files: format 1.0, 2.0, 3.0; every bool, integer and float dtype of 1 to 8 bytes, both byte orders, C
 * and Fortran order. Object arrays (pickles) are refused. */
#ifndef DATA_NPY_H
#define DATA_NPY_H

#include "base/base.h"

typedef struct {
    char kind; /* 'b' bool, 'i' signed, 'u' unsigned, 'f' float (2, 4, 8 bytes) */
    int item_size;
    bool big_endian, fortran_order;
    int rank;
    int64_t dims[8];
    int64_t count;             /* elements; 0 is legal */
    bool has_checksum;         /* as files of npy_write do: what was parsed is what was written */
    const unsigned char *data; /* inside the bytes that were parsed */
} Npy;

/* Parses the bytes of a file. A checksum that is not that of the numbers is an error. */
bool npy_parse(const void *bytes, size_t size, Npy *out, Error *error);
/* Elements in C order, converted. Fails on a value that does not fit: for i32 a fraction or one out of range, for f32 a
 * finite one out of range. */
bool npy_to_i32(const Npy *npy, int32_t *out, Error *error);
bool npy_to_f32(const Npy *npy, float *out, Error *error);
/* `count` elements from number `first` on, in C order: all of them, or some rows. 64-bit integers are rounded. */
void npy_to_f64(const Npy *npy, int64_t first, int64_t count, double *out);

/* Writes format 1.0, little-endian, C order, as np.save does, whole or not at all; the header's dictionary is followed
 * by a checksum, which to Python is a comment. dtype "<i4", "<f4" or "<f8". */
bool npy_write(const char *path, const char *dtype, const void *data, int rank, const int64_t *dims, Error *error);

#endif
