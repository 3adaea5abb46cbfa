/* Linear layers: GEMMs by oneDNN, and the bias. The GEMM is the floor of a training step: 2 N in out FLOPs forward,
 * twice that backward. oneDNN has two ways to it. dnnl_sgemm starts at once; the matmul primitive is compiled for each
 * new shape, about 1 ms, and is then up to 1.5 times as fast when B is transposed, and adds a bias on the way. So large
 * products without accumulation go through the primitive, all others through dnnl_sgemm. */
#include "kernels/cpu/simd.h"

static const int64_t matmul_from = (int64_t)1 << 28; /* m n k from which the compilation is soon paid back */

static dnnl_memory_desc_t describe(int64_t rows, int64_t columns, dnnl_format_tag_t tag) {
    dnnl_memory_desc_t description;
    dnnl_dims_t dims = {rows, columns};
    check_dnnl(dnnl_memory_desc_init_by_tag(&description, 2, dims, dnnl_f32, tag), "a matrix's description");
    return description;
}

/* y [m, n] = a [m, k] op(b) + bias (or NULL), as a primitive, which oneDNN keeps for the next time. */
static void matmul(Device *device, float *y, const float *a, const float *b, bool transposed, const float *bias,
                   int64_t m, int64_t n, int64_t k) {
    const CpuState *state = device->state;
    enum { SOURCE, WEIGHTS, OUTPUT, BIAS };
    static const int roles[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_BIAS};
    const float *data[] = {a, b, y, bias};
    dnnl_memory_desc_t shapes[] = {describe(m, k, dnnl_ab), describe(k, n, transposed ? dnnl_ba : dnnl_ab),
                                   describe(m, n, dnnl_ab), describe(1, n, dnnl_ab)};
    dnnl_matmul_desc_t operation;
    dnnl_primitive_desc_t chosen;
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t arguments[4];
    int count = bias ? 4 : 3;
    check_dnnl(dnnl_matmul_desc_init(&operation, &shapes[SOURCE], &shapes[WEIGHTS], bias ? &shapes[BIAS] : NULL,
                                     &shapes[OUTPUT]),
               "a matmul's description");
    check_dnnl(dnnl_primitive_desc_create(&chosen, &operation, NULL, state->engine, NULL), "the choice of a matmul");
    check_dnnl(dnnl_primitive_create(&primitive, chosen), "compiling a matmul");
    for (int i = 0; i < count; i++) {
        arguments[i].arg = roles[i];
        check_dnnl(dnnl_memory_create(&arguments[i].memory, &shapes[i], state->engine, (void *)(uintptr_t)data[i]),
                   "a matrix");
    }
    check_dnnl(dnnl_primitive_execute(primitive, state->stream, count, arguments), "matmul");
    check_dnnl(dnnl_stream_wait(state->stream), "matmul");
    for (int i = 0; i < count; i++) dnnl_memory_destroy(arguments[i].memory);
    dnnl_primitive_destroy(primitive);
    dnnl_primitive_desc_destroy(chosen);
}

/* y [m, n] = a [m, k] op(b) + bias (or NULL). */
static void product(Device *device, float *y, const float *a, const float *b, bool transposed, const float *bias,
                    int64_t m, int64_t n, int64_t k) {
    omp_set_num_threads(device->n_threads); /* oneDNN takes what OpenMP would */
    if ((transposed || bias) && (double)m * (double)n * (double)k >= (double)matmul_from) {
        matmul(device, y, a, b, transposed, bias, m, n, k);
        return;
    }
    if (bias) { /* y starts as the bias, and the GEMM adds to it */
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
        for (int64_t i = 0; i < m; i++) memcpy(y + i * n, bias, (size_t)n * sizeof(float));
    }
    gemm('N', transposed ? 'T' : 'N', m, n, k, 1, a, k, b, transposed ? k : n, bias ? 1.0f : 0.0f, y, n);
}

static void cpu_linear_forward(Device *device, Tensor y, Tensor x, Tensor w, Tensor bias, WeightLayout layout) {
    product(device, y.data, x.data, w.data, layout == WEIGHT_OUT_IN, bias.data, x.dims[0], y.dims[1], x.dims[1]);
}

static void cpu_linear_backward(Device *device, Tensor dx, Tensor dw, Tensor dbias, Tensor dy, Tensor x, Tensor w,
                                WeightLayout layout) {
    int64_t n = x.dims[0], in = x.dims[1], out = dy.dims[1];
    if (dx.data) product(device, dx.data, dy.data, w.data, layout == WEIGHT_IN_OUT, NULL, n, in, out);
    omp_set_num_threads(device->n_threads);
    if (layout == WEIGHT_IN_OUT)
        gemm('T', 'N', in, out, n, 1, x.data, in, dy.data, out, 1, dw.data, out);
    else
        gemm('T', 'N', out, in, n, 1, dy.data, out, x.data, in, 1, dw.data, in);
    if (!dbias.data) return;
    int64_t blocks = (out + COLUMNS - 1) / COLUMNS;
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
    for (int64_t block = 0; block < blocks; block++) {
        int64_t at = block * COLUMNS, width = out - at < COLUMNS ? out - at : COLUMNS;
        float sums[COLUMNS] = {0};
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < width; j++) sums[j] += ((const float *)dy.data)[i * out + at + j];
        for (int64_t j = 0; j < width; j++) ((float *)dbias.data)[at + j] += sums[j];
    }
}

/* A GEMM takes no epilogue: GELU and dropout are one loop after it. */
static void cpu_linear_gelu_forward(Device *device, Tensor y, Tensor hidden, Tensor x, Tensor w, Tensor bias,
                                    WeightLayout layout, GeluKind kind, Dropout drop) {
    cpu_linear_forward(device, hidden, x, w, bias, layout);
    gelu_then_dropout(device, y, hidden, kind, drop);
}

static void cpu_gelu_linear_backward(Device *device, Tensor dhidden, Tensor dw, Tensor dbias, Tensor dy, Tensor x,
                                     Tensor hidden, Tensor w, WeightLayout layout, GeluKind kind, Dropout drop) {
    cpu_linear_backward(device, dhidden, dw, dbias, dy, x, w, layout);
    gelu_then_dropout_backward(device, dhidden, dhidden, hidden, kind, drop);
}
