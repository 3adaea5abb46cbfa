/* Embedding, and rows placed among others. The forward is a gather of rows. The backward sums, for every row of the
 * table, the gradients of the positions at which it was taken, in their order, however often an id occurs, and without
 * atomics:
 *
 *   1. the pairs (id, i) are sorted: chunks of CHUNK in shared memory, then each pair finds its place among all by
 *      counting the smaller ones of every chunk;
 *   2. the sorted list is cut into pieces of PIECE pairs. A warp adds up a slice of the columns of a piece, run by run
 *      (a run: pairs of one id). A run inside the piece goes into the table at once; a part of a run that goes beyond
 *      it is stored aside;
 *   3. the warp of the piece in which a long run begins adds its parts in their order.
 *
 * How numbers are grouped depends on the ids alone, so the same ids give the same bits. */
#include "kernels/cuda/check_index.h"
#include "kernels/cuda/memory.h"

namespace {

enum { BLOCK = 256, WARPS = BLOCK / 32, CHUNK = 1024, PIECE = 32, BATCH = 4 };

/* x[rows[i]] = table[ids[i]] + place_table[places[i]]: rows, ids, places and place_table may be null; a null array of
 * indices is i itself. place_rows is the same, with activations for the table and no ids.
 *
 * One warp a row, which it reads in packs of four: 16 bytes of an f32 array, 8 of another. Grid: n / WARPS. Bytes: n c
 * times (the sizes of T and From, 4 with places), 4 n an array of indices. */
template <int W, class T, class From>
__global__ void __launch_bounds__(BLOCK)
    embed(T *__restrict__ x, const int32_t *rows, int64_t n_rows, const int32_t *ids, const From *__restrict__ table,
          int64_t n_ids, const int32_t *places, const float *__restrict__ place_table, int64_t n_places, int64_t n,
          int64_t c) {
    only_where_used<T>();
    int64_t i = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    if (i >= n) return;
    int64_t row = rows ? rows[i] : i, id = ids ? ids[i] : i, place = places ? places[i] : 0;
    check_row("embedding_forward or place_rows: rows", i, row, n_rows);
    if (row < 0) return;
    check_index("embedding_forward: ids", i, id, n_ids);
    if (places) check_index("embedding_forward or place_rows: positions", i, place, n_places);
#pragma unroll 4
    for (int64_t j = threadIdx.x % 32 * W; j < c; j += 32 * W) {
        Pack<float, W> sum = convert<float>(load_pack<W>(table + id * c + j));
        if (places) {
            Pack<float, W> more = load_pack<W>(place_table + place * c + j);
#pragma unroll
            for (int k = 0; k < W; k++) sum[k] += more[k];
        }
        store_pack(x + row * c + j, convert<T>(sum));
    }
}

/* A pair is its id above its number, so that the order of pairs is that of ids, then of numbers; no two are equal. */
GPU_INLINE int64_t pair_id(uint64_t pair) { return (int64_t)(pair >> 32); }
GPU_INLINE int64_t pair_number(uint64_t pair) { return (int64_t)(pair & 0xFFFFFFFFu); }

/* The pairs of a chunk, sorted by a bitonic network: after the round of `size`, stretches of that many are sorted,
 * every other one downwards, until one stretch is the chunk. A block of CHUNK / 2 threads a chunk, a comparison each;
 * they also check the indices. Grid: n / CHUNK. Bytes: 12 n, 4 n with rows. */
__global__ void __launch_bounds__(CHUNK / 2)
    sort_chunks(uint64_t *sorted, const int32_t *ids, int64_t n, int64_t n_table, const int32_t *rows, int64_t n_rows) {
    SHARED(uint64_t, pairs, [CHUNK]);
    int64_t first = (int64_t)blockIdx.x * CHUNK;
    for (int k = threadIdx.x; k < CHUNK; k += CHUNK / 2) {
        int64_t i = first + k;
        if (i < n) check_index("embedding_backward: ids or positions", i, ids[i], n_table);
        if (i < n && rows) check_row("embedding_backward: rows", i, rows[i], n_rows);
        pairs[k] = i < n ? (uint64_t)ids[i] << 32 | (uint64_t)i : UINT64_MAX;
    }
    __syncthreads();
    for (int size = 2; size <= CHUNK; size *= 2)
        for (int distance = size / 2; distance; distance /= 2) {
            int low = 2 * threadIdx.x - (threadIdx.x & (distance - 1)), high = low + distance;
            uint64_t a = pairs[low], b = pairs[high];
            bool upwards = (low & size) == 0;
            if ((a > b) == upwards) {
                pairs[low] = b;
                pairs[high] = a;
            }
            __syncthreads();
        }
    for (int k = threadIdx.x; k < CHUNK && first + k < n; k += CHUNK / 2) sorted[first + k] = pairs[k];
}

/* Returns how many of the n sorted pairs are below `bound`. */
GPU_INLINE int64_t count_below(const uint64_t *pairs, int64_t n, uint64_t bound) {
    int64_t low = 0, high = n;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (pairs[middle] < bound)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Merges sorted chunks into one list, a thread a pair. Grid: n / BLOCK. Bytes: 16 n; the searches stay in cache. */
__global__ void __launch_bounds__(BLOCK) merge_chunks(uint64_t *sorted, const uint64_t *chunks, int64_t n) {
    int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
    if (i >= n) return;
    uint64_t pair = chunks[i];
    int64_t place = i % CHUNK;
    for (int64_t first = 0; first < n; first += CHUNK)
        if (first != i - i % CHUNK)
            place += count_below(chunks + first, n - first < CHUNK ? n - first : (int64_t)CHUNK, pair);
    sorted[place] = pair;
}

/* The work of a warp: a piece of the list, and the columns of its lanes. */
struct Share {
    int64_t piece, column;
};

template <int W> GPU_INLINE Share share_of_warp(int64_t c) {
    int64_t slices = (c + 32 * W - 1) / (32 * W), item = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    return {item / slices, (item % slices * 32 + threadIdx.x % 32) * W};
}

template <int W> GPU_INLINE void add_pack(float *to, const Pack<float, W> &sum) {
    Pack<float, W> total = load_pack<W>(to);
#pragma unroll
    for (int k = 0; k < W; k++) total[k] += sum[k];
    store_pack(to, total);
}

/* Step 2. parts f32 [pieces, 2, c]: of a run that began before the piece; of one that begins in it and goes on.
 *
 * Rows are loaded BATCH at a time before they are added. Grid: pieces times slices of 32 W columns, / WARPS. Bytes: n c
 * times the size of T, 8 c a row of the table that occurs, 4 c a part. */
template <int W, class T>
__global__ void __launch_bounds__(BLOCK) add_pieces(float *dtable, float *parts, const T *dx, const int32_t *rows,
                                                    const uint64_t *sorted, int64_t n, int64_t c) {
    Share share = share_of_warp<W>(c);
    int64_t first = share.piece * PIECE, column = share.column;
    if (first >= n) return;
    int count = n - first < PIECE ? (int)(n - first) : PIECE, lane = threadIdx.x % 32;
    int64_t before = first > 0 ? pair_id(sorted[first - 1]) : -1;
    int64_t after = first + count < n ? pair_id(sorted[first + count]) : -1;
    int64_t id = -1, row = 0;
    if (lane < count) {
        uint64_t pair = sorted[first + lane];
        id = pair_id(pair);
        row = rows ? rows[pair_number(pair)] : pair_number(pair);
    }
    Pack<float, W> sum = zeros<W>();
    for (int k = 0; k < count; k += BATCH) {
        Pack<T, W> batch[BATCH];
#pragma unroll
        for (int b = 0; b < BATCH; b++) {
            int64_t from = __shfl_sync(0xFFFFFFFFu, row, (k + b) % 32);
            if (k + b < count && column < c) batch[b] = from < 0 ? Pack<T, W>{} : load_pack<W>(dx + from * c + column);
        }
#pragma unroll
        for (int b = 0; b < BATCH; b++) {
            int at = k + b;
            int64_t run = __shfl_sync(0xFFFFFFFFu, id, at % 32), next = __shfl_sync(0xFFFFFFFFu, id, (at + 1) % 32);
            if (at >= count || column >= c) continue;
            if (at == count - 1) next = after;
#pragma unroll
            for (int e = 0; e < W; e++) sum[e] += to_float(batch[b][e]);
            if (next == run && at < count - 1) continue;
            if (run == before)
                store_pack(parts + 2 * share.piece * c + column, sum);
            else if (next == run)
                store_pack(parts + (2 * share.piece + 1) * c + column, sum);
            else
                add_pack(dtable + run * c + column, sum);
            sum = zeros<W>();
        }
    }
}

/* Step 3: the warp of the piece in which a long run begins adds its parts. The same grid. Bytes: 4 c a part, 8 c a row
 * of the table with a long run. */
template <int W>
__global__ void __launch_bounds__(BLOCK)
    add_parts(float *dtable, const float *parts, const uint64_t *sorted, int64_t n, int64_t c) {
    Share share = share_of_warp<W>(c);
    int64_t first = share.piece * PIECE, end = first + PIECE;
    if (end >= n || share.column >= c) return;
    int64_t id = pair_id(sorted[end - 1]);
    if (pair_id(sorted[end]) != id || (first > 0 && pair_id(sorted[first - 1]) == id)) return;
    int64_t run_end = end + count_below(sorted + end, n - end, (uint64_t)(id + 1) << 32);
    int64_t last = (run_end - 1) / PIECE;
    Pack<float, W> sum = load_pack<W>(parts + (2 * share.piece + 1) * c + share.column);
#pragma unroll 8
    for (int64_t piece = share.piece + 1; piece <= last; piece++) {
        Pack<float, W> part = load_pack<W>(parts + 2 * piece * c + share.column);
#pragma unroll
        for (int e = 0; e < W; e++) sum[e] += part[e];
    }
    add_pack(dtable + id * c + share.column, sum);
}

/* dtable[ids[i]] += dx[rows[i]] */
template <class T> void add_rows(Device *device, Tensor dtable, Tensor dx, Tensor rows, Tensor ids) {
    const char *op = "embedding_backward";
    constexpr int WIDTH = 16 / sizeof(T);
    int64_t n = ids.dims[0], c = dx.dims[1], pieces = ceil_div(n, PIECE);
    if (n == 0 || c == 0) return;
    size_t parts_bytes = (size_t)(2 * pieces * c) * sizeof(float), list_bytes = (size_t)n * sizeof(uint64_t);
    parts_bytes = (parts_bytes + 15) / 16 * 16;
    char *scratch = (char *)cuda_scratch(device, parts_bytes + 2 * list_bytes);
    float *parts = (float *)scratch;
    uint64_t *sorted = (uint64_t *)(scratch + parts_bytes), *chunks = n > CHUNK ? sorted + n : sorted;
    cudaStream_t stream = cuda_stream(device);
    cuda_check(gpu_launch(sort_chunks, grid_of(op, ceil_div(n, CHUNK)), CHUNK / 2, 0, stream, chunks,
                          (const int32_t *)ids.data, n, dtable.dims[0], (const int32_t *)rows.data, dx.dims[0]),
               op);
    if (n > CHUNK)
        cuda_check(gpu_launch(merge_chunks, grid_of(op, ceil_div(n, BLOCK)), BLOCK, 0, stream, sorted, chunks, n), op);
    with_width<WIDTH>(packs_fit(WIDTH, c, dtable.data, dx.data), [&](auto width) {
        constexpr int W = decltype(width)::value;
        unsigned grid = grid_of(op, ceil_div(pieces * ceil_div(c, 32 * W), WARPS));
        cuda_check(gpu_launch(add_pieces<W, T>, grid, BLOCK, 0, stream, (float *)dtable.data, parts, (const T *)dx.data,
                              (const int32_t *)rows.data, sorted, n, c),
                   op);
        if (pieces > 1)
            cuda_check(gpu_launch(add_parts<W>, grid, BLOCK, 0, stream, (float *)dtable.data, parts, sorted, n, c), op);
    });
}

template <class T, class From>
void launch_embed(Device *device, const char *op, int64_t n, Tensor x, Tensor rows, Tensor ids, Tensor table,
                  Tensor positions, Tensor position_table) {
    int64_t c = x.dims[1];
    if (n == 0 || c == 0) return;
    with_width<4>(packs_fit(4, c, x.data, table.data, position_table.data), [&](auto width) {
        constexpr int W = decltype(width)::value;
        cuda_check(gpu_launch(embed<W, T, From>, grid_of(op, ceil_div(n, WARPS)), BLOCK, 0, cuda_stream(device),
                              (T *)x.data, (const int32_t *)rows.data, x.dims[0], (const int32_t *)ids.data,
                              (const From *)table.data, table.dims[0], (const int32_t *)positions.data,
                              (const float *)position_table.data, position_table.dims[0], n, c),
                   op);
    });
}

} // namespace

void cuda_embedding_forward(Device *device, Tensor x, Tensor rows, Tensor ids, Tensor table, Tensor positions,
                            Tensor position_table) {
    with_type(x.dtype, [&](auto zero) {
        launch_embed<decltype(zero), float>(device, "embedding_forward", ids.dims[0], x, rows, ids, table, positions,
                                            position_table);
    });
}

void cuda_place_rows(Device *device, Tensor x, Tensor y, Tensor rows, Tensor positions, Tensor table) {
    with_type(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        launch_embed<T, T>(device, "place_rows", y.dims[0], x, rows, tensor_none(), y, positions, table);
    });
}

void cuda_embedding_backward(Device *device, Tensor dtable, Tensor dposition_table, Tensor dx, Tensor rows, Tensor ids,
                             Tensor positions) {
    with_type(dx.dtype, [&](auto zero) {
        using T = decltype(zero);
        add_rows<T>(device, dtable, dx, rows, ids);
        if (tensor_given(positions)) add_rows<T>(device, dposition_table, dx, rows, positions);
    });
}
