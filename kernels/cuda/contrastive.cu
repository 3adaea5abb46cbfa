/* Contrastive learning: rows of length one, and NT-Xent over them.
 *
 * NT-Xent is a product of z with itself that is never stored. A block has ROWS rows i and walks over all rows j, TILE
 * at a time, a thread a row j: it holds the ROWS scores of its j, summed over CHUNK columns at a time that pass through
 * shared memory, while the next CHUNK is on its way in registers. Scores have few rows a block so that 1,024 rows fill
 * a card of 132 multiprocessors; z stays in the L2 cache. No block writes what another does: the symmetric score s[i,
 * j] is computed for i and for j, twice. */
#include <float.h>

#include "kernels/cuda/memory.h"

namespace {

constexpr float SHORTEST = 1e-12f;

enum { BLOCK = 256, WARPS = BLOCK / 32, ROWS = 8, TILE = BLOCK, PACKS = 8 };

/* Columns of a tile that are in shared memory at once, PACKS packs a row; and the distance of its rows there: 16-byte
 * accesses of neighbouring rows meet different banks. */
template <int W> constexpr int CHUNK = PACKS *W;
template <int W> constexpr int STRIDE = CHUNK<W> + 4;

/* y = x / max(norm, SHORTEST). A row has as many lanes of a warp as it has packs, up to all 32; the second reading of a
 * row is from cache. Grid: n rows, BLOCK / lanes a block. Bytes: n c times (the size of T, 4), 4 n. */
template <int W, class T>
__global__ void __launch_bounds__(BLOCK) normalize(float *y, float *norm, const T *x, int64_t n, int64_t c, int lanes) {
    int64_t row = ((int64_t)blockIdx.x * BLOCK + threadIdx.x) / lanes;
    int lane = threadIdx.x % lanes;
    float squares = 0;
    for (int64_t j = lane * W; j < c && row < n; j += lanes * W) {
        Pack<float, W> in = convert<float>(load_pack<W>(x + row * c + j));
#pragma unroll
        for (int e = 0; e < W; e++) squares += in[e] * in[e];
    }
    float length = sqrtf(row_sum(squares, lanes)), factor = 1.0f / (length < SHORTEST ? SHORTEST : length);
    if (row < n && lane == 0) norm[row] = length;
    for (int64_t j = lane * W; j < c && row < n; j += lanes * W) {
        Pack<float, W> in = convert<float>(load_pack<W>(x + row * c + j));
#pragma unroll
        for (int e = 0; e < W; e++) in[e] *= factor;
        store_pack(y + row * c + j, in);
    }
}

/* dx = (dy - y (y . dy)) / norm, in the same way. Bytes: n c times (the size of T, 8), 4 n. */
template <int W, class T>
__global__ void __launch_bounds__(BLOCK)
    normalize_gradient(T *dx, const float *dy, const float *y, const float *norm, int64_t n, int64_t c, int lanes) {
    int64_t row = ((int64_t)blockIdx.x * BLOCK + threadIdx.x) / lanes;
    int lane = threadIdx.x % lanes;
    float dot = 0;
    for (int64_t j = lane * W; j < c && row < n; j += lanes * W) {
        Pack<float, W> up = load_pack<W>(dy + row * c + j), unit = load_pack<W>(y + row * c + j);
#pragma unroll
        for (int e = 0; e < W; e++) dot += up[e] * unit[e];
    }
    dot = row_sum(dot, lanes);
    if (row >= n) return;
    float length = norm[row], factor = 1.0f / (length < SHORTEST ? SHORTEST : length);
    if (length < SHORTEST) dot = 0;
    for (int64_t j = lane * W; j < c; j += lanes * W) {
        Pack<float, W> up = load_pack<W>(dy + row * c + j), unit = load_pack<W>(y + row * c + j);
#pragma unroll
        for (int e = 0; e < W; e++) up[e] = (up[e] - unit[e] * dot) * factor;
        store_pack(dx + row * c + j, convert<T>(up));
    }
}

/* A thread's numbers of CHUNK columns from `column` on: at most one of the block's rows, PACKS packs of the tile's. */
template <int W> struct Piece {
    float own;
    Pack<float, W> tile[PACKS];
};
static_assert(ROWS * CHUNK<4> <= BLOCK && TILE == BLOCK, "a thread brings that much");

template <int W>
GPU_INLINE void load_piece(Piece<W> &piece, const float *z, int64_t n, int64_t c, int64_t first, int64_t tile,
                           int64_t column) {
    int64_t row = first + threadIdx.x / CHUNK<W>, at = column + threadIdx.x % CHUNK<W>;
    piece.own = row < n && at < c ? z[row * c + at] : 0.0f;
    at = column + threadIdx.x % PACKS * W;
#pragma unroll
    for (int k = 0; k < PACKS; k++) {
        row = tile + k * (BLOCK / PACKS) + threadIdx.x / PACKS;
        piece.tile[k] = row < n && at < c ? load_pack<W>(z + row * c + at) : zeros<W>();
    }
}

template <int W> GPU_INLINE void store_piece(float *own, float *rows, const Piece<W> &piece) {
    if (threadIdx.x < ROWS * CHUNK<W>) own[threadIdx.x] = piece.own;
#pragma unroll
    for (int k = 0; k < PACKS; k++)
        put_pack(rows + (k * (BLOCK / PACKS) + threadIdx.x / PACKS) * STRIDE<W> + threadIdx.x % PACKS * W,
                 piece.tile[k]);
}

/* s[r] = z[first + r] . z[tile + thread]. own [ROWS][CHUNK] and rows [TILE][STRIDE]: shared memory that nobody reads
 * any more, neither at the call nor on return. */
template <int W>
GPU_INLINE void scores(float (&s)[ROWS], float *own, float *rows, const float *z, int64_t n, int64_t c, int64_t first,
                       int64_t tile) {
    Piece<W> piece;
    load_piece(piece, z, n, c, first, tile, 0);
#pragma unroll
    for (int r = 0; r < ROWS; r++) s[r] = 0;
    for (int64_t column = 0; column < c; column += CHUNK<W>) {
        store_piece(own, rows, piece);
        __syncthreads();
        if (column + CHUNK<W> < c) load_piece(piece, z, n, c, first, tile, column + CHUNK<W>);
        const float *mine = rows + threadIdx.x * STRIDE<W>;
#pragma unroll
        for (int k = 0; k < CHUNK<W>; k += 4) {
            Pack<float, 4> b = load_pack<4>(mine + k);
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                Pack<float, 4> a = load_pack<4>(own + r * CHUNK<W> + k);
                s[r] = fmaf(a[0], b[0], fmaf(a[1], b[1], fmaf(a[2], b[2], fmaf(a[3], b[3], s[r]))));
            }
        }
        __syncthreads();
    }
}

/* loss, lse. A thread keeps, for each of the block's rows, the maximum and the sum of exponentials below it over its
 * rows j; warps and then the block put them together. Maxima begin at -FLT_MAX, not at -infinity: a thread without a j
 * must add 0, not NaN. Grid: n / ROWS. Bytes: 4 n (c + 2). */
template <int W>
__global__ void __launch_bounds__(BLOCK)
    nt_xent(float *loss, float *lse, const float *z, int64_t n, int64_t c, float per_temperature) {
    SHARED(float, own, [ROWS * CHUNK<W>]);
    SHARED(float, rows, [TILE * STRIDE<W>]);
    SHARED(float, tops, [WARPS][ROWS]);
    SHARED(float, sums, [WARPS][ROWS]);
    SHARED(float, partners, [ROWS]);
    int64_t first = (int64_t)blockIdx.x * ROWS;
    float s[ROWS], top[ROWS], sum[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) top[r] = -FLT_MAX, sum[r] = 0;
    for (int64_t tile = 0; tile < n; tile += TILE) {
        scores<W>(s, own, rows, z, n, c, first, tile);
        int64_t j = tile + threadIdx.x;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            int64_t i = first + r;
            if (j >= n || j == i) continue;
            float score = s[r] * per_temperature, largest = fmaxf(top[r], score);
            sum[r] = sum[r] * __expf(top[r] - largest) + __expf(score - largest);
            top[r] = largest;
            if (j == i + n / 2 || i == j + n / 2) partners[r] = score;
        }
    }
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        float largest = warp_max(top[r]), total = warp_sum(sum[r] * __expf(top[r] - largest));
        if (lane == 0) tops[warp][r] = largest, sums[warp][r] = total;
    }
    __syncthreads();
    int r = threadIdx.x;
    if (r >= ROWS || first + r >= n) return;
    float largest = tops[0][r], total = 0;
    for (int w = 1; w < WARPS; w++) largest = fmaxf(largest, tops[w][r]);
    for (int w = 0; w < WARPS; w++) total += sums[w][r] * __expf(tops[w][r] - largest);
    float log_sum = largest + logf(total);
    lse[first + r] = log_sum;
    loss[first + r] = log_sum - partners[r];
}

/* dz[i] = scale / temperature times the sum over j of weight[i, j] z[j], weight = exp(s[i, j] - lse[i]) + exp(s[i, j] -
 * lse[j]), less 2 where j is the partner, 0 where j is i. A tile's weights pass through shared memory; then a warp
 * takes every WARPS-th row j of the tile and adds it to all ROWS sums, its lanes packs of 32 W columns. Grid: n / ROWS,
 * slices of 32 W columns. Bytes: 4 n (2 c + 1). */
template <int W>
__global__ void __launch_bounds__(BLOCK)
    nt_xent_gradient(float *dz, const float *z, const float *lse, int64_t n, int64_t c, float per_temperature,
                     const float *scale_of, const float *loss_scale) {
    SHARED(float, own, [ROWS * CHUNK<W>]);
    SHARED(float, rows, [TILE * STRIDE<W>]);
    SHARED(float, weights, [TILE][ROWS]);
    static_assert(WARPS * ROWS * 32 * W <= TILE * STRIDE<W>, "the warps' sums take the place of the tile");
    int64_t first = (int64_t)blockIdx.x * ROWS, column = ((int64_t)blockIdx.y * 32 + threadIdx.x % 32) * W;
    int warp = threadIdx.x / 32;
    float s[ROWS];
    Pack<float, W> sums[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) sums[r] = zeros<W>();
    for (int64_t tile = 0; tile < n; tile += TILE) {
        scores<W>(s, own, rows, z, n, c, first, tile);
        int64_t j = tile + threadIdx.x;
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            int64_t i = first + r;
            float score = s[r] * per_temperature, weight = 0;
            if (i < n && j < n && i != j) weight = __expf(score - lse[i]) + __expf(score - lse[j]);
            if (j == i + n / 2 || i == j + n / 2) weight -= 2;
            weights[threadIdx.x][r] = weight;
        }
        __syncthreads();
        int count = n - tile < TILE ? (int)(n - tile) : TILE;
        if (column < c)
#pragma unroll 4
            for (int k = warp; k < count; k += WARPS) {
                Pack<float, W> row = load_pack<W>(z + (tile + k) * c + column);
                Pack<float, ROWS> weight = load_pack<ROWS>(weights[k]);
#pragma unroll
                for (int r = 0; r < ROWS; r++)
#pragma unroll
                    for (int e = 0; e < W; e++) sums[r][e] = fmaf(weight[r], row[e], sums[r][e]);
            }
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) put_pack(rows + ((warp * ROWS + r) * 32 + threadIdx.x % 32) * W, sums[r]);
    __syncthreads();
    float scale = per_temperature * *scale_of * (loss_scale ? loss_scale[LOSS_SCALE_FACTOR] : 1.0f);
    for (int at = threadIdx.x; at < ROWS * 32 * W; at += BLOCK) {
        int64_t i = first + at / (32 * W), to = (int64_t)blockIdx.y * 32 * W + at % (32 * W);
        if (i >= n || to >= c) continue;
        float sum = 0;
        for (int w = 0; w < WARPS; w++) sum += rows[w * ROWS * 32 * W + at];
        dz[i * c + to] = sum * scale;
    }
}

} // namespace

void cuda_normalize_rows_forward(Device *device, Tensor y, Tensor norm, Tensor x) {
    const char *op = "normalize_rows_forward";
    int64_t n = x.dims[0], c = x.dims[1];
    if (n == 0) return;
    with_packs(x.dtype, c, {x.data, y.data}, [&](auto zero, auto width) {
        using T = decltype(zero);
        constexpr int W = decltype(width)::value;
        int lanes = lanes_of_row(ceil_div(c, W));
        cuda_check(gpu_launch(normalize<W, T>, grid_of(op, ceil_div(n * lanes, BLOCK)), BLOCK, 0, cuda_stream(device),
                              (float *)y.data, (float *)norm.data, (const T *)x.data, n, c, lanes),
                   op);
    });
}

void cuda_normalize_rows_backward(Device *device, Tensor dx, Tensor dy, Tensor y, Tensor norm) {
    const char *op = "normalize_rows_backward";
    int64_t n = dx.dims[0], c = dx.dims[1];
    if (n == 0) return;
    with_packs(dx.dtype, c, {dx.data, dy.data, y.data}, [&](auto zero, auto width) {
        using T = decltype(zero);
        constexpr int W = decltype(width)::value;
        int lanes = lanes_of_row(ceil_div(c, W));
        cuda_check(gpu_launch(normalize_gradient<W, T>, grid_of(op, ceil_div(n * lanes, BLOCK)), BLOCK, 0,
                              cuda_stream(device), (T *)dx.data, (const float *)dy.data, (const float *)y.data,
                              (const float *)norm.data, n, c, lanes),
                   op);
    });
}

void cuda_nt_xent_forward(Device *device, Tensor loss, Tensor lse, Tensor z, float temperature) {
    const char *op = "nt_xent_forward";
    int64_t n = z.dims[0], c = z.dims[1];
    if (n == 0) return;
    with_width<4>(packs_fit(4, c, z.data), [&](auto width) {
        cuda_check(gpu_launch(nt_xent<decltype(width)::value>, grid_of(op, ceil_div(n, ROWS)), BLOCK, 0,
                              cuda_stream(device), (float *)loss.data, (float *)lse.data, (const float *)z.data, n, c,
                              1 / temperature),
                   op);
    });
}

void cuda_nt_xent_backward(Device *device, Tensor dz, Tensor z, Tensor lse, float temperature, Tensor scale,
                           Tensor loss_scale) {
    const char *op = "nt_xent_backward";
    int64_t n = z.dims[0], c = z.dims[1];
    if (n == 0 || c == 0) return;
    with_width<4>(packs_fit(4, c, z.data), [&](auto width) {
        constexpr int W = decltype(width)::value;
        dim3 grid(grid_of(op, ceil_div(n, ROWS)), grid_of(op, ceil_div(c, 32 * W)));
        cuda_check(gpu_launch(nt_xent_gradient<W>, grid, BLOCK, 0, cuda_stream(device), (float *)dz.data,
                              (const float *)z.data, (const float *)lse.data, n, c, 1 / temperature,
                              (const float *)scale.data, (const float *)loss_scale.data),
                   op);
    });
}
