/* Linear layers: matrix products, by cuBLASLt if it is installed and otherwise by our own kernels, and the gradient of
 * the bias. */
#include "kernels/cuda/gemm/gelu_choice.h"
#include "kernels/cuda/gemm/gemm_kernel.h"
#include "kernels/cuda/libraries/cublas.h"

#include <string.h>

namespace {

/* Sums of the columns of x [rows, columns], of `each` rows a block in y: output [parts, columns].
 *
 * A warp reads 32 packs of W numbers side by side, every eighth row of its block's; the eight warps' sums meet in
 * shared memory, 8 x 32 W floats, in the warps' order. Grid: columns / (32 W) x rows / each. Bytes: x once. */
template <int W, class T>
__global__ void __launch_bounds__(256) column_sums(Output<float> output, const T *x, int64_t rows, int64_t each) {
    constexpr int WIDTH = 32 * W;
    SHARED(float, sums, [8][WIDTH]);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int64_t first = (int64_t)blockIdx.x * WIDTH, column = first + lane * W, columns = output.n;
    int64_t row = (int64_t)blockIdx.y * each, end = min(row + each, rows);
    Pack<float, W> sum = zeros<W>();
    if (column < columns) {
#pragma unroll 4
        for (row += warp; row < end; row += 8) {
            Pack<float, W> numbers = convert<float>(load_pack<W>(x + row * columns + column));
#pragma unroll
            for (int i = 0; i < W; i++) sum[i] += numbers[i];
        }
    }
#pragma unroll
    for (int i = 0; i < W; i++) sums[warp][lane * W + i] = sum[i];
    __syncthreads();
    if (threadIdx.x >= WIDTH || first + threadIdx.x >= columns) return;
    Pack<float, 1> total = {{sums[0][threadIdx.x]}};
    for (int w = 1; w < 8; w++) total[0] += sums[w][threadIdx.x];
    output.write(blockIdx.y, 0, (int)(first + threadIdx.x), total);
}

/* Returns the product y = x W and the bias, without an epilogue. */
Gemm forward_of(Tensor y, Tensor x, Tensor w, Tensor bias, WeightLayout layout) {
    Gemm gemm = {};
    gemm.c = y.data, gemm.a = x.data, gemm.b = w.data, gemm.bias = bias.data;
    gemm.m = x.dims[0], gemm.n = y.dims[1], gemm.k = x.dims[1];
    gemm.type = x.dtype;
    gemm.transpose_b = layout == WEIGHT_OUT_IN;
    gemm.rows_vary = true;
    return gemm;
}

/* dx = dy W^T */
Gemm backward_of(Tensor dx, Tensor dy, Tensor w, WeightLayout layout) {
    return forward_of(dx, dy, w, tensor_none(), layout == WEIGHT_IN_OUT ? WEIGHT_OUT_IN : WEIGHT_IN_OUT);
}

/* dw += x^T dy, or its transpose, or = with overwrite; dbias += the sums of dy's columns. */
void parameter_gradients(Device *device, LayerGradients to, Tensor dy, Tensor x, WeightLayout layout) {
    Tensor a = layout == WEIGHT_IN_OUT ? x : dy, b = layout == WEIGHT_IN_OUT ? dy : x;
    Gemm gemm = {};
    gemm.c = to.dw.data, gemm.a = a.data, gemm.b = b.data;
    gemm.m = a.dims[1], gemm.n = b.dims[1], gemm.k = x.dims[0];
    gemm.type = x.dtype;
    gemm.transpose_a = true;
    gemm.sums = to.overwrite ? SUMS_WRITTEN : SUMS_ADDED;
    gemm.depth_varies = true;
    gemm_multiply(device, &gemm);
    if (to.dbias.data) add_column_sums(device, (float *)to.dbias.data, dy);
}

} // namespace

/* dbias += column sums of dy, in two stages where one would not occupy the card. It is a pass over dy of its own: the
 * library can sum columns beside the dw product, but overwrites, and promises neither f32 nor an order of additions. */
void add_column_sums(Device *device, float *dbias, Tensor dy) {
    int64_t rows = dy.dims[0], columns = dy.dims[1];
    if (rows == 0 || columns == 0) return;
    Output<float> output = {}, part = {};
    output.m = part.m = 1;
    output.n = part.n = (int)columns;
    output.sums = dbias, output.add = true;
    output.packs = packs_fit(4, columns, dbias);
    part.packs = columns % 4 == 0;
    with_type(dy.dtype, [&](auto zero) {
        typedef decltype(zero) T;
        const T *x = (const T *)dy.data;
        with_width<Vector<T>::SIZE>(packs_fit(Vector<T>::SIZE, columns, x), [&](auto width) {
            constexpr int W = decltype(width)::value;
            int64_t across = ceil_div(columns, 32 * W), wanted = 4 * cuda_state(device)->n_multiprocessors / across,
                    most = ceil_div(rows, 64), parts = wanted < most ? wanted : most;
            parts = parts < 1 ? 1 : parts > 1024 ? 1024 : parts;
            if (parts > 1) part.sums = (float *)cuda_scratch(device, (size_t)(parts * columns) * sizeof(float));
            int64_t each = ceil_div(rows, parts);
            parts = ceil_div(rows, each); /* or fewer */
            dim3 grid(grid_of("linear_backward", across), (unsigned)parts);
            cuda_check(gpu_launch(column_sums<W, T>, grid, 256, 0, cuda_stream(device), parts > 1 ? part : output, x,
                                  rows, each),
                       "the sums of columns");
            if (parts > 1) launch_add_parts(device, output, part.sums, (int)parts, Finish<float>());
        });
    });
}

void gemm_multiply(Device *device, const Gemm *gemm) {
    CudaState *state = cuda_state(device);
    if (gemm->m == 0 || gemm->n == 0 || (gemm->sums && gemm->k == 0)) return;
    gemm_prepare(device);
    if (state->library && cublas_multiply(device, gemm)) return;
    if (gemm->epilogue && gelu_multiply_in_two(device, gemm)) return;
    gemm_own(device, gemm);
}

void gemm_prepare(Device *device) {
    if (cuda_state(device)->library || !LOOK_FOR_LIBRARY) return;
    cublas_open(device, NULL);
    size_t used = strlen(device->description);
    snprintf(device->description + used, sizeof device->description - used, ", %s", cublas_description(device));
}

void cuda_linear_forward(Device *device, Tensor y, Tensor x, Tensor w, Tensor bias, WeightLayout layout) {
    Gemm gemm = forward_of(y, x, w, bias, layout);
    gemm_multiply(device, &gemm);
}

void cuda_linear_backward(Device *device, LayerGradients to, Tensor dy, Tensor x, Tensor w, WeightLayout layout) {
    Gemm gemm = backward_of(to.dx, dy, w, layout);
    if (to.dx.data) gemm_multiply(device, &gemm);
    parameter_gradients(device, to, dy, x, layout);
}

void cuda_linear_gelu_forward(Device *device, Tensor y, Tensor hidden, Tensor x, Tensor w, Tensor bias,
                              WeightLayout layout, GeluDropout activation) {
    Gemm gemm = forward_of(y, x, w, bias, layout);
    gemm.epilogue = EPILOGUE_GELU, gemm.gelu = activation.kind, gemm.drop = activation.drop, gemm.hidden = hidden.data;
    gemm_multiply(device, &gemm);
}

void cuda_gelu_linear_backward(Device *device, LayerGradients to, Tensor dy, Tensor x, Tensor hidden, Tensor w,
                               WeightLayout layout, GeluDropout activation) {
    Gemm gemm = backward_of(to.dx, dy, w, layout);
    gemm.epilogue = EPILOGUE_SLOPE, gemm.gelu = activation.kind, gemm.drop = activation.drop, gemm.hidden = hidden.data;
    gemm_multiply(device, &gemm);
    parameter_gradients(device, to, dy, x, layout);
}
