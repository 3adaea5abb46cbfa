/* Our matrix product: one kernel for all types and layouts. gemm_<type>.cu compiles it for one type.
 *
 * A block computes a tile of c, M x N, by walking along k in steps of DEPTH: 64 bytes of numbers. Each step brings a
 * tile of a and one of b into shared memory, as they are stored, by asynchronous copies of 16 bytes (a chunk), two or
 * three steps ahead of the products. So there are two kinds of tile, whatever the matrix:
 *
 *   along k   (a as it is, b transposed)   M or N rows of 4 chunks: a row holds DEPTH numbers of one row of op(a)
 *   across k  (a transposed, b as it is)   DEPTH rows of M or N numbers: a row holds one k
 *
 * 16-bit types: eight (four) warps of mma_16x8x16; load_matrix_x4 makes fragments of a tile along k, its transposing
 * twin of one across k. f32 that may be rounded to TF32 (Tf32<Tile>): the same with mma_16x8x8_tf32, and plain loads
 * across k. f32 as it is: each thread sums 8 x 8 (8 x 4) products with FMAs, four k at a time.
 *
 * Matrices whose rows are no multiple of 16 bytes are read number by number. Where c has few tiles and k is long,
 * blocks share a tile: each sums a part of k into scratch memory, and a second kernel adds the parts in their order.
 *
 * An epilogue is a second pass of a block over its tile, right after it is stored, while the caches hold it. GELU reads
 * c or hidden as stored, rounded to T, so the result has the same bits as an elementwise kernel after the product.
 *
 * FLOPs: 2 m n k. Bytes from memory: at least m k + k n + m n numbers; a block reads (M + N) numbers for M N products
 * a k, so 128 x 128 tiles need 1 byte from L2 for 64 FLOPs in 16-bit types. Blocks that run at the same time work on 8
 * rows of tiles, so that they share what they read in L2. */
#pragma once

#include "kernels/cuda/gelu.h"
#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/memory.h"

namespace {

/* Shared memory: STAGES (M + N) 64 bytes, 48 KB and 32 KB. The smaller one is for small and unaligned products. */
struct LargeTile {
    static constexpr int M = 128, N = 128, THREADS = 256, WARPS_N = 4, STAGES = 3;
    static constexpr bool ALIGNED = true;
};
struct SmallTile {
    static constexpr int M = 64, N = 64, THREADS = 128, WARPS_N = 2, STAGES = 4;
    static constexpr bool ALIGNED = false;
};

/* A tile of f32 whose products are of numbers rounded to TF32, on tensor cores. */
template <class Tile> struct Tf32 : Tile {};
template <class T, class Tile> constexpr bool ON_TENSOR_CORES = sizeof(T) == 2;
template <class T, class Tile> constexpr bool ON_TENSOR_CORES<T, Tf32<Tile>> = true;

/* launch(tile), or launch(Tf32<Rounded>()) where T may be rounded. */
template <class T, class Rounded, class Tile, class Launch>
void launch_rounded(Device *device, Tile tile, Launch launch) {
    if constexpr (sizeof(T) == 4)
        if (device->tf32) return launch(Tf32<Rounded>());
    launch(tile);
}

constexpr int CHUNKS_ALONG_K = 4;                                         /* of a step */
template <class T> constexpr int DEPTH = CHUNKS_ALONG_K *Vector<T>::SIZE; /* numbers of a step */

/* Returns where chunk `chunk` of row `row` lies in a tile with CHUNKS chunks a row, in chunks. Eight chunks fill all
 * banks of shared memory: the exclusive or puts any eight in a row, and eight of one column in rows 8i .. 8i + 7, into
 * different banks; of a tile across k also two side by side, from an even one on, in rows 4i .. 4i + 3 (TF32). */
template <int CHUNKS> GPU_INLINE int chunk_place(int row, int chunk) {
    static_assert(CHUNKS == 4 || CHUNKS % 8 == 0, "a row is half of the banks, or all of them some times");
    return row * CHUNKS + (chunk ^ (CHUNKS == 4 ? row / 2 % 4 : row % 4 * 2 + row / 4 % 2));
}

/* Loads the tiles of one matrix into shared memory. "Outer" is the dimension that is not k. */
template <class T, int OUTER, int THREADS, bool ALONG_K> struct Source {
    static constexpr int SIZE = Vector<T>::SIZE;
    static constexpr int CHUNKS = ALONG_K ? CHUNKS_ALONG_K : OUTER / SIZE; /* of a row */
    static constexpr int EACH = OUTER * CHUNKS_ALONG_K / THREADS;          /* that a thread copies */
    static constexpr int ROWS = THREADS / CHUNKS;                          /* from one of its chunks to the next */
    const T *matrix, *from; /* the first number; of this thread's first chunk in the next tile */
    int64_t row_length;     /* numbers */
    int outer, k;           /* indices of `from` */
    int outer_end, k_end;

    GPU_INLINE Source(const T *matrix, int outer_begin, int outer_end, int depth, int k_begin, int k_end)
        : matrix(matrix), row_length(ALONG_K ? depth : outer_end), outer_end(outer_end), k_end(k_end) {
        int row = threadIdx.x / CHUNKS, number = threadIdx.x % CHUNKS * SIZE;
        outer = outer_begin + (ALONG_K ? row : number);
        k = k_begin + (ALONG_K ? number : row);
        from = matrix + (ALONG_K ? outer * row_length + k : k * row_length + outer);
    }

    /* Queues the copies of the next tile; numbers outside the matrix are zeros. */
    GPU_INLINE void load_tile(T *tile, bool aligned) {
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            int row = threadIdx.x / CHUNKS + i * ROWS, chunk = threadIdx.x % CHUNKS;
            int outer_i = outer + (ALONG_K ? i * ROWS : 0), k_i = k + (ALONG_K ? 0 : i * ROWS);
            T *to = tile + chunk_place<CHUNKS>(row, chunk) * SIZE;
            const T *from_i = from + i * ROWS * row_length;
            if (aligned) { /* rows are whole chunks */
                bool inside = outer_i < outer_end && k_i < k_end;
                copy_async_16(to, inside ? from_i : matrix, inside ? 16 : 0);
                continue;
            }
            Vector<T> numbers;
#pragma unroll
            for (int j = 0; j < SIZE; j++) {
                bool inside = outer_i + (ALONG_K ? 0 : j) < outer_end && k_i + (ALONG_K ? j : 0) < k_end;
                numbers[j] = inside ? from_i[j] : from_float<T>(0.0f);
            }
            store_vector(to, numbers);
        }
        k += DEPTH<T>;
        from += ALONG_K ? DEPTH<T> : DEPTH<T> * row_length;
    }
};

/* The destination of the sums: c as T, with the bias; or `sums` as f32, where each part has its place. */
template <class T> struct Output {
    T *c;          /* NULL: sums */
    float *sums;   /* f32 [m, n], or [parts, m, n] */
    const T *bias; /* of c, or NULL */
    bool add;      /* to what sums hold */
    bool packs;    /* rows begin at multiples of 4 numbers, and arrays of 16 bytes */
    int m, n;

    /* x + what is there. */
    template <int W, class U> GPU_INLINE Pack<float, W> added(const U *to, int column, Pack<float, W> x) const {
        Pack<float, W> before = zeros<W>();
        if (packs) {
            before = convert<float>(load_pack<W>(to));
        } else {
#pragma unroll
            for (int j = 0; j < W; j++)
                if (column + j < n) before[j] = to_float(to[j]);
        }
#pragma unroll
        for (int j = 0; j < W; j++) x[j] += before[j];
        return x;
    }

    template <int W, class U> GPU_INLINE void store(U *to, int column, Pack<float, W> x) const {
        if (packs) {
            store_pack(to, convert<U>(x));
            return;
        }
#pragma unroll
        for (int j = 0; j < W; j++)
            if (column + j < n) to[j] = from_float<U>(x[j]);
    }

    /* x: W numbers of a row from `column` on; some may be outside. part: 0 unless k is shared among blocks. */
    template <int W> GPU_INLINE void write(int part, int row, int column, Pack<float, W> x) const {
        if (row >= m || column >= n) return;
        if (c) {
            if (bias) {
#pragma unroll
                for (int j = 0; j < W; j++)
                    if (column + j < n) x[j] += to_float(bias[column + j]);
            }
            store(c + (int64_t)row * n + column, column, x);
            return;
        }
        float *to = sums + ((int64_t)part * m + row) * n + column;
        store(to, column, add ? added(to, column, x) : x);
    }
};

/* The epilogue of sums that have been stored in hidden (EPILOGUE_GELU) or c (EPILOGUE_SLOPE). */
template <class T> struct Finish {
    T *c;
    const T *hidden;
    GemmEpilogue epilogue;
    GeluKind gelu;
    DropoutNumbers drop;

    /* Applies to W numbers at index `at`. */
    template <int W> GPU_INLINE void apply(int64_t at) const {
        Pack<float, W> x = convert<float>(load_pack<W>(hidden + at)), sum = zeros<W>();
        if (epilogue == EPILOGUE_SLOPE) sum = convert<float>(load_pack<W>(c + at));
#pragma unroll
        for (int j = 0; j < W; j++) {
            if (epilogue == EPILOGUE_GELU)
                x[j] = gelu == GELU_TANH ? ::gelu<GELU_TANH>(x[j]) : ::gelu<GELU_ERF>(x[j]);
            else
                x[j] = sum[j] * (gelu == GELU_TANH ? gelu_slope<GELU_TANH>(x[j]) : gelu_slope<GELU_ERF>(x[j]));
        }
        store_pack(c + at, convert<T>(dropped(drop, (uint64_t)at, x)));
    }

    /* Applies to the tile whose first number is in this row and column, after a barrier. */
    template <class Tile, int W> GPU_INLINE void apply_to_tile(int row, int column, int m, int n) const {
#pragma unroll 1
        for (int i = threadIdx.x * W; i < Tile::M * Tile::N; i += Tile::THREADS * W) {
            int r = row + i / Tile::N, c = column + i % Tile::N;
            if (r < m && c < n) apply<W>((int64_t)r * n + c);
        }
    }
};

/* Four matrices, of 8 rows of 16 bytes along k, for mma from `outer` and `k` on. Matrix i is the outer half OUTER_BIT
 * of i, and the other bit's half of k: registers of a count rows first, those of b count k first. */
template <class T, int OUTER, bool ALONG_K, int OUTER_BIT>
GPU_INLINE void load_fragments(uint32_t (&r)[4], const T *tile, int outer, int k) {
    constexpr int SIZE = Vector<T>::SIZE;
    int lane = threadIdx.x % 32, i = lane / 8, j = lane % 8;
    auto outer_of = [&](int matrix) { return outer + 8 * (matrix >> OUTER_BIT & 1); };
    auto k_of = [&](int matrix) { return k + SIZE * (matrix >> (1 - OUTER_BIT) & 1); };
    if constexpr (ALONG_K) {
        load_matrix_x4(r, tile + chunk_place<CHUNKS_ALONG_K>(outer_of(i) + j, k_of(i) / SIZE) * SIZE);
    } else if constexpr (sizeof(T) == 2) {
        load_matrix_x4_transposed(r, tile + chunk_place<OUTER / SIZE>(k_of(i) + j, outer_of(i) / SIZE) * SIZE);
    } else { /* there are no transposing loads of 32 bits */
#pragma unroll
        for (int matrix = 0; matrix < 4; matrix++) {
            int at = outer_of(matrix) % 32 + lane / 4; /* 32 numbers are all banks, and their chunks stay among them */
            int place = chunk_place<OUTER / SIZE>(k_of(matrix) + lane % 4, at / SIZE) * SIZE;
            r[matrix] = __float_as_uint(tile[outer / 32 * 32 + place + at % SIZE]);
        }
    }
    if constexpr (sizeof(T) == 4) {
#pragma unroll
        for (int matrix = 0; matrix < 4; matrix++) r[matrix] = to_tf32(__uint_as_float(r[matrix]));
    }
}

/* A block's products on tensor cores. A warp has M / WARPS_M x N / WARPS_N of them, in fragments of 16 x 8. */
template <class T, class Tile, bool A_ALONG_K, bool B_ALONG_K, bool TENSOR_CORES = ON_TENSOR_CORES<T, Tile>>
struct Products {
    static constexpr int ROWS = Tile::M / (Tile::THREADS / 32 / Tile::WARPS_N), COLUMNS = Tile::N / Tile::WARPS_N;
    float sums[ROWS / 16][COLUMNS / 8][4] = {};

    GPU_INLINE static int first_row() { return threadIdx.x / 32 / Tile::WARPS_N * ROWS; }
    GPU_INLINE static int first_column() { return threadIdx.x / 32 % Tile::WARPS_N * COLUMNS; }

    GPU_INLINE static void multiply(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
        if constexpr (sizeof(T) == 4)
            mma_16x8x8_tf32(d, a, b0, b1);
        else
            mma_16x8x16<T>(d, a, b0, b1);
    }

    GPU_INLINE void add(const T *a_tile, const T *b_tile) {
#pragma unroll
        for (int k = 0; k < DEPTH<T>; k += 2 * Vector<T>::SIZE) {
            uint32_t a[ROWS / 16][4], b[COLUMNS / 16][4];
#pragma unroll
            for (int i = 0; i < ROWS / 16; i++)
                load_fragments<T, Tile::M, A_ALONG_K, 0>(a[i], a_tile, first_row() + 16 * i, k);
#pragma unroll
            for (int j = 0; j < COLUMNS / 16; j++)
                load_fragments<T, Tile::N, B_ALONG_K, 1>(b[j], b_tile, first_column() + 16 * j, k);
#pragma unroll
            for (int i = 0; i < ROWS / 16; i++)
#pragma unroll
                for (int j = 0; j < COLUMNS / 8; j++)
                    multiply(sums[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
        }
    }

    /* f(row, column, Pack of sums) for all that the thread has, counted in the block's tile. */
    template <class F> GPU_INLINE void each(F f) const {
        int lane = threadIdx.x % 32;
#pragma unroll
        for (int i = 0; i < ROWS / 16; i++)
#pragma unroll
            for (int j = 0; j < COLUMNS / 8; j++)
#pragma unroll
                for (int half = 0; half < 2; half++)
                    f(first_row() + 16 * i + 8 * half + lane / 4, first_column() + 8 * j + lane % 4 * 2,
                      Pack<float, 2>{{sums[i][j][2 * half], sums[i][j][2 * half + 1]}});
    }
};

/* The same in f32 by FMAs: THREADS_M x 16 threads, of which 4 x 8 make a warp, each with 8 rows and N / 16 columns.
 * Those of a tile along k are THREADS_M or 16 apart, so that the threads of a warp read neighbouring rows; across k
 * they come in fours, which are one access. */
template <class Tile, bool A_ALONG_K, bool B_ALONG_K> struct Products<float, Tile, A_ALONG_K, B_ALONG_K, false> {
    static constexpr int THREADS_N = 16, THREADS_M = Tile::THREADS / THREADS_N;
    static constexpr int ROWS = Tile::M / THREADS_M, COLUMNS = Tile::N / THREADS_N;
    static constexpr int WIDTH = B_ALONG_K ? 1 : 4; /* columns that lie side by side in a thread */
    float sums[ROWS][COLUMNS] = {};

    GPU_INLINE static int thread_m() { return threadIdx.x / 64 * 4 + threadIdx.x % 32 / 8; }
    GPU_INLINE static int thread_n() { return threadIdx.x / 32 % 2 * 8 + threadIdx.x % 8; }

    /* Returns the thread's i-th row or column in the tile. */
    template <bool ALONG_K, int THREADS> GPU_INLINE static int index(int thread, int i) {
        return ALONG_K ? thread + THREADS * i : 4 * (thread + THREADS * (i / 4)) + i % 4;
    }

    /* x[j][i] = the thread's i-th row or column at k = 4 chunk + j. */
    template <bool ALONG_K, int OUTER, int THREADS, int COUNT>
    GPU_INLINE static void load(float (&x)[4][COUNT], const float *tile, int thread, int chunk) {
        constexpr int STEP = ALONG_K ? 1 : 4;
#pragma unroll
        for (int i = 0; i < COUNT; i += STEP)
#pragma unroll
            for (int j = 0; j < 4; j += ALONG_K ? 4 : 1) {
                int at = index<ALONG_K, THREADS>(thread, i);
                Vector<float> v = load_vector(tile + 4 * (ALONG_K ? chunk_place<CHUNKS_ALONG_K>(at, chunk)
                                                                  : chunk_place<OUTER / 4>(4 * chunk + j, at / 4)));
#pragma unroll
                for (int u = 0; u < 4; u++) (ALONG_K ? x[u][i] : x[j][i + u]) = v[u];
            }
    }

    GPU_INLINE void add(const float *a_tile, const float *b_tile) {
#pragma unroll
        for (int chunk = 0; chunk < CHUNKS_ALONG_K; chunk++) {
            float a[4][ROWS], b[4][COLUMNS];
            load<A_ALONG_K, Tile::M, THREADS_M>(a, a_tile, thread_m(), chunk);
            load<B_ALONG_K, Tile::N, THREADS_N>(b, b_tile, thread_n(), chunk);
#pragma unroll
            for (int k = 0; k < 4; k++)
#pragma unroll
                for (int i = 0; i < ROWS; i++)
#pragma unroll
                    for (int j = 0; j < COLUMNS; j++) sums[i][j] += a[k][i] * b[k][j];
        }
    }

    template <class F> GPU_INLINE void each(F f) const {
#pragma unroll
        for (int i = 0; i < ROWS; i++)
#pragma unroll
            for (int j = 0; j < COLUMNS; j += WIDTH) {
                Pack<float, WIDTH> x;
#pragma unroll
                for (int u = 0; u < WIDTH; u++) x[u] = sums[i][j + u];
                f(index<A_ALONG_K, THREADS_M>(thread_m(), i), index<B_ALONG_K, THREADS_N>(thread_n(), j), x);
            }
    }
};

template <class T> struct Operands {
    const T *a, *b;
    int k, part; /* part: how much of k a block sums, a multiple of DEPTH */
    bool a_aligned, b_aligned;
};

/* Blocks on tensor cores that share a multiprocessor, and so registers: before 8.0 it has shared memory for one. */
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ < 800
constexpr int BLOCKS_OF_HALF = 1;
#else
constexpr int BLOCKS_OF_HALF = 2;
#endif
template <class T, class Tile> constexpr int BLOCKS = ON_TENSOR_CORES<T, Tile> ? BLOCKS_OF_HALF : 1;

/* The walk along k of a block, which brings tiles into a ring of STAGES slots and adds their products: load_a(slot) is
 * A's next tile, B's lies behind it. Step s is in slot s % STAGES; after the one barrier per step, all threads'
 * copies of step s have arrived and no thread still reads step s - 1, whose slot is filled next. */
template <class T, class Tile, class Sums, class B, class LoadA>
GPU_INLINE void walk(Sums &products, int steps, B &b, bool b_aligned, LoadA load_a) {
    constexpr int A_SIZE = Tile::M * DEPTH<T>, STAGE = (Tile::M + Tile::N) * DEPTH<T>;
    DYNAMIC_SHARED(T, shared);
    auto load_step = [&](int step) {
        if (step < steps) {
            T *slot = shared + step % Tile::STAGES * STAGE;
            load_a(slot);
            b.load_tile(slot + A_SIZE, b_aligned);
        }
        copy_async_commit(); /* also an empty group: the wait below counts steps */
    };
    for (int step = 0; step < Tile::STAGES - 1; step++) load_step(step);
    for (int step = 0; step < steps; step++) {
        copy_async_wait<Tile::STAGES - 2>();
        __syncthreads();
        load_step(step + Tile::STAGES - 1);
        const T *slot = shared + step % Tile::STAGES * STAGE;
        products.add(slot, slot + A_SIZE);
    }
    copy_async_wait<0>();
}

/* Grid: tiles of c x parts of k. */
template <class T, class Tile, bool A_ALONG_K, bool B_ALONG_K>
__global__ void __launch_bounds__(Tile::THREADS, BLOCKS<T, Tile>)
    multiply(Output<T> output, Operands<T> operands, Finish<T> finish) {
    only_where_used<T>();
    constexpr int TOGETHER = 8;
    int tiles_m = (output.m + Tile::M - 1) / Tile::M, tiles_n = (output.n + Tile::N - 1) / Tile::N;
    int group = blockIdx.x / (TOGETHER * tiles_n), in_group = blockIdx.x % (TOGETHER * tiles_n);
    int group_rows = min(TOGETHER, tiles_m - group * TOGETHER);
    int row = (group * TOGETHER + in_group % group_rows) * Tile::M, column = in_group / group_rows * Tile::N;
    int k_begin = blockIdx.y * operands.part, k_end = min(operands.k - k_begin, operands.part) + k_begin;
    int steps = (k_end - k_begin + DEPTH<T> - 1) / DEPTH<T>;
    bool a_aligned = Tile::ALIGNED || operands.a_aligned, b_aligned = Tile::ALIGNED || operands.b_aligned;

    Source<T, Tile::M, Tile::THREADS, A_ALONG_K> a(operands.a, row, output.m, operands.k, k_begin, k_end);
    Source<T, Tile::N, Tile::THREADS, B_ALONG_K> b(operands.b, column, output.n, operands.k, k_begin, k_end);
    Products<T, Tile, A_ALONG_K, B_ALONG_K> products;
    walk<T, Tile>(products, steps, b, b_aligned, [&](T *slot) { a.load_tile(slot, a_aligned); });
    products.each([&](int i, int j, auto x) { output.write(blockIdx.y, row + i, column + j, x); });
    if (!A_ALONG_K || !finish.epilogue) return;
    __syncthreads();
    if (output.packs)
        finish.template apply_to_tile<Tile, 4>(row, column, output.m, output.n);
    else
        finish.template apply_to_tile<Tile, 1>(row, column, output.m, output.n);
}

/* output = the sum of `parts` f32 [m, n], one behind the other, in their order, and its epilogue. A thread adds W
 * numbers; grid: m n / (256 W). Bytes: 4 m n (parts + 2), or 4 m n parts + m n numbers. */
template <class T, int W>
__global__ void __launch_bounds__(256) add_parts(Output<T> output, const float *from, int parts, Finish<T> finish) {
    int64_t at = ((int64_t)blockIdx.x * 256 + threadIdx.x) * W, size = (int64_t)output.m * output.n;
    if (at >= size) return;
    Pack<float, W> sum = load_pack<W>(from + at);
    for (int part = 1; part < parts; part++) {
        Pack<float, W> x = load_pack<W>(from + part * size + at);
#pragma unroll
        for (int j = 0; j < W; j++) sum[j] += x[j];
    }
    output.write(0, (int)(at / output.n), (int)(at % output.n), sum);
    if (finish.epilogue) finish.template apply<W>(at);
}

/* ---- the host's half ---- */

template <class T>
void launch_add_parts(Device *device, const Output<T> &output, const float *from, int parts, Finish<T> finish) {
    with_width<4>(output.packs, [&](auto width) {
        constexpr int W = decltype(width)::value;
        unsigned blocks = grid_of("a sum of parts", ceil_div((int64_t)output.m * output.n, 256 * W));
        cuda_check(gpu_launch(add_parts<T, W>, blocks, 256, 0, cuda_stream(device), output, from, parts, finish),
                   "a sum of parts");
    });
}

/* Returns the number of parts of k: enough that each multiprocessor has two blocks, but none shorter than 8 steps. */
template <class T, class Tile> int parts_of(Device *device, const Gemm &g, int64_t tiles) {
    int64_t longest = g.k / (8 * DEPTH<T>), wanted = 2 * cuda_state(device)->n_multiprocessors / tiles;
    int64_t parts = wanted < longest ? wanted : longest;
    return (int)(parts < 1 ? 1 : parts > 64 ? 64 : parts);
}

template <class Tile> int64_t tiles_of(const Gemm &g) { return ceil_div(g.m, Tile::M) * ceil_div(g.n, Tile::N); }

/* Returns the floats of scratch for the sums of the parts. */
template <class T, class Tile> int64_t sums_of(Device *device, const Gemm &g) {
    int64_t parts = parts_of<T, Tile>(device, g, tiles_of<Tile>(g));
    return parts > 1 ? parts * g.m * g.n : 0;
}

/* Returns the most floats that a product with these rows or, if rows vary, fewer rows needs: it has fewer tiles and so
 * more parts. If the depth varies, the largest depth has the most parts. */
template <class T> int64_t most_sums(Device *device, Gemm g, bool aligned) {
    int64_t rows = g.m, most = 0;
    for (g.m = g.rows_vary && rows > SmallTile::M ? SmallTile::M : rows;; g.m += SmallTile::M) {
        if (g.m > rows) g.m = rows;
        int64_t small = sums_of<T, SmallTile>(device, g), large = aligned ? sums_of<T, LargeTile>(device, g) : 0;
        if (small > most) most = small;
        if (large > most) most = large;
        if (g.m == rows || tiles_of<LargeTile>(g) > cuda_state(device)->n_multiprocessors) return most;
    }
}

template <class T, class Tile, bool A_ALONG_K, bool B_ALONG_K>
void launch_multiply(Device *device, const Gemm &g, const Operands<T> &given) {
    int64_t tiles = tiles_of<Tile>(g), sums = sums_of<T, Tile>(device, g);
    int parts = parts_of<T, Tile>(device, g, tiles);
    if (cuda_state(device)->at_most) sums = most_sums<T>(device, g, given.a_aligned && given.b_aligned);
    float *scratch = sums ? (float *)cuda_scratch(device, (size_t)sums * sizeof(float)) : NULL;
    Operands<T> operands = given;
    operands.part = (int)(ceil_div(ceil_div(g.k, parts), DEPTH<T>) * DEPTH<T>);
    if (parts > 1) parts = (int)ceil_div(g.k, operands.part); /* rounding up may have used k up */

    Output<T> output = {}, part = {};
    output.m = (int)g.m, output.n = (int)g.n;
    output.bias = (const T *)g.bias;
    output.packs = packs_fit(4, g.n, (const char *)g.c, (const char *)g.hidden);
    if (g.sums)
        output.sums = (float *)g.c, output.add = g.sums == SUMS_ADDED;
    else
        output.c = (T *)(g.epilogue == EPILOGUE_GELU ? g.hidden : g.c);
    Finish<T> finish = {(T *)g.c, (const T *)g.hidden, g.epilogue, g.gelu, dropout_numbers(g.drop)}, none = {};
    part.m = output.m, part.n = output.n;
    part.packs = g.n % 4 == 0;
    part.sums = scratch;

    dim3 grid(grid_of("a matrix product", tiles), (unsigned)parts);
    size_t shared = Tile::STAGES * (Tile::M + Tile::N) * DEPTH<T> * sizeof(T);
    cuda_check(gpu_launch(multiply<T, Tile, A_ALONG_K, B_ALONG_K>, grid, Tile::THREADS, shared, cuda_stream(device),
                          parts > 1 ? part : output, operands, parts > 1 ? none : finish),
               "a matrix product");
    if (parts > 1) launch_add_parts(device, output, part.sums, parts, finish);
}

/* Uses the large tile if its blocks occupy the whole card, if necessary with k divided. */
template <class T, bool A_ALONG_K, bool B_ALONG_K> void choose_tile(Device *device, const Gemm &g) {
    constexpr int SIZE = Vector<T>::SIZE;
    Operands<T> operands = {};
    operands.a = (const T *)g.a, operands.b = (const T *)g.b, operands.k = (int)g.k;
    operands.a_aligned = packs_fit(SIZE, A_ALONG_K ? g.k : g.m, operands.a);
    operands.b_aligned = packs_fit(SIZE, B_ALONG_K ? g.k : g.n, operands.b);
    auto launch = [&](auto tile) { launch_multiply<T, decltype(tile), A_ALONG_K, B_ALONG_K>(device, g, operands); };
    int64_t large = tiles_of<LargeTile>(g), blocks = large * parts_of<T, LargeTile>(device, g, large);
    if (operands.a_aligned && operands.b_aligned && blocks >= cuda_state(device)->n_multiprocessors)
        launch_rounded<T, LargeTile>(device, LargeTile(), launch);
    else
        launch_rounded<T, SmallTile>(device, SmallTile(), launch);
}

} // namespace

/* gemm_own for one type. */
template <class T> void gemm_of(Device *device, const Gemm &g) {
    if (g.transpose_a)
        g.transpose_b ? choose_tile<T, false, true>(device, g) : choose_tile<T, false, false>(device, g);
    else
        g.transpose_b ? choose_tile<T, true, true>(device, g) : choose_tile<T, true, false>(device, g);
}
