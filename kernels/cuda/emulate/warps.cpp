/* The operations of a warp, on top of warp_operation(): each lane leaves a pointer to its arguments, and the last to
 * arrive does the work for all. Tensor cores as the PTX ISA lays out their fragments, and asynchronous copies, which
 * may land anywhere between issue and wait. */
#include <fenv.h>

#include "kernels/cuda/emulate/internal.h"

namespace emulate {

/* for (int lane : bits of mask) */
#define FOR_EACH_LANE(lane, mask)                                                                                      \
    for (uint32_t left_ = (mask), lane = left_ ? __builtin_ctz(left_) : 0; left_;                                      \
         left_ &= left_ - 1, lane = left_ ? __builtin_ctz(left_) : 0)

struct Word {
    uint64_t in, out;
    int source_lane;
    Reduction reduction;
};
static Word &word_of(Warp &warp, int lane) { return *static_cast<Word *>(warp.arguments[lane]); }

void warp_barrier(uint32_t mask, Site site) {
    Collective nothing = [](Warp &, uint32_t) {};
    warp_operation(mask, nothing, NULL, "__syncwarp", site);
}

uint64_t shuffle(uint32_t mask, uint64_t value, int source_lane, Site site) {
    Word word = {value, 0, source_lane, SUM};
    Collective exchange = [](Warp &warp, uint32_t mask) {
        FOR_EACH_LANE(lane, mask) {
            Word &word = word_of(warp, (int)lane);
            if (!(mask >> word.source_lane & 1))
                fail("shuffle at %s:%d: lane %u reads lane %d, which takes no part (mask %08x)",
                     warp.lanes[lane].site.file, warp.lanes[lane].site.line, lane, word.source_lane, mask);
            word.out = word_of(warp, word.source_lane).in;
        }
    };
    warp_operation(mask, exchange, &word, "shuffle", site);
    return word.out;
}

uint32_t ballot(uint32_t mask, bool predicate, Site site) {
    Word word = {predicate, 0, 0, SUM};
    Collective vote = [](Warp &warp, uint32_t mask) {
        uint32_t votes = 0;
        FOR_EACH_LANE(lane, mask) votes |= (uint32_t)word_of(warp, (int)lane).in << lane;
        FOR_EACH_LANE(lane, mask) word_of(warp, (int)lane).out = votes;
    };
    warp_operation(mask, vote, &word, "vote", site);
    return (uint32_t)word.out;
}

uint32_t match_any(uint32_t mask, uint64_t value, Site site) {
    Word word = {value, 0, 0, SUM};
    Collective match = [](Warp &warp, uint32_t mask) {
        FOR_EACH_LANE(lane, mask) FOR_EACH_LANE(other, mask) {
            if (word_of(warp, (int)other).in == word_of(warp, (int)lane).in)
                word_of(warp, (int)lane).out |= 1u << other;
        }
    };
    warp_operation(mask, match, &word, "__match_any_sync", site);
    return (uint32_t)word.out;
}

int64_t reduce(uint32_t mask, int64_t value, Reduction reduction, Site site) {
    Word word = {(uint64_t)value, 0, 0, reduction};
    Collective combine = [](Warp &warp, uint32_t mask) {
        int first = __builtin_ctz(mask);
        Reduction reduction = word_of(warp, first).reduction;
        int64_t total = (int64_t)word_of(warp, first).in;
        FOR_EACH_LANE(lane, mask & (mask - 1)) {
            int64_t x = (int64_t)word_of(warp, (int)lane).in;
            switch (reduction) {
            case SUM:
                total += x;
                break;
            case MIN:
                total = x < total ? x : total;
                break;
            case MAX:
                total = x > total ? x : total;
                break;
            case AND:
                total &= x;
                break;
            case OR:
                total |= x;
                break;
            case XOR:
                total ^= x;
                break;
            }
        }
        FOR_EACH_LANE(lane, mask) word_of(warp, (int)lane).out = (uint64_t)total;
    };
    warp_operation(mask, combine, &word, "__reduce_sync", site);
    return (int64_t)word.out;
}

/* ---- what is not exact ---- */

/* Returns a number from -units to units in the last place beside the exact result, the same for the same operands. 0,
 * infinity and NaN stay: the documents name these results. */
template <class T, class Bits> static T beside(T exact, double units, uint64_t operands) {
    double fraction = (double)(hash(operands ^ hash(inexact_seed)) >> 11) * 0x1p-52 - 1;
    Bits bits;
    if (exact == 0 || !(fabs((double)exact) < INFINITY)) return exact;
    memcpy(&bits, &exact, sizeof bits);
    int64_t moved = (int64_t)llrint(fraction * units);
    if (moved < 0 && (bits & ~((Bits)1 << (8 * sizeof bits - 1))) < (Bits)-moved) return exact; /* it would pass 0 */
    bits += (Bits)moved;
    memcpy(&exact, &bits, sizeof bits);
    return exact;
}
float off_by(float exact, double units, uint64_t operands) { return beside<float, uint32_t>(exact, units, operands); }
double off_by(double exact, double units, uint64_t operands) {
    return beside<double, uint64_t>(exact, units, operands);
}

/* ---- tensor cores ---- */

typedef float Floats8 __attribute__((vector_size(32)));
typedef uint16_t Halves8 __attribute__((vector_size(16)));
typedef uint32_t Words8 __attribute__((vector_size(32)));

struct Product {
    float *d;
    const uint32_t *a, *b;
};
static Product &product_of(Warp &warp, int lane) { return *static_cast<Product *>(warp.arguments[lane]); }

/* Eight 16-bit numbers as f32, exactly, by operations that every processor has for vectors. bf16 is the upper half of
 * an f32; f16 has its exponent biased by 112 less, which a product puts right, of subnormals too, but not of inf and
 * NaN. */
template <bool BF16> static void widen(float *to, const uint16_t *from) {
    Halves8 halves;
    memcpy(&halves, from, sizeof halves);
    Words8 words = __builtin_convertvector(halves, Words8), result = words << 16;
    if (!BF16) {
        Words8 magnitude = (words & 0x7FFF) << 13, not_finite = (Words8)(magnitude >= 0x0F800000);
        Floats8 floats;
        memcpy(&floats, &magnitude, sizeof floats);
        floats *= 0x1p112f;
        memcpy(&magnitude, &floats, sizeof magnitude);
        result = magnitude | (not_finite & 0x7F800000) | (words & 0x8000) << 16;
    }
    memcpy(to, &result, sizeof result);
}

/* Adds the products of a row as tensor cores do: "the accumulation order, rounding, and handling of subnormal inputs
 * are unspecified" (PTX ISA, mma). Measurements that others have published (Fasi et al. 2021 and later) agree that
 * some products and the sum are added at once: each is cut off behind some bits more than an f32 has, counted from the
 * largest, and their sum is cut off to an f32. Older cards add fewer and keep fewer bits; TF32 is half as wide. The
 * order of the products is the seed's, the same in all sums. Needs rounding towards zero. */
template <int K> static void add_as_tensor_cores(float *sum, const float *a, const float (*b)[8]) {
    int generation = opened_capability < 80 ? 0 : opened_capability < 90 ? 1 : 2;
    int width = generation ? 8 * generation * K / 16 : 4, step = 2 * (int)(hash(inexact_seed) % (K / 2)) + 1;
    double addends[K + 1][8], cut[8]; /* to add and to subtract 2^52 units leaves a multiple of the unit */
    for (int first = 0; first < K; first += width) {
        for (int n = 0; n < 8; n++) cut[n] = fabs(addends[width][n] = (double)sum[n]);
        for (int i = 0; i < width; i++) {
            int k = ((first + i) * step + (int)(inexact_seed % K)) % K; /* an odd step meets every k once */
            for (int n = 0; n < 8; n++) {
                addends[i][n] = (double)a[k] * (double)b[k][n];
                cut[n] = fabs(addends[i][n]) > cut[n] ? fabs(addends[i][n]) : cut[n];
            }
        }
        for (int n = 0; n < 8; n++) {
            double total = 0, largest = from_bits<double>(to_bits(cut[n]) & 0x7FF0000000000000u);
            cut[n] = largest * (double)(1 << (52 - 23 - generation));
            for (int i = 0; i <= width; i++) total += copysign((fabs(addends[i][n]) + cut[n]) - cut[n], addends[i][n]);
            sum[n] = (float)total;
        }
    }
}

/* d [16, 8] += a [16, K] b [K, 8]; a lane's four numbers of d are columns 2 (l % 4) and the next of row l / 4, and of
 * the row 8 below. */
template <int K> static void add_product(Warp &warp, const float (*a)[K], const float (*b)[8]) {
    alignas(32) float d[16][8];
    Floats8 b_rows[K]; /* as vectors by hand: the compiler's own choice is twice as slow */
    memcpy(b_rows, b, sizeof b_rows);
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 4; i++) d[8 * (i / 2) + lane / 4][2 * (lane % 4) + i % 2] = product_of(warp, lane).d[i];
    int rounding = fegetround();
    if (inexact_seed) fesetround(FE_TOWARDZERO);
    for (int row = 0; row < 16 && inexact_seed; row++) add_as_tensor_cores<K>(d[row], a[row], b);
    fesetround(rounding);
    for (int row = 0; row < 16 && !inexact_seed; row++) {
        Floats8 sum;
        memcpy(&sum, d[row], sizeof sum);
        for (int k = 0; k < K; k++) sum += a[row][k] * b_rows[k];
        memcpy(d[row], &sum, sizeof sum);
    }
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 4; i++) product_of(warp, lane).d[i] = d[8 * (i / 2) + lane / 4][2 * (lane % 4) + i % 2];
    worker->counts.matrix_products++;
}

/* m16n8k16: one register of the 32 lanes, in the order of lanes, is an 8x8 matrix of 16-bit numbers, row by row: lane l
 * holds columns 2 (l % 4) and the next of row l / 4. a is four such (rows +8 for odd registers, columns +8 for the
 * upper two), b two (its rows are the columns n of the product, columns +8 k for the second). */
template <bool BF16> static void multiply(Warp &warp, uint32_t) {
    alignas(32) uint32_t a_bits[4][32], b_bits[2][32];
    alignas(32) float a[16][16], b[16][8], column[8];
    for (int lane = 0; lane < 32; lane++) {
        Product &p = product_of(warp, lane);
        for (int r = 0; r < 4; r++) a_bits[r][lane] = p.a[r];
        for (int r = 0; r < 2; r++) b_bits[r][lane] = p.b[r];
    }
    for (int r = 0; r < 4; r++)
        for (int row = 0; row < 8; row++)
            widen<BF16>(&a[8 * (r % 2) + row][8 * (r / 2)], (const uint16_t *)&a_bits[r][4 * row]);
    for (int r = 0; r < 2; r++)
        for (int n = 0; n < 8; n++) {
            widen<BF16>(column, (const uint16_t *)&b_bits[r][4 * n]);
            for (int k = 0; k < 8; k++) b[8 * r + k][n] = column[k];
        }
    add_product<16>(warp, a, b);
}

/* m16n8k8 of TF32: the same with matrices of 8x4 numbers of 32 bits. */
static void multiply_tf32(Warp &warp, uint32_t) {
    alignas(32) float a[16][8], b[8][8];
    for (int lane = 0; lane < 32; lane++) {
        Product &p = product_of(warp, lane);
        for (int r = 0; r < 4; r++) memcpy(&a[8 * (r % 2) + lane / 4][4 * (r / 2) + lane % 4], &p.a[r], 4);
        for (int r = 0; r < 2; r++) memcpy(&b[4 * r + lane % 4][lane / 4], &p.b[r], 4);
    }
    add_product<8>(warp, a, b);
}

static void require_whole_warp(const char *name, Site site) {
    if (current_fiber()->warp->members != 0xFFFFFFFFu)
        fail("%s at %s:%d in a warp of fewer than 32 threads", name, site.file, site.line);
}

void multiply_matrix(float *d, const uint32_t *a, const uint32_t *b, bool bf16, Site site) {
    Product product = {d, a, b};
    require_whole_warp("mma_16x8x16", site);
    if (bf16 && opened_capability >= 75) require_capability(80, "bf16", site); /* below, gpu.h computes it slowly */
    warp_operation(0xFFFFFFFFu, bf16 ? multiply<true> : multiply<false>, &product, "mma_16x8x16", site);
}

/* Reports numbers with more bits than TF32 has: the result of the tensor cores is then undefined. */
static void require_tf32(uint32_t bits, Site site) {
    if (bits & 0x1FFF && (bits & 0x7FFFFFFF) <= 0x7F800000)
        fail("mma_16x8x8_tf32 at %s:%d: %08x has not been rounded by to_tf32", site.file, site.line, bits);
}

void multiply_matrix_tf32(float *d, const uint32_t *a, const uint32_t *b, Site site) {
    Product product = {d, a, b};
    require_whole_warp("mma_16x8x8_tf32", site);
    require_capability(80, "TF32", site);
    for (int r = 0; r < 4; r++) require_tf32(a[r], site);
    for (int r = 0; r < 2; r++) require_tf32(b[r], site);
    warp_operation(0xFFFFFFFFu, multiply_tf32, &product, "mma_16x8x8_tf32", site);
}

struct MatrixLoad {
    uint32_t *r;
    const char *row;
    int count;
    bool transposed;
};
static MatrixLoad &load_of(Warp &warp, int lane) { return *static_cast<MatrixLoad *>(warp.arguments[lane]); }

/* ldmatrix: lane 8 i + j points to row j of the 8x8 matrix i; lane l receives, of each, the numbers 2 (l % 4) and the
 * next of row l / 4, or with `transposed` of column l / 4. */
static void load_matrices(Warp &warp, uint32_t) {
    const MatrixLoad first = load_of(warp, 0);
    for (int i = 0; i < first.count; i++) {
        uint16_t matrix[8][8];
        uint32_t banks = 0;
        for (int j = 0; j < 8; j++) {
            const char *row = load_of(warp, 8 * i + j).row;
            uint32_t bank = 1u << ((uintptr_t)row / 16 % 8);
            memcpy(matrix[j], row, sizeof matrix[j]);
            if (banks & bank) worker->counts.bank_conflicts++;
            banks |= bank;
        }
        for (int lane = 0; lane < 32; lane++) {
            int row = lane / 4, column = 2 * (lane % 4);
            uint32_t low = first.transposed ? matrix[column][row] : matrix[row][column];
            uint32_t high = first.transposed ? matrix[column + 1][row] : matrix[row][column + 1];
            load_of(warp, lane).r[i] = low | high << 16;
        }
    }
    worker->counts.matrix_loads++;
}

void load_matrix(uint32_t *r, const void *row, int count, bool transposed, Site site) {
    MatrixLoad load = {r, static_cast<const char *>(row), count, transposed};
    require_whole_warp("load_matrix", site);
    if ((int)current_thread->lane < 8 * count) {
        require_aligned(row, 16, site);
        if (!in_shared_memory(*worker, row, 16))
            fail("load_matrix at %s:%d: row %p is not in shared memory", site.file, site.line, row);
        check::read(row, 16, __builtin_return_address(0));
    }
    warp_operation(0xFFFFFFFFu, load_matrices, &load, "load_matrix", site);
}

/* ---- asynchronous copies ---- */

static void land(Copy &copy) {
    if (copy.landed) return;
    memcpy(copy.to, copy.from, (size_t)copy.source_bytes);
    memset(copy.to + copy.source_bytes, 0, (size_t)(copy.bytes - copy.source_bytes));
    copy.landed = true;
}

void copy_async(void *shared, const void *global, int bytes, int source_bytes, Site site) {
    Worker &w = *worker;
    Fiber &self = *current_fiber();
    const void *pc = __builtin_return_address(0);
    require_aligned(shared, (size_t)bytes, site);
    if (source_bytes) require_aligned(global, (size_t)bytes, site);
    if (source_bytes < 0 || source_bytes > bytes)
        fail("copy_async at %s:%d of %d bytes out of %d", site.file, site.line, source_bytes, bytes);
    if (!in_shared_memory(w, shared, (size_t)bytes))
        fail("copy_async at %s:%d: the destination is not in shared memory", site.file, site.line);
    check::write(shared, (size_t)bytes, pc);
    check::copy_pending(shared, (size_t)bytes, true);
    if (source_bytes) check::read(global, (size_t)source_bytes, pc);
    Copy copy = {static_cast<char *>(shared), static_cast<const char *>(global), bytes, source_bytes, false};
    if (w.copies_land == Worker::AT_ISSUE || (w.copies_land == Worker::EITHER && random_next(w.random_state) & 1))
        land(copy);
    else
        memset(shared, 0xFF, (size_t)bytes); /* NaN for those who do not wait */
    self.copies.push_back(copy);
}

void copy_async_commit() { current_fiber()->groups.push_back(current_fiber()->copies.size()); }

void copy_async_wait(int pending) {
    Fiber &self = *current_fiber();
    int done = (int)self.groups.size() - pending;
    if (done <= 0) return;
    size_t end = self.groups[(size_t)done - 1];
    for (size_t i = 0; i < end; i++) {
        Copy &copy = self.copies[i];
        check::copy_pending(copy.to, (size_t)copy.bytes, false);
        check::write(copy.to, (size_t)copy.bytes, __builtin_return_address(0));
        land(copy);
    }
    self.copies.erase(self.copies.begin(), self.copies.begin() + (ptrdiff_t)end);
    self.groups.erase(self.groups.begin(), self.groups.begin() + done);
    for (size_t &group : self.groups) group -= end;
}

void require_capability(int least, const char *what, Site site) {
    if (opened_capability < least)
        fail("%s:%d: a card of capability %d has no %s", site.file, site.line, opened_capability, what);
}

void misaligned(const void *p, size_t alignment, Site site) {
    fail("%s:%d: address %p is not a multiple of %zu", site.file, site.line, p, alignment);
}

} // namespace emulate
