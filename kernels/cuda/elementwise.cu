/* Casts, dropout, residual, GELU, tanh, leaky ReLU, SiLU, gates, gather and scatter, sum. All of them are limited by
 * memory: each number is read once and written once. */
#include "kernels/cuda/check_index.h"
#include "kernels/cuda/gelu.h"
#include "kernels/cuda/memory.h"

namespace {

enum { BLOCK = 256, PIECES = 2 };

/* y[i] = f(i, a[i], b[i]), b only if f takes two.
 *
 * A thread computes PIECES packs of W numbers, BLOCK packs apart, so that each access of a warp is one run of memory;
 * it loads all of them before it computes, and 16 bytes an input, a piece and a thread in flight hide the memory's
 * latency. The numbers past the last whole pack are computed one by one by the thread whose pack they would be.
 * Grid: n / (PIECES BLOCK W). Bytes: n times the sizes of Y and of f's inputs. y may be a or b: a thread reads and
 * writes the same elements. */
template <int W, class Y, class X, class F>
__global__ void __launch_bounds__(BLOCK, 4) map(Y *y, const X *a, const X *b, int64_t n, F f) {
    int64_t first = ((int64_t)blockIdx.x * PIECES * BLOCK + threadIdx.x) * W;
    Pack<X, W> u[PIECES], v[PIECES];
    bool whole[PIECES];
#pragma unroll
    for (int p = 0; p < PIECES; p++) {
        int64_t at = first + p * BLOCK * W;
        whole[p] = at + W <= n;
        if (!whole[p]) continue;
        u[p] = load_pack<W>(a + at);
        v[p] = F::INPUTS == 2 ? load_pack<W>(b + at) : u[p];
    }
#pragma unroll
    for (int p = 0; p < PIECES; p++) {
        int64_t at = first + p * BLOCK * W;
        if (whole[p]) {
            store_pack(y + at, convert<Y>(f((uint64_t)at, convert<float>(u[p]), convert<float>(v[p]))));
            continue;
        }
        for (; at < n; at++) {
            Pack<float, 1> one = convert<float>(load_pack<1>(a + at));
            Pack<float, 1> two = F::INPUTS == 2 ? convert<float>(load_pack<1>(b + at)) : one;
            store_pack(y + at, convert<Y>(f((uint64_t)at, one, two)));
        }
    }
}

/* Packs of 16 bytes of the larger type. */
template <class Y, class X, class F>
void launch_map(Device *device, const char *op, Tensor y, Tensor a, Tensor b, F f) {
    constexpr int WIDTH = 16 / (sizeof(Y) > sizeof(X) ? sizeof(Y) : sizeof(X));
    int64_t n = tensor_numel(y);
    if (n == 0) return;
    with_width<WIDTH>(packs_fit(WIDTH, 0, y.data, a.data, b.data), [&](auto width) {
        constexpr int W = decltype(width)::value;
        unsigned grid = grid_of(op, ceil_div(n, PIECES * BLOCK * W));
        cuda_check(gpu_launch(map<W, Y, X, F>, grid, BLOCK, 0, cuda_stream(device), (Y *)y.data, (const X *)a.data,
                              (const X *)b.data, n, f),
                   op);
    });
}

struct Identity {
    static constexpr int INPUTS = 1;
    template <int W> GPU_INLINE Pack<float, W> operator()(uint64_t, Pack<float, W> x, Pack<float, W>) const {
        return x;
    }
};

struct Dropped {
    static constexpr int INPUTS = 1;
    DropoutNumbers drop;
    template <int W> GPU_INLINE Pack<float, W> operator()(uint64_t at, Pack<float, W> x, Pack<float, W>) const {
        return dropped(drop, at, x);
    }
};

struct Residual {
    static constexpr int INPUTS = 2;
    DropoutNumbers drop;
    template <int W> GPU_INLINE Pack<float, W> operator()(uint64_t at, Pack<float, W> x, Pack<float, W> branch) const {
        branch = dropped(drop, at, branch);
#pragma unroll
        for (int i = 0; i < W; i++) x[i] += branch[i];
        return x;
    }
};

template <GeluKind KIND> struct Gelu {
    static constexpr int INPUTS = 1;
    DropoutNumbers drop;
    template <int W> GPU_INLINE Pack<float, W> operator()(uint64_t at, Pack<float, W> x, Pack<float, W>) const {
#pragma unroll
        for (int i = 0; i < W; i++) x[i] = gelu<KIND>(x[i]);
        return dropped(drop, at, x);
    }
};

template <GeluKind KIND> struct GeluGradient {
    static constexpr int INPUTS = 2;
    DropoutNumbers drop;
    template <int W> GPU_INLINE Pack<float, W> operator()(uint64_t at, Pack<float, W> dy, Pack<float, W> x) const {
#pragma unroll
        for (int i = 0; i < W; i++) dy[i] *= gelu_slope<KIND>(x[i]);
        return dropped(drop, at, dy);
    }
};

struct Tanh {
    static constexpr int INPUTS = 1;
    template <int W> GPU_INLINE Pack<float, W> operator()(uint64_t, Pack<float, W> x, Pack<float, W>) const {
#pragma unroll
        for (int i = 0; i < W; i++) x[i] = tanhf(x[i]);
        return x;
    }
};

/* (1 - y) (1 + y) keeps the digits that 1 - y^2 loses where y is nearly 1. */
struct TanhGradient {
    static constexpr int INPUTS = 2;
    template <int W> GPU_INLINE Pack<float, W> operator()(uint64_t, Pack<float, W> dy, Pack<float, W> y) const {
#pragma unroll
        for (int i = 0; i < W; i++) dy[i] *= (1.0f - y[i]) * (1.0f + y[i]);
        return dy;
    }
};

/* dy or slope dy, as x says; with INPUTS 1 they are the same. */
template <int N> struct LeakyRelu {
    static constexpr int INPUTS = N;
    float slope;
    template <int W> GPU_INLINE Pack<float, W> operator()(uint64_t, Pack<float, W> dy, Pack<float, W> x) const {
#pragma unroll
        for (int i = 0; i < W; i++) dy[i] = x[i] > 0.0f ? dy[i] : slope * dy[i];
        return dy;
    }
};

/* 1 / (1 + exp(-x)). As in tanh_gelu_sigmoid, the error of the fast exponential is that of one rounding. */
GPU_INLINE float sigmoid(float x) { return __fdividef(1.0f, 1.0f + __expf(-x)); }

struct Silu {
    static constexpr int INPUTS = 1;
    template <int W> GPU_INLINE Pack<float, W> operator()(uint64_t, Pack<float, W> x, Pack<float, W>) const {
#pragma unroll
        for (int i = 0; i < W; i++) x[i] *= sigmoid(x[i]);
        return x;
    }
};

/* y[row] = a sigmoid(b) or a gelu(b) of row a | b of x, 2 c wide; W numbers a thread. Grid: n / (BLOCK W), n those of
 * y. Bytes: 3 n times the size of T. */
template <GateKind KIND, class T, int W>
__global__ void __launch_bounds__(BLOCK) gate(T *y, const T *x, int64_t n, int64_t c) {
    int64_t at = ((int64_t)blockIdx.x * BLOCK + threadIdx.x) * W;
    if (at >= n) return;
    const T *from = x + at + at / c * c;
    Pack<float, W> a = convert<float>(load_pack<W>(from)), b = convert<float>(load_pack<W>(from + c));
#pragma unroll
    for (int i = 0; i < W; i++) a[i] *= KIND == GATE_SIGMOID ? sigmoid(b[i]) : gelu<GELU_ERF>(b[i]);
    store_pack(y + at, convert<T>(a));
}

template <GateKind KIND> void launch_gate(Device *device, Tensor y, Tensor x) {
    int64_t n = tensor_numel(y), c = y.dims[1];
    if (n == 0) return;
    with_packs(y.dtype, c, {y.data, x.data}, [&](auto zero, auto width) {
        using T = decltype(zero);
        constexpr int W = decltype(width)::value;
        cuda_check(gpu_launch(gate<KIND, T, W>, grid_of("gate_forward", ceil_div(n, BLOCK * W)), BLOCK, 0,
                              cuda_stream(device), (T *)y.data, (const T *)x.data, n, c),
                   "gate_forward");
    });
}

/* to[i] = from[rows[i]], or to[rows[i]] = from[i]: the rows are those of `from` or of `to`, the other is null.
 *
 * One warp a row; `limit` is the number of rows of the side that rows point to. Grid: n / (BLOCK / 32). Bytes: n c
 * times the sizes of both types, 4 n of indices. */
template <int W, class To, class From>
__global__ void __launch_bounds__(BLOCK)
    move_rows(To *__restrict__ to, const int32_t *to_rows, const From *__restrict__ from, const int32_t *from_rows,
              int64_t n, int64_t limit, int64_t c) {
    int64_t i = (int64_t)blockIdx.x * (BLOCK / 32) + threadIdx.x / 32;
    if (i >= n) return;
    int64_t row = from_rows ? from_rows[i] : to_rows[i];
    check_row("gather_rows, scatter_rows: rows", i, row, limit);
    if (row < 0) {
        for (int64_t j = threadIdx.x % 32 * W; from_rows && j < c; j += 32 * W)
            store_pack(to + i * c + j, Pack<To, W>{});
        return;
    }
    to += (from_rows ? i : row) * c;
    from += (from_rows ? row : i) * c;
#pragma unroll 4
    for (int64_t j = threadIdx.x % 32 * W; j < c; j += 32 * W) store_pack(to + j, convert<To>(load_pack<W>(from + j)));
}

template <class To, class From>
void launch_move(Device *device, const char *op, Tensor to, Tensor to_rows, Tensor from, Tensor from_rows) {
    constexpr int WIDTH = 16 / (sizeof(To) > sizeof(From) ? sizeof(To) : sizeof(From));
    bool gathers = tensor_given(from_rows);
    int64_t n = gathers ? to.dims[0] : from.dims[0], limit = gathers ? from.dims[0] : to.dims[0], c = to.dims[1];
    if (n == 0 || c == 0) return;
    with_width<WIDTH>(packs_fit(WIDTH, c, to.data, from.data), [&](auto width) {
        constexpr int W = decltype(width)::value;
        cuda_check(gpu_launch(move_rows<W, To, From>, grid_of(op, ceil_div(n, BLOCK / 32)), BLOCK, 0,
                              cuda_stream(device), (To *)to.data, (const int32_t *)to_rows.data,
                              (const From *)from.data, (const int32_t *)from_rows.data, n, limit, c),
                   op);
    });
}

/* Sums: every block sums SUM_PIECE numbers into a double, then one block sums those. How the numbers are grouped
 * depends on n alone. Each thread adds its numbers in double; a loss a token, it is a short array. Grid: n / SUM_PIECE,
 * then 1. Bytes: 4 n. */
enum { SUM_PIECE = 16 * BLOCK };

__global__ void __launch_bounds__(BLOCK) sum_pieces(double *sums, const float *x, int64_t n) {
    SHARED(double, scratch, [32]);
    int64_t first = (int64_t)blockIdx.x * SUM_PIECE, end = first + SUM_PIECE < n ? first + SUM_PIECE : n;
    double sum = 0;
#pragma unroll 4
    for (int64_t i = first + threadIdx.x; i < end; i += BLOCK) sum += (double)x[i];
    sum = block_sum_double(sum, scratch);
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(BLOCK) sum_of_sums(float *out, const double *sums, int64_t n) {
    SHARED(double, scratch, [32]);
    double sum = 0;
    for (int64_t i = threadIdx.x; i < n; i += BLOCK) sum += sums[i];
    sum = block_sum_double(sum, scratch);
    if (threadIdx.x == 0) *out = (float)sum;
}

} // namespace

void cuda_cast(Device *device, Tensor y, Tensor x) {
    with_type(y.dtype, [&](auto to) {
        with_type(x.dtype, [&](auto from) {
            launch_map<decltype(to), decltype(from)>(device, "cast", y, x, tensor_none(), Identity());
        });
    });
}

void cuda_dropout(Device *device, Tensor y, Tensor x, Dropout drop) {
    with_type(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        launch_map<T, T>(device, "dropout", y, x, tensor_none(), Dropped{dropout_numbers(drop)});
    });
}

void cuda_residual_forward(Device *device, Tensor sum, Tensor x, Tensor branch, Dropout drop) {
    with_type(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        launch_map<T, T>(device, "residual_forward", sum, x, branch, Residual{dropout_numbers(drop)});
    });
}

void gelu_then_dropout(Device *device, Tensor y, Tensor x, GeluKind kind, Dropout drop) {
    with_type(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        if (kind == GELU_TANH)
            launch_map<T, T>(device, "gelu_forward", y, x, tensor_none(), Gelu<GELU_TANH>{dropout_numbers(drop)});
        else
            launch_map<T, T>(device, "gelu_forward", y, x, tensor_none(), Gelu<GELU_ERF>{dropout_numbers(drop)});
    });
}

void cuda_gelu_forward(Device *device, Tensor y, Tensor x, GeluKind kind) {
    gelu_then_dropout(device, y, x, kind, Dropout());
}

void gelu_then_dropout_backward(Device *device, Tensor dx, Tensor dy, Tensor x, GeluKind kind, Dropout drop) {
    with_type(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        if (kind == GELU_TANH)
            launch_map<T, T>(device, "gelu_backward", dx, dy, x, GeluGradient<GELU_TANH>{dropout_numbers(drop)});
        else
            launch_map<T, T>(device, "gelu_backward", dx, dy, x, GeluGradient<GELU_ERF>{dropout_numbers(drop)});
    });
}

void cuda_gelu_backward(Device *device, Tensor dx, Tensor dy, Tensor x, GeluKind kind) {
    gelu_then_dropout_backward(device, dx, dy, x, kind, Dropout());
}

void cuda_tanh_forward(Device *device, Tensor y, Tensor x) {
    with_type(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        launch_map<T, T>(device, "tanh_forward", y, x, tensor_none(), Tanh());
    });
}

void cuda_tanh_backward(Device *device, Tensor dx, Tensor dy, Tensor y) {
    with_type(y.dtype, [&](auto zero) {
        using T = decltype(zero);
        launch_map<T, T>(device, "tanh_backward", dx, dy, y, TanhGradient());
    });
}

void cuda_leaky_relu_forward(Device *device, Tensor y, Tensor x, float slope) {
    with_type(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        launch_map<T, T>(device, "leaky_relu_forward", y, x, tensor_none(), LeakyRelu<1>{slope});
    });
}

void cuda_leaky_relu_backward(Device *device, Tensor dx, Tensor dy, Tensor x, float slope) {
    with_type(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        launch_map<T, T>(device, "leaky_relu_backward", dx, dy, x, LeakyRelu<2>{slope});
    });
}

void cuda_silu_forward(Device *device, Tensor y, Tensor x) {
    with_type(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        launch_map<T, T>(device, "silu_forward", y, x, tensor_none(), Silu());
    });
}

void cuda_gate_forward(Device *device, Tensor y, Tensor x, GateKind kind) {
    if (kind == GATE_SIGMOID)
        launch_gate<GATE_SIGMOID>(device, y, x);
    else
        launch_gate<GATE_GELU>(device, y, x);
}

void cuda_gather_rows(Device *device, Tensor y, Tensor x, Tensor rows) {
    with_type(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        launch_move<T, T>(device, "gather_rows", y, tensor_none(), x, rows);
    });
}

void cuda_scatter_rows(Device *device, Tensor x, Tensor y, Tensor rows) {
    with_type(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        if (y.dtype == DTYPE_F32)
            launch_move<T, float>(device, "scatter_rows", x, rows, y, tensor_none());
        else
            launch_move<T, T>(device, "scatter_rows", x, rows, y, tensor_none());
    });
}

cudaError_t cuda_find_code(void) {
    cudaFuncAttributes attributes;
    return cudaFuncGetAttributes(&attributes, reinterpret_cast<const void *>(sum_of_sums));
}

const int *cuda_architectures(int *n) {
    static const int all[] = {__CUDA_ARCH_LIST__};
    *n = sizeof all / sizeof *all;
    return all;
}

void cuda_sum_forward(Device *device, Tensor out, Tensor x) {
    int64_t n = x.dims[0], pieces = ceil_div(n, SUM_PIECE);
    double *sums = (double *)cuda_scratch(device, (size_t)pieces * sizeof *sums);
    if (pieces)
        cuda_check(gpu_launch(sum_pieces, grid_of("sum_forward", pieces), BLOCK, 0, cuda_stream(device), sums,
                              (const float *)x.data, n),
                   "sum_forward");
    cuda_check(gpu_launch(sum_of_sums, 1, BLOCK, 0, cuda_stream(device), (float *)out.data, sums, pieces),
               "sum_forward");
}
