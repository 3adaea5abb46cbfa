/* Inside the cpu device: what its operations share. The operations themselves are static functions in files that
 * operations.c includes, compiled once for each instruction set. */
#ifndef KERNELS_CPU_H
#define KERNELS_CPU_H

#include <dnnl.h>

#include "base/base.h"
#include "kernels/ops_table.h"

/* The device's own state. Scratch grows when a longer sequence than any before comes, and is never given back. */
typedef struct {
    float *scratch; /* n_threads pieces of scratch_floats each */
    size_t scratch_floats;
} CpuState;

/* Scratch of one thread: at least `floats` numbers. Call outside of a parallel region; piece t is thread t's. */
float *cpu_scratch(Device *device, size_t floats);

/* C [m, n] = alpha op(A) op(B) + beta C, row-major; op is 'N' or 'T'; ld is the distance of rows as stored. */
static inline void gemm(char op_a, char op_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
                        const float *b, int64_t ldb, float beta, float *c, int64_t ldc) {
    dnnl_status_t status = dnnl_sgemm(op_a, op_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    if (status != dnnl_success)
        die("oneDNN sgemm [%ld, %ld, %ld] failed: status %d", (long)m, (long)n, (long)k, (int)status);
}

#endif
