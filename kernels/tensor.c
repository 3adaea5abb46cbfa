#include "kernels/tensor.h"

#include <assert.h>
#include <stdio.h>

size_t dtype_size(DType dtype) {
    static const size_t sizes[DTYPE_COUNT] = {[DTYPE_F32] = 4, [DTYPE_BF16] = 2, [DTYPE_F16] = 2, [DTYPE_I32] = 4,
                                              [DTYPE_I64] = 8, [DTYPE_U8] = 1,   [DTYPE_U16] = 2};
    return sizes[dtype];
}

const char *dtype_name(DType dtype) {
    static const char *const names[DTYPE_COUNT] = {
        [DTYPE_F32] = "f32", [DTYPE_BF16] = "bf16", [DTYPE_F16] = "f16", [DTYPE_I32] = "i32",
        [DTYPE_I64] = "i64", [DTYPE_U8] = "u8",     [DTYPE_U16] = "u16"};
    return names[dtype];
}

int64_t tensor_numel(Tensor t) {
    int64_t n = t.data ? 1 : 0;
    for (int i = 0; i < t.rank; i++) n *= t.dims[i];
    return n;
}

size_t tensor_bytes(Tensor t) { return (size_t)tensor_numel(t) * dtype_size(t.dtype); }

const char *tensor_shape_text(Tensor t, char text[96]) {
    if (!t.data) return "none";
    int used = snprintf(text, 96, "%s [", dtype_name(t.dtype));
    for (int i = 0; i < t.rank; i++)
        used += snprintf(text + used, (size_t)(96 - used), "%s%lld", i ? ", " : "", (long long)t.dims[i]);
    snprintf(text + used, (size_t)(96 - used), "]");
    return text;
}

Tensor tensor_none(void) { return (Tensor){0}; }

Tensor tensor_1d(void *data, DType dtype, int64_t n) { return (Tensor){data, dtype, 1, {n}}; }

Tensor tensor_2d(void *data, DType dtype, int64_t rows, int64_t columns) {
    return (Tensor){data, dtype, 2, {rows, columns}};
}

Tensor tensor_rows(Tensor t, int64_t begin, int64_t count) {
    assert(t.rank > 0 && begin >= 0 && begin + count <= t.dims[0]);
    size_t row = dtype_size(t.dtype);
    for (int i = 1; i < t.rank; i++) row *= (size_t)t.dims[i];
    t.data = (char *)t.data + (size_t)begin * row;
    t.dims[0] = count;
    return t;
}
