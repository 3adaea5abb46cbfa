/* Shared by the operations of the cpu device. The operations are static functions in files that operations.c includes,
 * compiled once per instruction set. Every parallel loop names the device's number of threads: two devices with
 * different numbers may be open at once. */
#pragma once

#include <dnnl.h>
#include <omp.h>

#include "base/base.h"
#include "kernels/onednn.h"
#include "kernels/ops_table.h"

/* The device's own state. Scratch grows when an operation needs more than all before, and is never freed. */
typedef struct {
    float *scratch;
    size_t scratch_floats;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
} CpuState;

/* Returns scratch of at least `floats` numbers, 64-byte aligned, valid until the next call. Must not be called inside a
 * parallel region. */
float *cpu_scratch(Device *device, size_t floats);

/* Returns `floats` rounded up to whole cache lines. */
static inline int64_t whole_lines(int64_t floats) { return (floats + 15) / 16 * 16; }

static inline void check_dnnl(dnnl_status_t status, const char *what) {
    if (status != dnnl_success) die("oneDNN: %s failed with status %d", what, (int)status);
}

/* Lets oneDNN compute with the calling thread alone. oneDNN divides its work by the number of threads that OpenMP would
 * give. That changes the order of sums, and hangs or leaves work undone if fewer threads start. So all work for oneDNN
 * is cut into pieces whose sizes do not depend on the threads, and our own parallel loops distribute the pieces. */
static inline void compute_alone(void) { omp_set_num_threads(1); }

/* Computes C [m, n] = alpha op(A) op(B) + beta C, row-major, with the calling thread. op is 'N' or 'T'; ld is the
 * stride of rows as stored. */
static inline void gemm(char op_a, char op_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
                        const float *b, int64_t ldb, float beta, float *c, int64_t ldc) {
    compute_alone();
    check_dnnl(dnnl_sgemm(op_a, op_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc), "sgemm");
}

/* Returns the factor of a loss's gradient. */
static inline float scale_with(Tensor scale, Tensor loss_scale) {
    float factor = tensor_given(loss_scale) ? ((const float *)loss_scale.data)[LOSS_SCALE_FACTOR] : 1;
    return *(const float *)scale.data * factor;
}

/* Dies unless every index is in [from, limit): an index outside would read or write other memory. */
static inline void check_indices(const char *op, const char *name, Tensor indices, int64_t from, int64_t limit) {
    const int32_t *index = indices.data;
    for (int64_t i = 0; index && i < indices.dims[0]; i++)
        if (index[i] < from || index[i] >= limit)
            die("%s: %s[%lld] is %d, expected less than %lld%s", op, name, (long long)i, index[i], (long long)limit,
                from == 0  ? " and not negative"
                : from > 0 ? " and not 0 or negative"
                           : ", and not below -1");
}
