/* A tensor is a small value: a pointer to numbers, their type, and a row-major shape. A tensor owns nothing. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum { DTYPE_F32, DTYPE_BF16, DTYPE_F16, DTYPE_I32, DTYPE_I64, DTYPE_U8, DTYPE_U16, DTYPE_COUNT } DType;

enum { TENSOR_MAX_RANK = 4 };

typedef struct {
    void *data; /* NULL: the tensor is absent (an optional argument not given) */
    DType dtype;
    int rank;
    int64_t dims[TENSOR_MAX_RANK];
} Tensor;

size_t dtype_size(DType dtype);
const char *dtype_name(DType dtype); /* "f32", "bf16", ... */

int64_t tensor_numel(Tensor t);
size_t tensor_bytes(Tensor t);
const char *tensor_shape_text(Tensor t, char text[96]); /* "f32 [12, 768]", or "none" */

Tensor tensor_none(void);
static inline bool tensor_given(Tensor t) { return t.data != NULL; }
Tensor tensor_1d(void *data, DType dtype, int64_t n);
Tensor tensor_2d(void *data, DType dtype, int64_t rows, int64_t columns);
Tensor tensor_rows(Tensor t, int64_t begin, int64_t count); /* rows [begin, begin + count) of the first dimension */
