/* Matrix products of linear layers, by our own kernels, which are always available, or by cuBLASLt, if it is installed.
 * All matrices are row-major and dense. */
#pragma once

#include "kernels/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The epilogue: applied to the sums by Finish in gemm_kernel.h, by cuBLASLt, or by a pass of its own. */
typedef enum {
    EPILOGUE_NONE,
    EPILOGUE_GELU, /* hidden = the sum and its bias, c = dropout(gelu(hidden)) */
    EPILOGUE_SLOPE /* c = dropout(the sum times gelu'(hidden)) */
} GemmEpilogue;

/* Where the sums go: rounded to c of `type`; to f32, written or added. */
typedef enum { SUMS_ROUNDED, SUMS_WRITTEN, SUMS_ADDED } GemmSums;

/* c [m, n] = op(a) op(b) + bias, or c += op(a) op(b), with op(a) [m, k] and op(b) [k, n]. */
typedef struct {
    void *c; /* of `type`; f32 unless SUMS_ROUNDED */
    const void *a, *b;
    GemmSums sums;
    const void *bias;      /* [n] of `type`, or NULL; only with SUMS_ROUNDED */
    GemmEpilogue epilogue; /* only with SUMS_ROUNDED, not with transpose_a */
    GeluKind gelu;
    Dropout drop; /* p = 0 if there is no epilogue; element row * n + column */
    void *hidden; /* [m, n] of `type`, or NULL if there is no epilogue */
    int64_t m, n, k;
    DType type;        /* of a and b: f32, bf16 or f16; sums are f32 */
    bool transpose_a;  /* a is stored [k, m] */
    bool transpose_b;  /* b is stored [n, k] */
    bool rows_vary;    /* m is a number of tokens, which changes from call to call ... */
    bool depth_varies; /* ... or k is */
} Gemm;

/* Computes the product by the library, if it is installed and can, else by our own kernels; one with an epilogue that
 * the library lacks in the faster of two ways (gelu_choice.h). */
void gemm_multiply(Device *device, const Gemm *gemm);

/* Uses our own kernels: f32 in true f32, 16-bit types on tensor cores; the same bits every time. */
void gemm_own(Device *device, const Gemm *gemm);

/* Loads the library now rather than at the first product. */
void gemm_prepare(Device *device);

#ifdef __cplusplus
}

/* Adds the sums of dy's columns to dbias [columns]. */
void add_column_sums(Device *device, float *dbias, Tensor dy);

/* gemm_own for one type: gemm_<type>.cu. */
template <class T> void gemm_of(Device *device, const Gemm &gemm);
extern template void gemm_of<float>(Device *device, const Gemm &gemm); /* there, and nowhere else */
extern template void gemm_of<bf16>(Device *device, const Gemm &gemm);
extern template void gemm_of<f16>(Device *device, const Gemm &gemm);
#endif
