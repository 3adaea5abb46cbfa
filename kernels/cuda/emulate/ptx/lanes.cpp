/* Instructions of a whole warp: shuffles, votes (PTX ISA 9.7.9.6, 9.7.13.9), matrices (9.7.14).
 *
 * A warp runs in lock step, so whoever is named in the mask must be here. On a card lanes of one instruction may arrive
 * one after another; matrices and barriers ask for all at once, and the compiler keeps the others together too. */
#include <immintrin.h>

#include "kernels/cuda/emulate/ptx/handlers.h"

namespace emulate {
namespace ptx {

void require_together(State &s, uint32_t lanes, uint32_t mask) {
    uint32_t wanted = mask & s.members;
    if (wanted & s.exited)
        fail_in(s, -1, "the mask %08x names lanes that have returned (%08x)", mask, wanted & s.exited);
    if (wanted != lanes) fail_in(s, -1, "reached by lanes %08x of the warp, the mask is %08x", lanes, mask);
    s.scene->worker->counts.warp_operations++;
}

void require_whole(State &s, uint32_t lanes) {
    if (lanes != ALL) fail_in(s, -1, "reached by lanes %08x instead of the whole warp", lanes);
    s.scene->worker->counts.warp_operations++;
}

static uint32_t mask_of(State &s, const Instruction &i, uint32_t lanes, int operand) {
    const U32 *masks = s.lanes<U32>(i, operand);
    uint32_t mask = masks[__builtin_ctz(lanes)];
    for (uint32_t left = lanes; left; left &= left - 1)
        if (masks[__builtin_ctz(left)] != mask)
            fail_in(s, __builtin_ctz(left), "has another mask (%08x) than others (%08x)", masks[__builtin_ctz(left)],
                    mask);
    return mask;
}

/* ---- shuffles: shfl.sync.MODE.b32 d|p, a, b, c, mask ---- */

enum Shuffle { UP, DOWN, BUTTERFLY, INDEX };

template <Shuffle MODE> static void run_shuffle(State &s, const Instruction &i, uint32_t lanes) {
    U32 values[32];
    const U32 *a = s.lanes<U32>(i, 2), *b = s.lanes<U32>(i, 3), *c = s.lanes<U32>(i, 4);
    uint32_t valid = 0;
    require_together(s, lanes, mask_of(s, i, lanes, 5));
    for (uint32_t left = lanes; left; left &= left - 1) {
        int lane = __builtin_ctz(left), by = (int)(b[lane] & 31), clamp = (int)(c[lane] & 31),
            segment = (int)(c[lane] >> 8 & 31);
        int last = (lane & segment) | (clamp & ~segment), begin = lane & segment;
        int from = MODE == UP          ? lane - by
                   : MODE == DOWN      ? lane + by
                   : MODE == BUTTERFLY ? lane ^ by
                                       : begin | (by & ~segment);
        bool is_valid = MODE == UP ? from >= last : from <= last;
        if (!is_valid) from = lane;
        if (!(lanes >> from & 1)) fail_in(s, lane, "takes a number from lane %d, which does not take part", from);
        valid |= (uint32_t)is_valid << lane;
        values[lane] = a[from];
    }
    each(s.lanes<U32>(i, 0), lanes, [&](int l) { return values[l]; });
    s.set_mask(i, 1, lanes, valid);
}

/* ---- votes ---- */

template <class F> static void vote(State &s, const Instruction &i, uint32_t lanes, F result) {
    require_together(s, lanes, mask_of(s, i, lanes, 2));
    s.set_mask(i, 0, lanes, result(s.truth(i, 1) & lanes) ? ALL : 0);
}

static void run_ballot(State &s, const Instruction &i, uint32_t lanes) {
    require_together(s, lanes, mask_of(s, i, lanes, 2));
    uint32_t votes = s.truth(i, 1) & lanes;
    each(s.lanes<U32>(i, 0), lanes, [=](int) { return votes; });
}

/* match.any.sync.b32 d, a, mask */
static void run_match(State &s, const Instruction &i, uint32_t lanes) {
    U32 equal[32] = {0};
    const U32 *a = s.lanes<U32>(i, 1);
    require_together(s, lanes, mask_of(s, i, lanes, 2));
    for (int l = 0; l < 32; l++)
        for (int other = 0; other < 32; other++)
            if ((lanes >> l & lanes >> other & 1) && a[l] == a[other]) equal[l] |= 1u << other;
    each(s.lanes<U32>(i, 0), lanes, [&](int l) { return equal[l]; });
}

/* redux.sync.OP.TYPE d, a, mask */
#define REDUCE(T, expression)                                                                                          \
    [](State &s, const Instruction &i, uint32_t lanes) {                                                               \
        require_together(s, lanes, mask_of(s, i, lanes, 2));                                                           \
        const T *a = s.lanes<T>(i, 1);                                                                                 \
        T x = a[__builtin_ctz(lanes)];                                                                                 \
        for (uint32_t left = lanes & (lanes - 1); left; left &= left - 1) {                                            \
            T y = a[__builtin_ctz(left)];                                                                              \
            x = (T)(expression);                                                                                       \
        }                                                                                                              \
        each(s.lanes<T>(i, 0), lanes, [=](int) { return x; });                                                         \
    }

static void run_warp_barrier(State &s, const Instruction &i, uint32_t lanes) {
    require_together(s, lanes, mask_of(s, i, lanes, 0));
    s.barrier_time = ++s.scene->time;
}

/* ---- matrices ---- */

/* Row j of matrix m begins where lane 8 m + j points to; lane l gets from each matrix the numbers 2 (l % 4) and the
 * next of row l / 4, with TRANSPOSED of column l / 4. */
template <int MATRICES, bool TRANSPOSED> static void run_load_matrices(State &s, const Instruction &i, uint32_t lanes) {
    uint64_t addresses[32];
    require_whole(s, lanes);
    for (int lane = 0; lane < 32; lane++) addresses[lane] = address_in(s, i, lane); /* may lie in a written register */
    for (int m = 0; m < MATRICES; m++) {
        U16 numbers[8][8];
        uint32_t banks = 0;
        for (int row = 0; row < 8; row++) {
            int lane = 8 * m + row;
            uint64_t address = addresses[lane];
            if (address % 16) fail_in(s, lane, "a row at 0x%llx, not a multiple of 16", (unsigned long long)address);
            memcpy(numbers[row], shared_to_read(s, lane, address, 16), 16);
            uint32_t bank = 1u << (address / 16 % 8);
            s.scene->worker->counts.bank_conflicts += (banks & bank) != 0;
            banks |= bank;
        }
        U32 *to = s.lanes<U32>(i, m);
        for (int l = 0; l < 32; l++) {
            int row = l / 4, column = l % 4 * 2;
            to[l] = TRANSPOSED ? numbers[column][row] | (U32)numbers[column + 1][row] << 16
                               : numbers[row][column] | (U32)numbers[row][column + 1] << 16;
        }
    }
    s.scene->worker->counts.matrix_loads++;
    if (s.scene->counts) count_access(s, i, MATRICES == 4 ? ALL : (1u << 8 * MATRICES) - 1, SHARED, addresses, 16);
}

static void run_move_matrix(State &s, const Instruction &i, uint32_t lanes) {
    U16 from[8][8], to[8][8];
    require_whole(s, lanes);
    memcpy(from, s.lanes<U32>(i, 1),
           sizeof from); /* a lane's register is two neighbours of a row, four lanes are a row */
    for (int row = 0; row < 8; row++)
        for (int column = 0; column < 8; column++) to[row][column] = from[column][row];
    memcpy(s.lanes<U32>(i, 0), to, sizeof to);
}

static float from_bits(U32 bits) { return __builtin_bit_cast(float, bits); }

/* A number of 16 bits in the lower or upper half of a register. */
struct Bf16 {
    static float of(U32 bits, int half) { return from_bits(half ? bits & 0xFFFF0000 : bits << 16); }
};
struct F16 {
    static float of(U32 bits, int half) { return (float)__builtin_bit_cast(_Float16, (U16)(half ? bits >> 16 : bits)); }
};

/* d [16, 8] = a [16, K] b [K, 8] + c, each number of d rounded once from an exact sum: the card adds with at least the
 * precision of f32, in an order of its own. The lanes' pieces, PTX ISA 9.7.14.5.8: with g = lane / 4 and t = lane % 4,
 *   c, d   register r: row g + 8 (r / 2), column 2 t + r % 2
 *   a      16 bits, register r, half h: row g + 8 (r % 2), column 2 t + h + 8 (r / 2)
 *          32 bits, register r:         row g + 8 (r % 2), column t + 4 (r / 2)
 *   b      16 bits, register r, half h: row 2 t + h + 8 r, column g
 *          32 bits, register r:         row t + 4 r, column g */
template <int K> static void multiply(State &s, const Instruction &i, const double (*a)[K], const double (*b)[8]) {
    const int c_at = i.n_operands - 4;
    double sums[16][8];
    for (int l = 0; l < 32; l++)
        for (int r = 0; r < 4; r++)
            sums[l / 4 + 8 * (r / 2)][2 * (l % 4) + r % 2] = (double)s.lanes<float>(i, c_at + r)[l];
    for (int row = 0; row < 16; row++)
        for (int k = 0; k < K; k++)
            for (int column = 0; column < 8; column++) sums[row][column] += a[row][k] * b[k][column];
    for (int r = 0; r < 4; r++) {
        float *to = s.lanes<float>(i, r);
        for (int l = 0; l < 32; l++) to[l] = (float)sums[l / 4 + 8 * (r / 2)][2 * (l % 4) + r % 2];
    }
    s.scene->worker->counts.matrix_products++;
}

template <class Half, int K> static void run_multiply(State &s, const Instruction &i, uint32_t lanes) {
    double a[16][K], b[K][8];
    require_whole(s, lanes);
    for (int r = 0; r < K / 4; r++)
        for (int l = 0; l < 32; l++)
            for (int half = 0; half < 2; half++)
                a[l / 4 + 8 * (r % 2)][2 * (l % 4) + half + 8 * (r / 2)] =
                    (double)Half::of(s.lanes<U32>(i, 4 + r)[l], half);
    for (int r = 0; r < K / 8; r++)
        for (int l = 0; l < 32; l++)
            for (int half = 0; half < 2; half++)
                b[2 * (l % 4) + half + 8 * r][l / 4] = (double)Half::of(s.lanes<U32>(i, 4 + K / 4 + r)[l], half);
    multiply<K>(s, i, a, b);
}

static double tf32_of(State &s, int lane, U32 bits) {
    if (bits & 0x1FFF && (bits & 0x7FFFFFFF) <= 0x7F800000)
        fail_in(s, lane, "%08x has not been rounded to TF32: what the card makes of it is undefined", bits);
    return (double)from_bits(bits);
}

static void run_multiply_tf32(State &s, const Instruction &i, uint32_t lanes) {
    double a[16][8], b[8][8];
    require_whole(s, lanes);
    for (int l = 0; l < 32; l++) {
        for (int r = 0; r < 4; r++)
            a[l / 4 + 8 * (r % 2)][l % 4 + 4 * (r / 2)] = tf32_of(s, l, s.lanes<U32>(i, 4 + r)[l]);
        for (int r = 0; r < 2; r++) b[l % 4 + 4 * r][l / 4] = tf32_of(s, l, s.lanes<U32>(i, 8 + r)[l]);
    }
    multiply<8>(s, i, a, b);
}

#define SHUFFLE_FORMS(name, MODE)                                                                                      \
    { "shfl.sync." name ".b32", "wp wwww", run_shuffle<MODE>, SHUFFLE }

const Form lane_forms[] = {
    SHUFFLE_FORMS("up", UP),
    SHUFFLE_FORMS("down", DOWN),
    SHUFFLE_FORMS("bfly", BUTTERFLY),
    SHUFFLE_FORMS("idx", INDEX),
    {"vote.sync.ballot.b32", "w pw", run_ballot, SHUFFLE},
    {"vote.sync.any.pred", "p pw",
     [](State &s, const Instruction &i, uint32_t lanes) {
         vote(s, i, lanes, [](uint32_t votes) { return votes != 0; });
     },
     SHUFFLE},
    {"vote.sync.all.pred", "p pw",
     [](State &s, const Instruction &i, uint32_t lanes) {
         vote(s, i, lanes, [=](uint32_t votes) { return votes == lanes; });
     },
     SHUFFLE},
    {"match.any.sync.b32", "w ww", run_match, SHUFFLE},
    {"redux.sync.add.u32", "w ww", REDUCE(U32, x + y), SHUFFLE},
    {"redux.sync.add.s32", "w ww", REDUCE(U32, x + y), SHUFFLE},
    {"redux.sync.min.u32", "w ww", REDUCE(U32, x < y ? x : y), SHUFFLE},
    {"redux.sync.min.s32", "w ww", REDUCE(S32, x < y ? x : y), SHUFFLE},
    {"redux.sync.max.u32", "w ww", REDUCE(U32, x > y ? x : y), SHUFFLE},
    {"redux.sync.max.s32", "w ww", REDUCE(S32, x > y ? x : y), SHUFFLE},
    {"redux.sync.and.b32", "w ww", REDUCE(U32, x &y), SHUFFLE},
    {"redux.sync.or.b32", "w ww", REDUCE(U32, x | y), SHUFFLE},
    {"redux.sync.xor.b32", "w ww", REDUCE(U32, x ^ y), SHUFFLE},
    {"bar.warp.sync", " w", run_warp_barrier, SHUFFLE},
    {"ldmatrix.sync.aligned.m8n8.x4.shared.b16", "wwww", run_load_matrices<4, false>, MATRIX_LOAD},
    {"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16", "wwww", run_load_matrices<4, true>, MATRIX_LOAD},
    {"movmatrix.sync.aligned.m8n8.trans.b16", "w w", run_move_matrix, SHUFFLE},
    {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", "wwww wwwwwwwwww", run_multiply<Bf16, 16>, MATRIX_PRODUCT},
    {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "wwww wwwwwwwwww", run_multiply<F16, 16>, MATRIX_PRODUCT},
    {"mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", "wwww wwwwwww", run_multiply<F16, 8>, MATRIX_PRODUCT},
    {"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", "wwww wwwwwwwwww", run_multiply_tf32, MATRIX_PRODUCT},
    {},
};

} // namespace ptx
} // namespace emulate
