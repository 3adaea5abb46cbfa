/* Convolutions whose windows overlap, in 16-bit types: what is loaded into shared memory serves all taps of a frame.
 *
 * Without strides, consecutive rows of a product begin at consecutive positions of x, and each tap of a frame sees the
 * same positions, shifted by a constant: h inputs_w + w. So M rows need one run of x for each frame, M positions and
 * those that the taps reach behind them (2 inputs_w + 2 for 3 x 3), instead of M for each tap. A run is kept as it lies
 * in x, without padding: for a tap that it does not see (one bit for each, in a register), a row reads one of eight
 * rows of zeros, the one in the same banks. A row of a run has 32 channels, a step of k; more channels are more runs.
 *
 *   forward, data   a block has M rows and N columns. It holds two runs, so that the next one comes during this one's
 *                   products, and a ring of three taps' weights.
 *   weights         a block has one frame's taps, 32 channels and 32 columns, and walks along the rows with a run of x
 *                   and the same rows of dy, which all its warps share: each has one of the taps.
 *
 * For 3 x 3 x 3 taps: FLOPs for each byte from L2, what an L4 at its 121 TFLOP/s would ask of its L2 (which gives some
 * 2 TB/s), and the clocks that shared memory takes (128 bytes each) of those of the products (512 multiplications each,
 * so one mma_16x8x16 in 4, and one matrix load in 4):
 *
 *                                      one tap at a time          runs        shared: matrix loads, copies
 *    32 ->  32 (21 x 21)                26   4.7 TB/s       125   1.0 TB/s    50 % + 6 %, were 50 % + 31 %
 *    64 ->  64 (11 x 11)                43   2.8            172   0.7         38 % + 5 %
 *   128 -> 128 (6 x 6)                  64   1.9            174   0.7         38 % + 5 %
 *    32 ->  32 (21 x 21), weights       26   4.7            121   1.0         50 % + 7 %
 *
 * Which products: stride 1, no windows but those that begin in x or in its padding before it, channels in whole steps,
 * at least two taps a frame, and runs that fit: planes up to 37 wide for up to 32 columns, 13 for more, 57 for the
 * weights. That is also the data's gradient of a stride, for its combinations of 2 x 2 and 2 x 1 taps; there lines of
 * the product may be shorter than those of x, and rows that skip an input meet others in the banks. All other products
 * are conv3d_kernel.h's. */
#pragma once

#include "kernels/cuda/conv3d/conv3d_windows.h"

namespace {

constexpr int MAX_TAPS = 32;  /* bits of a register */
constexpr int ZERO_ROWS = 8;  /* any eight rows of a run that are neighbours are in the banks of these */
constexpr int ROW_BYTES = 64; /* of a run, of the weights and of dy in shared memory */

/* Bytes of a block: what each may ask for, and two fit into the 100 KB of an L4's multiprocessor. 0 would leave all
 * products to conv3d_kernel.h: to compare both, change it and run the same benchmark. */
constexpr int RUN_LIMIT = 48 * 1024;

/* STEP: rows that a run serves. BESIDE: bytes in shared memory besides the two runs.
 *
 * Eight warps of 32 x 32, or of 64 x 32. THREADS = 128 would make of the first four of 64 x 32: fewer matrix loads (38
 * % of the time), but two warps a scheduler, where these are four. */
struct RunTile {
    static constexpr int M = 256, N = 32, THREADS = 256, WARPS_N = 1, STAGES = 3;
    static constexpr int STEP = M, BESIDE = STAGES * N * ROW_BYTES;
};
struct WideRunTile {
    static constexpr int M = 256, N = 64, THREADS = 256, WARPS_N = 2, STAGES = 3;
    static constexpr int STEP = M, BESIDE = STAGES * N * ROW_BYTES;
};

/* The largest tile of the weights' gradient: a warp of 32 x 32 for each tap of a frame. */
struct WeightsTile {
    static constexpr int M = 512, N = 32, THREADS = 512, WARPS_N = 1;
    static constexpr int STEP = 128, PLACES = STEP * 4 / ROW_BYTES, BESIDE = 2 * (STEP + PLACES) * ROW_BYTES;
};

/* Returns the taps of a window that lie inside the inputs, a bit for each, w fastest. */
GPU_INLINE uint32_t taps_seen(const Windows &v, const Corner &c) {
    uint32_t line = 0, plane = 0, all = 0;
    for (int w = 0; w < v.w.taps; w++) line |= (uint32_t)((unsigned)(c.w + w) < (unsigned)v.w.inputs) << w;
    for (int h = 0; h < v.h.taps; h++) plane |= (unsigned)(c.h + h) < (unsigned)v.h.inputs ? line << h * v.w.taps : 0;
    for (int t = 0; t < v.t.taps; t++)
        all |= (unsigned)(c.t + t) < (unsigned)v.t.inputs ? plane << t * v.h.taps * v.w.taps : 0;
    return all;
}

/* Queues copies of `count` rows of a matrix [end, length], 32 numbers of each; what is outside of it are zeros. */
template <class T>
GPU_INLINE void load_rows(T *to, const T *matrix, int row, int count, int end, int column, int length) {
    constexpr int CHUNKS = CHUNKS_ALONG_K, SIZE = Vector<T>::SIZE;
    for (int i = threadIdx.x; i < count * CHUNKS; i += blockDim.x) {
        int r = row + i / CHUNKS, c = column + i % CHUNKS * SIZE;
        bool inside = (unsigned)r < (unsigned)end && c < length;
        copy_async_16(to + chunk_place<CHUNKS>(i / CHUNKS, i % CHUNKS) * SIZE,
                      inside ? matrix + (int64_t)r * length + c : matrix, inside ? 16 : 0);
    }
}

template <class T> GPU_INLINE void clear_zero_rows(T *rows) {
    for (int i = threadIdx.x; i < ZERO_ROWS * CHUNKS_ALONG_K; i += blockDim.x)
        *reinterpret_cast<uint4 *>(rows + i * Vector<T>::SIZE) = make_uint4(0, 0, 0, 0);
}

template <class T, int ROWS, int COLUMNS>
GPU_INLINE void multiply_fragments(float (&sums)[ROWS][COLUMNS][4], const uint32_t (&a)[ROWS][4],
                                   const uint32_t (&b)[COLUMNS / 2][4]) {
#pragma unroll
    for (int i = 0; i < ROWS; i++)
#pragma unroll
        for (int j = 0; j < COLUMNS; j++)
            mma_16x8x16<T>(sums[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
}

/* Returns the row of shared memory from which a row of a window is read: in a run, or among the zeros. */
GPU_INLINE int row_seen(bool seen, int run, int row) { return seen ? run + row : (unsigned)row % ZERO_ROWS; }

/* Products of rows in runs. A lane points the matrix loads to one row of each fragment, always the same. */
template <class T, class Tile> struct RunProducts : Products<T, Tile, true, true> {
    using Base = Products<T, Tile, true, true>;
    static constexpr int FRAGMENTS = Base::ROWS / 16;
    int rows[FRAGMENTS];      /* counted from the first of the block's, in x */
    uint32_t seen[FRAGMENTS]; /* taps */

    GPU_INLINE RunProducts(const Windows &v, int first) {
        int start = Corner(v, first, v.rows).row;
#pragma unroll
        for (int i = 0; i < FRAGMENTS; i++) {
            Corner corner(v, first + Base::first_row() + 16 * i + threadIdx.x % 16, v.rows);
            rows[i] = corner.row - start, seen[i] = taps_seen(v, corner);
        }
    }

    /* shared: its zero rows; run: the row at which one begins; shift: of the tap. */
    GPU_INLINE void add(const T *shared, int run, int shift, int tap, const T *weights) {
        constexpr int SIZE = Vector<T>::SIZE;
        int from[FRAGMENTS];
#pragma unroll
        for (int i = 0; i < FRAGMENTS; i++) from[i] = row_seen(seen[i] >> tap & 1, run, rows[i] + shift);
#pragma unroll
        for (int k = 0; k < DEPTH<T>; k += 16) {
            uint32_t a[FRAGMENTS][4], b[Base::COLUMNS / 16][4];
#pragma unroll
            for (int i = 0; i < FRAGMENTS; i++)
                load_matrix_x4(a[i],
                               shared + chunk_place<CHUNKS_ALONG_K>(from[i], k / SIZE + threadIdx.x % 32 / 16) * SIZE);
#pragma unroll
            for (int j = 0; j < Base::COLUMNS / 16; j++)
                load_fragments<T, Tile::N, true, 1>(b[j], weights, Base::first_column() + 16 * j, k);
            multiply_fragments<T>(this->sums, a, b);
        }
    }
};

/* Returns which k of convolve's order convolve_runs uses as its k: for a run all taps of the frame. */
template <class T> GPU_INLINE int k_of_run(const Windows &v, int k) {
    int step = k / DEPTH<T>, taps = v.h.taps * v.w.taps, parts = v.channels / DEPTH<T>, run = step / taps;
    return ((run / parts * taps + step % taps) * parts + run % parts) * DEPTH<T> + k % DEPTH<T>;
}

/* Convolves as convolve in conv3d_kernel.h does, with runs of `run` rows, and w's k in the order in which steps need
 * them. */
template <class T, class Tile>
__global__ void __launch_bounds__(Tile::THREADS, BLOCKS<T, Tile>)
    convolve_runs(Output<T> output, const T *x, const T *w, Windows v, int run, bool add) {
    only_where_used<T>();
    constexpr int SIZE = Tile::N * DEPTH<T>;
    DYNAMIC_SHARED(T, shared);
    T *ring = shared + (ZERO_ROWS + 2 * run) * DEPTH<T>;
    int tiles_n = (output.n + Tile::N - 1) / Tile::N, parts = v.channels / DEPTH<T>;
    int row = blockIdx.x / tiles_n * Tile::M, column = blockIdx.x % tiles_n * Tile::N;
    int start = Corner(v, row, v.rows).row, frame = v.h.inputs * v.w.inputs;
    auto load_run = [&](int t, int part, int slot) {
        load_rows(shared + (ZERO_ROWS + slot * run) * DEPTH<T>, x, start + t * frame, run, v.inputs, part * DEPTH<T>,
                  v.channels);
    };
    auto load_weights = [&](int step) {
        if (step * DEPTH<T> < v.k)
            load_rows(ring + step % Tile::STAGES * SIZE, w, column, Tile::N, output.n, step * DEPTH<T>, v.k);
        copy_async_commit(); /* also an empty group: the wait below counts steps */
    };
    RunProducts<T, Tile> products(v, row);
    clear_zero_rows(shared);
    load_run(0, 0, 0);
    for (int step = 0; step < Tile::STAGES - 1; step++) load_weights(step);
    int step = 0, slot = 0, first_tap = 0;
    for (int t = 0; t < v.t.taps; t++, first_tap += v.h.taps * v.w.taps)
        for (int part = 0; part < parts; part++, slot ^= 1)
            for (int h = 0, tap = first_tap; h < v.h.taps; h++)
                for (int w = 0; w < v.w.taps; w++, tap++, step++) {
                    copy_async_wait<Tile::STAGES - 2>();
                    __syncthreads();
                    /* The next run: its slot is no longer read, and what is queued now is waited for two steps
                     * from here; a frame has at least two. */
                    bool last_part = part + 1 == parts;
                    if (tap == first_tap && t + last_part < v.t.taps)
                        load_run(t + last_part, last_part ? 0 : part + 1, slot ^ 1);
                    load_weights(step + Tile::STAGES - 1);
                    products.add(shared, ZERO_ROWS + slot * run, h * v.w.inputs + w, tap,
                                 ring + step % Tile::STAGES * SIZE);
                }
    copy_async_wait<0>();
    write_products(output, products, v, row, column, add);
}

/* Computes the same as convolve_weights in conv3d_kernel.h. Shared memory: zero rows; twice a run, the step's rows of
 * dy, and for each of these where in the run it begins (upper half) and which taps of the frame it sees. Grid: tiles x
 * parts of the rows. */
template <class T>
__global__ void __launch_bounds__(WeightsTile::THREADS)
    convolve_weights_runs(Output<T> output, const T *x, const T *dy, Windows v, int run, int part) {
    only_where_used<T>();
    constexpr int STEP = WeightsTile::STEP, SIZE = Vector<T>::SIZE;
    DYNAMIC_SHARED(T, shared);
    auto at = [&](int row) { return shared + row * DEPTH<T>; };
    auto places_at = [&](int row) { return reinterpret_cast<uint32_t *>(at(row)); };
    int tiles_n = (output.n + WeightsTile::N - 1) / WeightsTile::N, parts = v.channels / DEPTH<T>;
    int column = blockIdx.x % tiles_n * WeightsTile::N, channel = blockIdx.x / tiles_n % parts * DEPTH<T>;
    int t = blockIdx.x / tiles_n / parts, taps = v.h.taps * v.w.taps;
    int begin = blockIdx.y * part, end = min(v.rows - begin, part) + begin;
    auto load_step = [&](int row, int slot) {
        int start = Corner(v, row, end).row;
        load_rows(at(slot), x, start + t * v.h.inputs * v.w.inputs, run, v.inputs, channel, v.channels);
        load_rows(at(slot + run), dy, row, STEP, end, column, output.n);
        copy_async_commit();
        for (int i = threadIdx.x; i < STEP; i += blockDim.x) {
            Corner corner(v, row + i, end);
            uint32_t seen = taps_seen(v, corner) >> t * taps & ((1u << taps) - 1);
            places_at(slot + run + STEP)[i] = (uint32_t)(corner.row - start) << 16 | seen;
        }
    };
    int lane = threadIdx.x % 32, tap = threadIdx.x / 32, shift = tap / v.w.taps * v.w.inputs + tap % v.w.taps;
    int slot = ZERO_ROWS, next = slot + run + STEP + WeightsTile::PLACES;
    Products<T, WeightsTile, false, false> products;
    clear_zero_rows(shared);
    load_step(begin, slot);
    for (int row = begin; row < end; row += STEP) {
        copy_async_wait<0>();
        __syncthreads();
        if (row + STEP < end) load_step(row + STEP, next);
#pragma unroll 2
        for (int k = 0; k < STEP; k += 16) {
            uint32_t place = places_at(slot + run + STEP)[k + lane / 16 * 8 + lane % 8], a[2][4], b[2][4];
            int from = row_seen(place >> tap & 1, slot, (int)(place >> 16) + shift);
#pragma unroll
            for (int i = 0; i < 2; i++) {
                load_matrix_x4_transposed(a[i],
                                          shared + chunk_place<CHUNKS_ALONG_K>(from, 2 * i + lane / 8 % 2) * SIZE);
                load_fragments<T, WeightsTile::N, false, 1>(b[i], at(slot + run), 16 * i, k);
            }
            multiply_fragments<T>(products.sums, a, b);
        }
        int done = slot;
        slot = next, next = done;
    }
    products.each([&](int i, int j, auto sums) {
        output.write(blockIdx.y, (t * taps + i / 32) * v.channels + channel + i % 32, column + j, sums);
    });
}

/* ---- the host's half ---- */

template <class Tile> size_t run_bytes(int64_t run) {
    return (size_t)((ZERO_ROWS + 2 * run) * ROW_BYTES + Tile::BESIDE);
}

/* Returns the number of rows of x in a tile's run; 0 if runs cannot serve such windows, or do not fit. A row of the
 * product that begins another line, frame or sample may skip inputs at the end of the last. */
template <class T, class Tile> int run_rows(const Windows &v, const void *x) {
    auto steady = [](Axis a) { return a.stride == 1 && a.rows > 0 && a.rows <= a.inputs; };
    int64_t taps = (int64_t)v.h.taps * v.w.taps, line = v.w.rows, frame = line * v.h.rows, rows = Tile::STEP;
    if (sizeof(T) != 2 || !steady(v.t) || !steady(v.h) || !steady(v.w)) return 0;
    if (taps < RunTile::STAGES - 1 || taps > WeightsTile::THREADS / 32 || taps * v.t.taps > MAX_TAPS) return 0;
    if (!packs_fit(DEPTH<T>, v.channels, x)) return 0;
    auto skipped = [&](int64_t per, Axis a) { return ceil_div(rows - 1, per) * (a.inputs - a.rows); };
    int64_t lines = v.h.taps - 1 + skipped(frame, v.h) + skipped(frame * v.t.rows, v.t) * v.h.inputs;
    int64_t run = ceil_div(rows + v.w.taps - 1 + skipped(line, v.w) + lines * v.w.inputs, ZERO_ROWS) * ZERO_ROWS;
    return run_bytes<Tile>(run) <= RUN_LIMIT ? (int)run : 0;
}

} // namespace
