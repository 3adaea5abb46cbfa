/* For each row of x, the row of a table with the largest dot product.
 *
 * A block has GROUPS groups of R rows and walks over the whole table, CODES<D> rows of it at a time, by columns in
 * shared memory. PARTS warps share a group: each lane has another row of the table and all R of the group, in
 * registers, and keeps of each of them the best and the second best product. Comparisons round nothing, so the lanes'
 * results are put together in any order.
 *
 * Floor: n k D multiply-adds; beside the D of a pair the comparisons take five instructions, and an R-th of reading the
 * row of the table. 8,192 rows of 8 are 256 KiB, which stay in the L2 cache and are read by n / (GROUPS R) blocks; x is
 * read once, 4 n d bytes. */
#include "kernels/cuda/memory.h"

namespace {

enum { GROUPS = 2, PARTS = 4, BLOCK = 32 * GROUPS * PARTS };
template <int D> constexpr int CODES = 8192 / D;
template <int D> constexpr int R = D > 8 ? 4 : 8;

struct Nearest {
    float best, second;
    int id;
};

/* Puts the results of two parts of the table together; of equal products the first is the best. */
GPU_INLINE Nearest better_of(Nearest a, Nearest b) {
    Nearest c = b.best > a.best || (b.best == a.best && b.id < a.id) ? b : a;
    c.second = fmaxf(fmaxf(a.second, b.second), fminf(a.best, b.best));
    return c;
}

/* Copies rows first, ... of the table into codes [D][CODES + 4]: for D = 8 the lanes meet different banks. W is 1
 * unless rows have D numbers and begin at packs. */
template <int D, int W>
GPU_INLINE void load_codes(float (*codes)[CODES<D> + 4], const float *table, int64_t first, int64_t k, int d) {
#pragma unroll 4
    for (int i = threadIdx.x * W; i < CODES<D> * D; i += BLOCK * W) {
        int code = i / D, e = i % D;
        Pack<float, W> numbers = zeros<W>();
        if (first + code < k && (W > 1 || e < d)) numbers = load_pack<W>(table + (first + code) * d + e);
#pragma unroll
        for (int j = 0; j < W; j++) codes[e + j][code] = numbers[j];
    }
}

/* D: d, rounded up. Grid: n / (GROUPS R). */
template <int D, int W>
__global__ void __launch_bounds__(BLOCK, 2)
    nearest(int32_t *ids, float *margins, const float *x, const float *table, int64_t n, int64_t k, int d) {
    SHARED(float, codes, [D][CODES<D> + 4]);
    SHARED(Nearest, parts, [GROUPS][PARTS][R<D>]);
    int lane = threadIdx.x % 32, part = threadIdx.x / 32 % PARTS, group = threadIdx.x / 32 / PARTS;
    int64_t row = ((int64_t)blockIdx.x * GROUPS + group) * R<D>;
    float own[R<D>][D];
    Nearest found[R<D>];
#pragma unroll
    for (int r = 0; r < R<D>; r++) {
        found[r] = {-INFINITY, -INFINITY, 0};
#pragma unroll
        for (int e = 0; e < D; e++) own[r][e] = row + r < n && e < d ? x[(row + r) * d + e] : 0.0f;
    }
    for (int64_t first = 0; first < k; first += CODES<D>) {
        if (first) __syncthreads();
        load_codes<D, W>(codes, table, first, k, d);
        __syncthreads();
        int end = k - first < CODES<D> ? (int)(k - first) : CODES<D>;
        for (int code = part * 32 + lane; code < end; code += PARTS * 32) {
#pragma unroll
            for (int r = 0; r < R<D>; r++) {
                float product = 0;
#pragma unroll
                for (int e = 0; e < D; e++) product = fmaf(own[r][e], codes[e][code], product);
                bool better = product > found[r].best; /* never if it is NaN, which fmaxf passes over, too */
                found[r].second = fmaxf(found[r].second, better ? found[r].best : product);
                found[r].best = better ? product : found[r].best;
                found[r].id = better ? (int)first + code : found[r].id;
            }
        }
    }
#pragma unroll
    for (int r = 0; r < R<D>; r++) {
        for (int other = 16; other; other /= 2)
            found[r] = better_of(found[r], {__shfl_xor_sync(0xFFFFFFFFu, found[r].best, other),
                                            __shfl_xor_sync(0xFFFFFFFFu, found[r].second, other),
                                            __shfl_xor_sync(0xFFFFFFFFu, found[r].id, other)});
        if (lane == 0) parts[group][part][r] = found[r];
    }
    __syncthreads();
    if (part > 0 || lane >= R<D> || row + lane >= n) return;
    Nearest all = parts[group][0][lane];
    for (int p = 1; p < PARTS; p++) all = better_of(all, parts[group][p][lane]);
    ids[row + lane] = all.id;
    if (margins) margins[row + lane] = all.best - all.second;
}

template <int D> void launch(Device *device, Tensor ids, Tensor margins, Tensor x, Tensor table) {
    const char *op = "nearest_direction";
    int64_t n = x.dims[0], d = x.dims[1];
    with_width<4>(d == D && packs_fit(4, d, table.data), [&](auto width) {
        constexpr int W = decltype(width)::value;
        cuda_check(gpu_launch(nearest<D, W>, grid_of(op, ceil_div(n, GROUPS * R<D>)), BLOCK, 0, cuda_stream(device),
                              (int32_t *)ids.data, (float *)margins.data, (const float *)x.data,
                              (const float *)table.data, n, table.dims[0], (int)d),
                   op);
    });
}

} // namespace

void cuda_nearest_direction(Device *device, Tensor ids, Tensor margins, Tensor x, Tensor table) {
    static_assert(DIRECTION_MAX_SIZE == 16, "the widest kernel");
    if (x.dims[0] == 0) return;
    if (x.dims[1] <= 4)
        launch<4>(device, ids, margins, x, table);
    else if (x.dims[1] <= 8)
        launch<8>(device, ids, margins, x, table);
    else
        launch<16>(device, ids, margins, x, table);
}
