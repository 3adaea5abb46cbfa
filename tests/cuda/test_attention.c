/* Compares attention on the cuda device with the cpu device on the same inputs. Types, head sizes, lengths and dropout
 * are chosen so that every kernel is run. */
#include "tests/cuda/rig.h"
#include "tests/test.h"

enum { MOST = 40 };

static const uint32_t step_number = 5;

typedef struct {
    Pair qkv, out, lse, dout, dqkv, offsets;
    Sequences cpu, cuda;
    Attention attention;
    Dropout drop;
} Case;

static Case case_open(Rig *rig, DType type, const int *lengths, int count, int heads, int size, bool causal, float p) {
    int32_t offsets[MOST + 1] = {0};
    assert_true(count <= MOST);
    for (int s = 0; s < count; s++) offsets[s + 1] = offsets[s] + lengths[s];
    int64_t n = offsets[count], c = heads * size;
    Case x = {.qkv = pair_normal(rig, type, n, 3 * c, 1),
              .out = pair_poisoned(rig, type, n, c),
              .lse = pair_poisoned(rig, DTYPE_F32, heads, n),
              .dout = pair_normal(rig, type, n, c, 1),
              .dqkv = pair_poisoned(rig, type, n, 3 * c),
              .offsets = pair_integers(rig, offsets, count + 1),
              .attention = {heads, causal, 1 / sqrtf((float)size)},
              .drop = {p, 11, PURPOSE_DROPOUT | 3 << 8, &step_number}};
    x.cpu = (Sequences){x.offsets.cpu, x.offsets.cpu.data, count};
    x.cuda = (Sequences){x.offsets.cuda, x.offsets.cpu.data, count};
    return x;
}

static void run_forward(Rig *rig, Case *x) {
    attention_forward(rig->cuda, x->out.cuda, x->lse.cuda, x->qkv.cuda, x->cuda, x->attention, on_cuda(rig, x->drop));
}

static void run_backward(Rig *rig, Case *x, Pair dqkv) {
    attention_backward(rig->cuda, dqkv.cuda, x->dout.cuda,
                       (AttentionActivations){.qkv = x->qkv.cuda, .out = x->out.cuda, .lse = x->lse.cuda}, x->cuda,
                       x->attention, on_cuda(rig, x->drop));
}

/* Runs both passes on both devices. The cuda device runs each pass twice, and must give the same bits under another
 * schedule. Both backward passes start from the cpu's out and lse.
 *
 * Tolerances of the 16-bit types, in units of u = rounding_of(type), the relative rounding error:
 * - out: 6 u. Each P is rounded (u); these errors are independent, so they add at most u of the terms' size. The result
 *   is rounded (u). Together 2 u of a typical result; 6 u allows for outliers of 4 sigma.
 * - dV: as out.
 * - dQ, dK: 20 u. dS has the errors of P, of D (a sum of products with the rounded out) and of its own rounding:
 *   3 u of P (|dP| + |D|). A row of dS sums to 0, so a typical dQ has only half of its terms' size, which doubles the
 *   relative error. The rest allows for the extremes of a few thousand elements.
 *
 * Tolerances of f32: 64 * 2^-24 forward, 128 * 2^-24 backward. A sum over head size or length loses about sqrt(terms) /
 * 2 roundings; exponentials have arguments up to about 6. dS = P (dP - D) is a difference of two sums of `size`
 * products: where P is nearly 1 it almost vanishes, and dQ with it, but the rounding errors of dP and D stay. So the
 * errors of dqkv in f32 are measured by the typical size of the row or of the whole tensor, whichever is larger. */
static void compare(Rig *rig, DType type, const int *lengths, int count, int heads, int size, bool causal, float p) {
    Case x = case_open(rig, type, lengths, count, heads, size, causal, p);
    bool half = type != DTYPE_F32;
    double forward = half ? 6 * rounding_of(type) : 0x1p-18, backward = half ? 20 * rounding_of(type) : 0x1p-17;
    Case y = x;
    y.out = pair_poisoned(rig, type, x.out.cpu.dims[0], x.out.cpu.dims[1]);
    y.lse = pair_poisoned(rig, DTYPE_F32, x.lse.cpu.dims[0], x.lse.cpu.dims[1]);
    y.dqkv = pair_poisoned(rig, type, x.dqkv.cpu.dims[0], x.dqkv.cpu.dims[1]);
    run_forward(rig, &x);
    change_schedule(rig);
    run_forward(rig, &y);
    expect_same_bits(rig, "attention out", x.out, y.out);
    expect_same_bits(rig, "attention lse", x.lse, y.lse);
    attention_forward(rig->cpu, x.out.cpu, x.lse.cpu, x.qkv.cpu, x.cpu, x.attention, x.drop);
    expect_pair(rig, "attention out", x.out, forward);
    expect_pair(rig, "attention lse", x.lse, 0x1p-18);
    pair_upload(rig, x.out);
    pair_upload(rig, x.lse);
    run_backward(rig, &x, x.dqkv);
    change_schedule(rig);
    run_backward(rig, &x, y.dqkv);
    expect_same_bits(rig, "attention dqkv", x.dqkv, y.dqkv);
    attention_backward(rig->cpu, x.dqkv.cpu, x.dout.cpu,
                       (AttentionActivations){.qkv = x.qkv.cpu, .out = x.out.cpu, .lse = x.lse.cpu}, x.cpu, x.attention,
                       x.drop);
    double least = half ? 0 : root_mean_square(x.dqkv.cpu.data, tensor_numel(x.dqkv.cpu));
    expect_pair_least(rig, "attention dqkv", x.dqkv, backward, least);
}

/* Returns whether the card computes in the type; then close the rig. */
static bool opens_in(DType type, Rig *rig) {
    *rig = rig_open(type);
    if (rig_has(rig, type)) return true;
    rig_close(rig);
    return false;
}

/* Returns the 16-bit type of the card. */
static DType half_here(void) {
    Rig rig = rig_open(DTYPE_F32);
    DType half = rig_half(&rig);
    rig_close(&rig);
    return half;
}

static void check(DType type, const int *lengths, int count, int heads, int size, bool causal, float p) {
    Rig rig;
    if (!opens_in(type, &rig)) return;
    compare(&rig, type, lengths, count, heads, size, causal, p);
    rig_close(&rig);
}

static void all_kinds(const int *lengths, int count, int heads, int size) {
    for (int t = 0; t < TYPES; t++)
        for (int kind = 0; kind < 4; kind++)
            check(types[t], lengths, count, heads, size, kind & 1, kind & 2 ? 0.3f : 0);
}

/* Sequences of unequal length: empty ones at the start, in the middle and at the end, one of a single row, and some of
 * several tiles of each kernel. */
TEST(heads_of_16) { all_kinds((int[]){0, 3, 0, 130, 1, 64, 0}, 7, 2, 16); }

TEST(heads_of_32) { all_kinds((int[]){65, 1, 0, 200}, 4, 2, 32); }

TEST(heads_of_64) {
    all_kinds((int[]){1, 300, 0, 129}, 4, 2, 64);
    all_kinds((int[]){70, 0, 33, 1}, 4, 2, 64); /* short sequences: the kernels with one warp and with four warps */
}

TEST(heads_of_128) {
    all_kinds((int[]){0, 261, 17}, 3, 1, 128);
    all_kinds((int[]){5, 90, 1, 0}, 4, 1, 128);
}

/* Heads are padded to the next size. Tensor cores are used where a row is a multiple of 16 bytes. */
TEST(heads_of_other_sizes) {
    static const int sizes[] = {1, 7, 8, 20, 33, 40, 80, 127};
    for (int i = 0; i < 8; i++)
        for (int t = 0; t < TYPES; t++) check(types[t], (int[]){3, 0, 66, 1}, 4, 2, sizes[i], i % 2, i % 3 ? 0.3f : 0);
}

/* More sequences than the 32 lanes of a warp can search at once. One sequence, of 17 rows, is too long for a tile of
 * scores. */
TEST(many_short_sequences) {
    int lengths[MOST];
    for (int s = 0; s < MOST; s++) lengths[s] = s == 30 ? 17 : s * 7 % 13;
    for (int t = 0; t < TYPES; t++) check(types[t], lengths, MOST, 2, 64, t != 1, 0.3f);
}

/* Every length from 0 to 16, which one warp computes alone, with 1 to 8 heads: sequences x heads is not a multiple of
 * the warps of a block. */
TEST(every_short_length) {
    static const int sizes[] = {16, 32, 64, 128};
    int lengths[18];
    for (int s = 0; s < 18; s++) lengths[s] = s * 5 % 17; /* 0 .. 16, and 0 again */
    for (int i = 0; i < 4; i++)
        for (int t = 0; t < TYPES; t++)
            for (int kind = 0; kind < 4; kind++)
                check(types[t], lengths, 18, 1 + (i + 2 * kind) % 8, sizes[i], kind & 1, kind & 2 ? 0.3f : 0);
}

/* Columns are padded. Rows that are no multiple of 16 bytes, and types without tensor cores, take other kernels. */
TEST(short_sequences_with_heads_of_other_sizes) {
    static const int sizes[] = {1, 4, 8, 20, 24, 40, 72, 127};
    for (int i = 0; i < 8; i++)
        for (int t = 0; t < TYPES; t++) check(types[t], (int[]){13, 5, 0, 16}, 4, 3, sizes[i], i % 2, i % 3 ? 0.3f : 0);
}

/* Expects that the first rows of `many` equal `few`, both on the cuda device. */
static void expect_first_rows(Rig *rig, const char *what, Pair few, Pair many, double tolerance) {
    int64_t rows = few.cuda.dims[0], columns = few.cuda.dims[1];
    float *want = pair_download(rig, few);
    Pair p = {tensor_2d(want, DTYPE_F32, rows, columns), tensor_2d(many.cuda.data, many.cuda.dtype, rows, columns)};
    expect_pair(rig, what, p, tolerance);
    free(want);
}

/* One sequence that is too long for the kernels for short sequences makes all sequences of the batch take the general
 * kernels. The results must agree. There is one head, because only then dropout of a row does not depend on the rows
 * after it. The tolerances are twice those of `compare`, because both sides are rounded. */
TEST(a_longer_neighbour_changes_nothing) {
    for (int i = 0; i < TYPES; i++)
        for (int causal = 0; causal < 2; causal++) {
            DType type = types[i];
            bool half = type != DTYPE_F32;
            Rig rig;
            if (!opens_in(type, &rig)) continue;
            Case x = case_open(&rig, type, (int[]){16, 5, 13}, 3, 1, 64, causal, 0.3f);
            Case y = case_open(&rig, type, (int[]){16, 5, 13, 17}, 4, 1, 64, causal, 0.3f);
            memcpy(y.qkv.cpu.data, x.qkv.cpu.data, tensor_bytes(x.qkv.cpu));
            memcpy(y.dout.cpu.data, x.dout.cpu.data, tensor_bytes(x.dout.cpu));
            pair_upload(&rig, y.qkv);
            pair_upload(&rig, y.dout);
            run_forward(&rig, &x);
            run_forward(&rig, &y);
            run_backward(&rig, &x, x.dqkv);
            run_backward(&rig, &y, y.dqkv);
            expect_first_rows(&rig, "attention out", x.out, y.out, half ? 12 * rounding_of(type) : 0x1p-17);
            expect_first_rows(&rig, "attention dqkv", x.dqkv, y.dqkv, half ? 40 * rounding_of(type) : 0x1p-16);
            rig_close(&rig);
        }
}

/* Element indices beyond 2^34, which reach the high word of the random generator's counter. */
TEST(many_heads) {
    check(half_here(), (int[]){260}, 1, 64, 16, true, 0.3f);
    check(DTYPE_F32, (int[]){260}, 1, 64, 1, true, 0.3f);
}

/* Scores are in the hundreds, of both signs. Exponentials would be infinite if the maximum were not subtracted first;
 * keys past the end, whose score is 0, would exceed all negative scores. */
static void check_large_scores(const int lengths[2]) {
    for (int t = 0; t < TYPES; t++)
        for (int sign = -1; sign < 2; sign += 2) {
            Rig rig;
            if (!opens_in(types[t], &rig)) continue;
            int n = lengths[0] + lengths[1];
            Case x = case_open(&rig, types[t], lengths, 2, 1, 64, false, 0);
            float *qkv = x.qkv.cpu.data;
            for (int64_t row = 0; row < n; row++) {
                for (int i = 0; i < 64; i++) qkv[row * 192 + i] = 8 + 0.01f * qkv[row * 192 + i];
                for (int i = 64; i < 128; i++) qkv[row * 192 + i] = (float)sign * (8 + 0.02f * qkv[row * 192 + i]);
            }
            pair_upload(&rig, x.qkv);
            run_forward(&rig, &x);
            run_backward(&rig, &x, x.dqkv);
            float *got = pair_download(&rig, x.dqkv), *out = pair_download(&rig, x.out);
            for (int64_t i = 0; i < n * 192; i++)
                if (!isfinite(got[i]) || !isfinite(out[i / 3]))
                    fail_msg("%s: not finite at %d", dtype_name(types[t]), (int)i);
            free(got);
            free(out);
            rig_close(&rig);
        }
}

TEST(large_scores_stay_finite) {
    check_large_scores((int[]){70, 9});
    check_large_scores((int[]){13, 9});
}

/* The card's size decides in how many parts dQ is summed: by one block, by several, or one part per tile of keys. */
TEST(dq_is_the_same_sum_in_any_number_of_parts) {
    static const int multiprocessors[] = {1, 3, 1000}, sizes[] = {16, 64, 128};
    DType half = half_here();
    for (int i = 0; i < 9; i++) {
        Rig rig = rig_open(half);
        cuda_state(rig.cuda)->n_multiprocessors = multiprocessors[i % 3];
        compare(&rig, half, (int[]){260, 30, 135}, 3, 1, sizes[i / 3], i % 2, 0);
        rig_close(&rig);
    }
}

/* Does what a replayed graph does: launches with one batch's offsets on the host while the device's offsets already
 * have other lengths. The kernels must follow the device's. */
static void check_stale_lengths(DType type, const int lengths[3], const int32_t stale[4]) {
    Rig rig;
    if (!opens_in(type, &rig)) return;
    Case x = case_open(&rig, type, lengths, 3, 1, 64, true, 0), y = x;
    y.out = pair_poisoned(&rig, type, stale[3], 64);
    y.dqkv = pair_poisoned(&rig, type, stale[3], 192);
    y.cuda.host_offsets = stale;
    run_forward(&rig, &x);
    run_backward(&rig, &x, x.dqkv);
    run_forward(&rig, &y);
    run_backward(&rig, &y, y.dqkv);
    expect_same_bits(&rig, "attention out", x.out, y.out);
    expect_same_bits(&rig, "attention dqkv", x.dqkv, y.dqkv);
    rig_close(&rig);
}

TEST(the_lengths_may_change_under_a_launch) {
    for (int t = 0; t < TYPES; t++) {
        check_stale_lengths(types[t], (int[]){201, 97, 2}, (int32_t[]){0, 100, 200, 300});
        check_stale_lengths(types[t], (int[]){13, 1, 16}, (int32_t[]){0, 10, 20, 30});
    }
}

/* Records a graph while the device's scratch memory is small, then lets the scratch grow. The recorded graph must still
 * use the scratch that it was recorded with. */
TEST(a_recorded_backward_keeps_its_memory) {
    Rig rig = rig_open(DTYPE_F32);
    DType half = rig.cuda->half;
    Case x = case_open(&rig, half, (int[]){97, 33}, 2, 1, 64, true, 0);
    Pair again = pair_poisoned(&rig, half, 130, 192);
    cudaStream_t stream = cuda_stream(rig.cuda);
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    run_forward(&rig, &x);
    cuda_check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capturing");
    run_backward(&rig, &x, x.dqkv);
    cuda_check(cudaStreamEndCapture(stream, &graph), "capturing");
    cuda_check(cudaGraphInstantiateWithFlags(&executable, graph, 0), "capturing");
    void *larger = cuda_scratch(rig.cuda, (size_t)1 << 22);
    rig.cuda->clear(rig.cuda, larger, (size_t)1 << 22);
    run_backward(&rig, &x, again);
    cuda_check(cudaGraphLaunch(executable, stream), "a recorded backward");
    expect_same_bits(&rig, "attention dqkv", x.dqkv, again);
    cuda_check(cudaGraphExecDestroy(executable), "capturing");
    cuda_check(cudaGraphDestroy(graph), "capturing");
    rig_close(&rig);
}

TEST(no_rows_at_all) {
    Rig rig = rig_open(types[1]);
    Case x = case_open(&rig, types[1], (int[]){0, 0}, 2, 2, 64, true, 0);
    run_forward(&rig, &x);
    run_backward(&rig, &x, x.dqkv);
    rig_close(&rig);
}
