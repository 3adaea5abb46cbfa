/* Layer normalisation of rows. With x^ = (x - mean) rstd and g = dy gain:
 *   dx = rstd (g - mean(g) - x^ mean(g x^)),  dgain = sum over rows of dy x^,  dbias = sum over rows of dy.
 *
 * A block takes several rows at a time. A thread has the same COLUMNS of all of them, in registers: each row is
 * read once, and the columns' sums over rows need nobody else. Sums along rows go through one barrier for all rows. */
#include "kernels/cuda/memory.h"

namespace {

/* Columns of a thread; so rows have up to COLUMNS times MAX_THREADS. Row groups of the backward, at most. */
enum { COLUMNS = 8, MAX_THREADS = 640, MAX_GROUPS = 512, SUM_WARPS = 16 };

/* Rows that a block takes at a time: as many as fit into the registers, which hold two bytes of a 16-bit number but
 * four of a lone one. */
template <class T, int W> constexpr int ROWS = W == 1 ? 1 : 8 / sizeof(T);

/* The thread's packs of a row are blockDim.x packs apart; this is the first column of pack v. */
template <int W> GPU_INLINE int64_t column_of(int v) { return ((int64_t)v * blockDim.x + threadIdx.x) * W; }

/* Loads this thread's packs of R rows from `first` on, those before `end`. */
template <class T, int W, int R, int PACKS>
GPU_INLINE void load_rows(Pack<T, W> (&row)[R][PACKS], const T *x, int64_t first, int64_t end, int64_t c) {
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int v = 0; v < PACKS; v++)
            if (first + r < end && column_of<W>(v) < c) row[r][v] = load_pack<W>(x + (first + r) * c + column_of<W>(v));
}

/* Returns a pack of x + dropout(branch) and stores it in `sum`: residual_forward's numbers. `at`: its place in both. */
template <class T, int W>
GPU_INLINE Pack<T, W> add_branch(T *sum, Pack<T, W> x, const T *branch, int64_t at, const DropoutNumbers &drop) {
    Pack<float, W> in = convert<float>(x),
                   added = dropped(drop, (uint64_t)at, convert<float>(load_pack<W>(branch + at)));
#pragma unroll
    for (int e = 0; e < W; e++) in[e] += added[e];
    Pack<T, W> out = convert<T>(in);
    store_pack(sum + at, out);
    return out;
}

/* Stores y = (x - mean) rstd gain + bias of R rows from `first` on, of which this thread has PACKS packs each. */
template <class T, int W, int R, int PACKS>
GPU_INLINE void store_normalized(T *y, const Pack<T, W> (&row)[R][PACKS], const float (&mean)[R],
                                 const float (&rstd)[R], const float *gain, const float *bias, int64_t first, int64_t n,
                                 int64_t c) {
#pragma unroll
    for (int v = 0; v < PACKS; v++) {
        int64_t column = column_of<W>(v);
        if (column >= c) continue;
        Pack<float, W> scale = load_pack<W>(gain + column), shift = bias ? load_pack<W>(bias + column) : zeros<W>();
#pragma unroll
        for (int r = 0; r < R; r++) {
            if (first + r >= n) continue;
            Pack<float, W> out = convert<float>(row[r][v]);
#pragma unroll
            for (int e = 0; e < W; e++) out[e] = (out[e] - mean[r]) * rstd[r] * scale[e] + shift[e];
            store_pack(y + (first + r) * c + column, convert<T>(out));
        }
    }
}

/* Computes mean, rstd and y of each row. With RESIDUAL the row is x + dropout(branch), which is stored in `sum` and
 * used as stored, so that the result equals that of the two operations one after the other.
 *
 * Grid: n / ROWS. Bytes: n c times the size of T: 2 (x, y), with RESIDUAL 4; 8 n. The gain and the bias stay in cache.
 */
template <class T, int W, bool RESIDUAL>
__global__ void __launch_bounds__(MAX_THREADS)
    normalize(T *sum, T *y, float *mean, float *rstd, const T *x, const T *branch, const float *gain, const float *bias,
              float epsilon, int64_t n, int64_t c, DropoutNumbers drop) {
    constexpr int PACKS = COLUMNS / W, R = ROWS<T, W>;
    SHARED(float, scratch, [2][MAX_THREADS / 32][R]);
    int64_t first = (int64_t)blockIdx.x * R;
    Pack<T, W> row[R][PACKS];
    float total[R], squares[R];
    load_rows(row, x, first, n, c);
#pragma unroll
    for (int r = 0; r < R; r++) {
        total[r] = 0;
#pragma unroll
        for (int v = 0; v < PACKS; v++) {
            if (first + r >= n || column_of<W>(v) >= c) continue;
            if (RESIDUAL) row[r][v] = add_branch<T, W>(sum, row[r][v], branch, (first + r) * c + column_of<W>(v), drop);
#pragma unroll
            for (int e = 0; e < W; e++) total[r] += to_float(row[r][v][e]);
        }
    }
    block_sums(total, scratch[0]);
#pragma unroll
    for (int r = 0; r < R; r++) {
        total[r] /= (float)c;
        squares[r] = 0;
#pragma unroll
        for (int v = 0; v < PACKS; v++) {
            if (first + r >= n || column_of<W>(v) >= c) continue;
#pragma unroll
            for (int e = 0; e < W; e++) {
                float from_mean = to_float(row[r][v][e]) - total[r];
                squares[r] += from_mean * from_mean;
            }
        }
    }
    block_sums(squares, scratch[1]);
#pragma unroll
    for (int r = 0; r < R; r++) squares[r] = 1.0f / sqrtf(squares[r] / (float)c + epsilon);
    if (threadIdx.x == 0)
#pragma unroll
        for (int r = 0; r < R; r++) {
            if (first + r >= n) continue;
            mean[first + r] = total[r];
            rstd[first + r] = squares[r];
        }
    store_normalized<T, W, R, PACKS>(y, row, total, squares, gain, bias, first, n, c);
}

/* Computes dx of one pack: `x` normalized is (x - mean) rstd, `dot` the two means of dy gain and of dy gain x^. */
template <class T, int W>
GPU_INLINE void store_dx(T *dx, const T *dresidual, Pack<T, W> dy, Pack<T, W> x, Pack<float, W> gain, float mean,
                         float rstd, const float (&dot)[2]) {
    Pack<float, W> out = dresidual ? convert<float>(load_pack<W>(dresidual)) : zeros<W>();
#pragma unroll
    for (int e = 0; e < W; e++) {
        float normal = (to_float(x[e]) - mean) * rstd;
        out[e] += rstd * (to_float(dy[e]) * gain[e] - dot[0] - normal * dot[1]);
    }
    store_pack(dx, convert<T>(out));
}

/* Computes dx, and of every group of `rows` rows the sums over them: sums f32 [groups, 2, c] of dy x^ and of dy.
 * dresidual may be null, and may be dx.
 *
 * Rounds of ROWS rows; the scratch of one round is free again when the next but one writes it, because the barrier of
 * the next lies between. Grid: the groups. Bytes: n c times the size of T: 3 (dy, x, dx), with dresidual 4; 8 n; 8 c a
 * group, written and read again: at most MAX_GROUPS, while n may be a hundred times that. */
template <class T, int W>
__global__ void __launch_bounds__(MAX_THREADS)
    gradients(T *dx, float *sums, const T *dresidual, const T *dy, const T *x, const float *mean, const float *rstd,
              const float *gain, int64_t n, int64_t c, int64_t rows) {
    constexpr int PACKS = COLUMNS / W, R = (ROWS<T, W> + 1) / 2;
    SHARED(float, scratch, [2][MAX_THREADS / 32][2 * R]);
    int64_t begin = blockIdx.x * rows, end = begin + rows < n ? begin + rows : n;
    Pack<float, W> dgain[PACKS], dbias[PACKS];
#pragma unroll
    for (int v = 0; v < PACKS; v++) dgain[v] = dbias[v] = zeros<W>();
    for (int64_t first = begin, round = 0; first < end; first += R, round++) {
        Pack<T, W> up[R][PACKS], in[R][PACKS];
        float m[R], s[R], dots[2 * R]; /* of g, and of g x^ */
        load_rows(up, dy, first, end, c);
        load_rows(in, x, first, end, c);
#pragma unroll
        for (int r = 0; r < R; r++) {
            m[r] = first + r < end ? mean[first + r] : 0.0f;
            s[r] = first + r < end ? rstd[first + r] : 0.0f;
            dots[2 * r] = dots[2 * r + 1] = 0;
        }
#pragma unroll
        for (int v = 0; v < PACKS; v++) {
            if (column_of<W>(v) >= c) continue;
            Pack<float, W> scale = load_pack<W>(gain + column_of<W>(v));
#pragma unroll
            for (int r = 0; r < R; r++) {
                if (first + r >= end) continue;
#pragma unroll
                for (int e = 0; e < W; e++) {
                    float d = to_float(up[r][v][e]), normal = (to_float(in[r][v][e]) - m[r]) * s[r];
                    dgain[v][e] += d * normal;
                    dbias[v][e] += d;
                    dots[2 * r] += d * scale[e];
                    dots[2 * r + 1] += d * scale[e] * normal;
                }
            }
        }
        block_sums(dots, scratch[round % 2]);
#pragma unroll
        for (int v = 0; v < PACKS; v++) {
            if (column_of<W>(v) >= c) continue;
            Pack<float, W> scale = load_pack<W>(gain + column_of<W>(v));
#pragma unroll
            for (int r = 0; r < R; r++) {
                if (first + r >= end) continue;
                int64_t at = (first + r) * c + column_of<W>(v);
                const float dot[] = {dots[2 * r] / (float)c, dots[2 * r + 1] / (float)c};
                store_dx<T, W>(dx + at, dresidual ? dresidual + at : nullptr, up[r][v], in[r][v], scale, m[r], s[r],
                               dot);
            }
        }
    }
#pragma unroll
    for (int v = 0; v < PACKS; v++) {
        if (column_of<W>(v) >= c) continue;
        store_pack(sums + 2 * blockIdx.x * c + column_of<W>(v), dgain[v]);
        store_pack(sums + (2 * blockIdx.x + 1) * c + column_of<W>(v), dbias[v]);
    }
}

/* dgain += and dbias += the groups' sums, in a fixed order: warp w of a column's 32 takes groups w, w + SUM_WARPS, ...,
 * then the warps' sums are added. Grid: 2 c / 32. Bytes: 8 c a group. */
__global__ void __launch_bounds__(32 * SUM_WARPS)
    add_groups(float *dgain, float *dbias, const float *sums, int64_t groups, int64_t c) {
    SHARED(float, scratch, [SUM_WARPS][32]);
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int64_t column = (int64_t)blockIdx.x * 32 + lane;
    float sum = 0;
    if (column < 2 * c)
#pragma unroll 8
        for (int64_t group = warp; group < groups; group += SUM_WARPS) sum += sums[2 * group * c + column];
    scratch[warp][lane] = sum;
    __syncthreads();
    if (warp > 0 || column >= 2 * c) return;
    for (int w = 1; w < SUM_WARPS; w++) sum += scratch[w][lane];
    if (column < c)
        dgain[column] += sum;
    else if (dbias)
        dbias[column - c] += sum;
}

/* Threads of a block: a pack each, until there are too many. */
template <int W> unsigned threads_of(const char *op, int64_t c) {
    if (c > (int64_t)COLUMNS * MAX_THREADS)
        die("%s: rows of %lld channels, the cuda device takes up to %d", op, (long long)c, COLUMNS * MAX_THREADS);
    int64_t packs = ceil_div(c, W), most = ceil_div(packs, COLUMNS / W);
    return (unsigned)(ceil_div(most, 32) * 32);
}

template <bool RESIDUAL>
void launch_normalize(Device *device, const char *op, Tensor sum, LayerNormOutput to, Tensor x, Tensor branch,
                      Tensor gain, Tensor bias, float epsilon, Dropout drop) {
    int64_t n = x.dims[0], c = x.dims[1];
    if (n == 0) return;
    with_type(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        constexpr int WIDTH = 16 / sizeof(T);
        bool fit = packs_fit(WIDTH, c, sum.data, to.y.data, x.data, branch.data, gain.data, bias.data);
        with_width<WIDTH>(fit, [&](auto width) {
            constexpr int W = decltype(width)::value;
            cuda_check(gpu_launch(normalize<T, W, RESIDUAL>, grid_of(op, ceil_div(n, ROWS<T, W>)), threads_of<W>(op, c),
                                  0, cuda_stream(device), (T *)sum.data, (T *)to.y.data, (float *)to.mean.data,
                                  (float *)to.rstd.data, (const T *)x.data, (const T *)branch.data,
                                  (const float *)gain.data, (const float *)bias.data, epsilon, n, c,
                                  dropout_numbers(drop)),
                       op);
        });
    });
}

} // namespace

void cuda_layernorm_forward(Device *device, LayerNormOutput output, Tensor x, Tensor gain, Tensor bias, float epsilon) {
    launch_normalize<false>(device, "layernorm_forward", tensor_none(), output, x, tensor_none(), gain, bias, epsilon,
                            Dropout());
}

void cuda_residual_layernorm_forward(Device *device, Tensor sum, LayerNormOutput output, Tensor x, Tensor branch,
                                     Tensor gain, Tensor bias, Dropout drop) {
    launch_normalize<true>(device, "residual_layernorm_forward", sum, output, x, branch, gain, bias, LAYERNORM_EPSILON,
                           drop);
}

void cuda_layernorm_backward(Device *device, NormGradients to, Tensor dresidual, Tensor dy, Tensor x, Tensor mean,
                             Tensor rstd, Tensor gain) {
    const char *op = "layernorm_backward";
    int64_t n = x.dims[0], c = x.dims[1];
    if (n == 0) return;
    int64_t rows = 4 * ceil_div(n, 4 * MAX_GROUPS), groups = ceil_div(n, rows), most = ceil_div(n, 4);
    if (most > MAX_GROUPS) most = MAX_GROUPS; /* of fewer rows */
    float *sums = (float *)cuda_scratch(device, (size_t)(2 * most * c) * sizeof *sums);
    with_type(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        constexpr int WIDTH = 16 / sizeof(T);
        bool fit = packs_fit(WIDTH, c, to.dx.data, dresidual.data, dy.data, x.data, gain.data);
        with_width<WIDTH>(fit, [&](auto width) {
            constexpr int W = decltype(width)::value;
            cuda_check(gpu_launch(gradients<T, W>, grid_of(op, groups), threads_of<W>(op, c), 0, cuda_stream(device),
                                  (T *)to.dx.data, sums, (const T *)dresidual.data, (const T *)dy.data,
                                  (const T *)x.data, (const float *)mean.data, (const float *)rstd.data,
                                  (const float *)gain.data, n, c, rows),
                       op);
        });
    });
    cuda_check(gpu_launch(add_groups, grid_of(op, ceil_div(2 * c, 32)), 32 * SUM_WARPS, 0, cuda_stream(device),
                          (float *)to.dgain.data, (float *)to.dbias.data, (const float *)sums, groups, c),
               op);
}
