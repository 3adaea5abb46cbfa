/* Linear layers: matrix products, and the bias. Products dominate a training step: 2 N in out FLOPs forward, twice as
 * many backward. */
#include "kernels/cpu/product.h"

static void cpu_linear_forward(Device *device, Tensor y, Tensor x, Tensor w, Tensor bias, WeightLayout layout) {
    bool transposed = layout == WEIGHT_OUT_IN;
    int64_t in = x.dims[1], out = y.dims[1];
    product(device, (Product){.y = y.data,
                              .a = x.data,
                              .b = w.data,
                              .bias = bias.data,
                              .op_a = 'N',
                              .op_b = transposed ? 'T' : 'N',
                              .m = x.dims[0],
                              .n = out,
                              .k = in,
                              .a_row = in,
                              .b_row = transposed ? in : out});
}

static void cpu_linear_backward(Device *device, LayerGradients to, Tensor dy, Tensor x, Tensor w, WeightLayout layout) {
    int64_t n = x.dims[0], in = x.dims[1], out = dy.dims[1];
    bool transposed = layout == WEIGHT_IN_OUT;
    if (to.dx.data)
        product(device, (Product){.y = to.dx.data,
                                  .a = dy.data,
                                  .b = w.data,
                                  .op_a = 'N',
                                  .op_b = transposed ? 'T' : 'N',
                                  .m = n,
                                  .n = in,
                                  .k = out,
                                  .a_row = out,
                                  .b_row = transposed ? out : in});
    Product of_weights = {.y = to.dw.data,
                          .a = dy.data,
                          .b = x.data,
                          .op_a = 'T',
                          .op_b = 'N',
                          .add = !to.overwrite,
                          .m = out,
                          .n = in,
                          .k = n,
                          .a_row = out,
                          .b_row = in};
    if (layout == WEIGHT_IN_OUT)
        of_weights.a = x.data, of_weights.b = dy.data, of_weights.m = of_weights.a_row = in,
        of_weights.n = of_weights.b_row = out;
    product(device, of_weights);
    if (!to.dbias.data) return;
    int64_t blocks = (out + COLUMNS - 1) / COLUMNS;
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
    for (int64_t block = 0; block < blocks; block++) {
        int64_t at = block * COLUMNS, width = out - at < COLUMNS ? out - at : COLUMNS;
        float sums[COLUMNS] = {0};
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < width; j++) sums[j] += ((const float *)dy.data)[i * out + at + j];
        for (int64_t j = 0; j < width; j++) ((float *)to.dbias.data)[at + j] += sums[j];
    }
}

/* The GEMM has no epilogue, so GELU and dropout are one loop after it. */
static void cpu_linear_gelu_forward(Device *device, Tensor y, Tensor hidden, Tensor x, Tensor w, Tensor bias,
                                    WeightLayout layout, GeluDropout activation) {
    cpu_linear_forward(device, hidden, x, w, bias, layout);
    gelu_then_dropout(device, y, hidden, activation.kind, activation.drop);
}

static void cpu_gelu_linear_backward(Device *device, LayerGradients to, Tensor dy, Tensor x, Tensor hidden, Tensor w,
                                     WeightLayout layout, GeluDropout activation) {
    cpu_linear_backward(device, to, dy, x, w, layout);
    gelu_then_dropout_backward(device, to.dx, to.dx, hidden, activation.kind, activation.drop);
}
