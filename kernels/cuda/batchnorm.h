/* Shared by the kernels of batch normalisation: how rows and columns are divided among blocks, and sums over rows.
 *
 * A block has a share of the rows and of the columns; its threads lie side by side along a row, a pack of columns each,
 * and under each other over the rows, so that a thread keeps what belongs to its columns in registers. A block writes
 * the sums of its rows to scratch memory, and one more kernel adds the sums of all blocks in double, always in the same
 * order. */
#pragma once

#include "kernels/cuda/memory.h"

/* Adds the sums of all blocks of rows in parts f32 [blocks, 1 + norms, c]: of g, which is added to dbias of every norm,
 * and of g x^ of each, which is added to its dgain. Divided by n, they are stored in means f32 [1 + norms, c]. Absent
 * dgain and dbias are skipped. */
void finish_gradients(Device *device, const char *op, float *means, const Tensor *dgain, const Tensor *dbias,
                      const float *parts, int norms, int64_t blocks, int64_t n, int64_t c);

namespace {

enum { BLOCK = 256, ACROSS = 32 };
constexpr int64_t MAX_PARTS = 1024;

/* A thread's place: its columns, and its rows from `row` to `end` in steps of blockDim.y. */
template <int W> struct Place {
    int64_t column, begin, row, end;
    GPU_INLINE Place(int64_t n, int64_t rows) {
        column = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * W;
        begin = blockIdx.y * rows;
        row = begin + threadIdx.y;
        end = begin + rows < n ? begin + rows : n;
    }
};

/* Sums over the threads that have the same columns, neighbours first, in a tree; every one gets them. */
template <int W> GPU_INLINE void sum_over_rows(Pack<float, W> &sum, float (*scratch)[BLOCK]) {
    int at = threadIdx.y * blockDim.x + threadIdx.x, count = blockDim.y, half;
#pragma unroll
    for (int i = 0; i < W; i++) scratch[i][at] = sum[i];
    for (; count > 1; count = half) {
        half = (count + 1) / 2;
        __syncthreads();
        if ((int)threadIdx.y + half >= count) continue;
#pragma unroll
        for (int i = 0; i < W; i++) scratch[i][at] = sum[i] += scratch[i][at + half * blockDim.x];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < W; i++) sum[i] = scratch[i][threadIdx.x];
}

/* Blocks of threads, and how the rows and columns are divided among them: enough blocks to keep the card busy, each
 * with at least eight rows a thread, where there are so many. */
struct Shares {
    dim3 grid, block;
    int64_t rows, count; /* rows of a block; blocks of rows ... */
    int64_t most;        /* ... of this or fewer rows, at most */
};

Shares shares_of(const Device *device, const char *op, int64_t n, int64_t c, int w) {
    Shares shares;
    int64_t packs = ceil_div(c, w), across = ceil_div(packs, ACROSS), wide = ceil_div(packs, across),
            tall = BLOCK / wide;
    int64_t wanted = ceil_div(8 * cuda_state(device)->n_multiprocessors, across), most = ceil_div(n, 8 * tall);
    int64_t count = wanted < most ? wanted : most;
    shares.most = count < MAX_PARTS ? count : MAX_PARTS;
    shares.rows = ceil_div(n, shares.most);
    shares.count = ceil_div(n, shares.rows);
    shares.grid = dim3(grid_of(op, across), (unsigned)shares.count);
    shares.block = dim3((unsigned)wide, (unsigned)tall);
    return shares;
}

/* Calls f(T(), width) for x's type and the width of packs that it and the arrays of columns allow. */
template <class F, class... Arrays> void with_packs(Tensor x, F f, const Arrays *...arrays) {
    ::with_packs(x.dtype, x.dims[1], {x.data, arrays...}, f);
}

} // namespace
