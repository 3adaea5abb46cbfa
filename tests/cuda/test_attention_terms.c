/* Attention with terms on the cuda device, against the cpu device on the same inputs, in every type and every size of
 * heads, with each of the terms and without. */
#include "tests/cuda/schedules.h"

enum { MOST = 40, DISTANCES = 1, KEYS = 2, HIDDEN = 4, ALL = 7 };

typedef struct {
    Pair out, qkv, offsets, distances, key_terms, hidden;
    Sequences cpu, cuda;
    int left, right;
    Attention attention;
} Case;

/* `given` says which terms there are. Sequence s hides hidden[s] rows. */
static Case case_of(DType type, const int *lengths, const int32_t *hidden, int count, int heads, int size, int left,
                    int right, int given) {
    int32_t offsets[MOST + 1] = {0};
    assert_true(count <= MOST);
    for (int s = 0; s < count; s++) offsets[s + 1] = offsets[s] + lengths[s];
    int64_t n = offsets[count], c = (int64_t)heads * size;
    Case x = {.out = poisoned(type, n, c),
              .qkv = normal(type, n, 3 * c),
              .offsets = pair_integers(&rig, offsets, count + 1),
              .left = left,
              .right = right,
              .attention = {heads, false, 1 / sqrtf((float)size)}};
    if (given & DISTANCES) x.distances = normal(type, left + 1 + right, size);
    if (given & KEYS) x.key_terms = pair_normal(&rig, DTYPE_F32, n, heads, sqrtf((float)size));
    if (given & HIDDEN) x.hidden = pair_integers(&rig, hidden, count);
    x.cpu = (Sequences){x.offsets.cpu, x.offsets.cpu.data, count};
    x.cuda = (Sequences){x.offsets.cuda, x.offsets.cpu.data, count};
    return x;
}

static void run_on_cuda(const Case *x) {
    AttentionTerms terms = {x->distances.cuda, x->left, x->right, x->key_terms.cuda, x->hidden.cuda};
    attention_terms_forward(rig.cuda, x->out.cuda, x->qkv.cuda, x->cuda, x->attention, terms);
}

/* A score has the error of a sum of two products of `size` terms and a third number, which the exponential makes
 * relative; the kernels' exponential adds two units of the last place, and the product with log2(e) one of scores up to
 * about 12. In 16 bits each P is rounded, and the result: test_attention.c derives 6 roundings. */
static void compare(const Case *x) {
    DType type = x->out.cuda.dtype;
    int64_t size = x->out.cpu.dims[1] / x->attention.n_heads, rows = x->out.cpu.dims[0];
    AttentionTerms terms = {x->distances.cpu, x->left, x->right, x->key_terms.cpu, x->hidden.cpu};
    attention_terms_forward(rig.cpu, x->out.cpu, x->qkv.cpu, x->cpu, x->attention, terms);
    run_on_cuda(x);
    check_output("attention_terms_forward", x->out,
                 sum_error(2 * size + 1, 64) + sum_error(rows, 0) + (type == DTYPE_F32 ? 0 : 6 * rounding_of(type)));
}

/* Sequences of unequal length: empty ones, one row, several tiles of each kernel; less than 32 rows on average. */
static void check_heads(DType type, int size, int left, int right) {
    for (int given = 0; given <= ALL; given++) {
        Case x = case_of(type, (int[]){0, 1, 300, 0, 97}, (int32_t[]){0, 0, 1, 0, 5}, 5, 2, size, left, right, given);
        compare(&x);
        rig_clear(&rig);
    }
    Case x = case_of(type, (int[]){70, 0, 33, 1, 2, 0}, (int32_t[]){0, 0, 1, 0, 1, 0}, 6, 3, size, left, right, ALL);
    compare(&x);
    rig_clear(&rig);
}

TEST_IN_EVERY_TYPE(heads_of_16) { check_heads(type, 16, 64, 8); }
TEST_IN_EVERY_TYPE(heads_of_32) { check_heads(type, 32, 9, 3); }
TEST_IN_EVERY_TYPE(heads_of_64) { check_heads(type, 64, 64, 8); }
TEST_IN_EVERY_TYPE(heads_of_128) { check_heads(type, 128, 5, 40); }

/* Heads are padded to the next size. Tensor cores are used where a row is a multiple of 16 bytes. */
TEST_IN_EVERY_TYPE(heads_of_other_sizes) {
    static const int sizes[] = {1, 7, 8, 20, 33, 40, 80, 127};
    for (int i = 0; i < 8; i++) {
        Case x = case_of(type, (int[]){3, 0, 66, 1}, (int32_t[]){1, 0, 1, 0}, 4, 2, sizes[i], 9, 3, ALL);
        compare(&x);
    }
}

/* From one distance to as many as there may be, for which a block of four warps has too little shared memory. */
TEST_IN_EVERY_TYPE(few_and_many_distances) {
    static const int cases[][3] = {{64, 0, 0}, {64, 127, 0}, {64, 0, 127}, {128, 60, 67}, {16, 0, 1}, {32, 31, 32}};
    for (int i = 0; i < 6; i++) {
        Case x = case_of(type, (int[]){150, 40}, (int32_t[]){1, 0}, 2, 1, cases[i][0], cases[i][1], cases[i][2], ALL);
        compare(&x);
    }
}

/* More sequences than the 32 lanes of a warp can search at once. */
TEST_IN_EVERY_TYPE(many_sequences) {
    int lengths[MOST];
    int32_t hidden[MOST];
    for (int s = 0; s < MOST; s++) lengths[s] = s == 30 ? 40 : s * 7 % 13, hidden[s] = lengths[s] > 1 ? s % 2 : 0;
    Case x = case_of(type, lengths, hidden, MOST, 2, 64, 6, 2, ALL);
    compare(&x);
}

/* A sequence has the same bits alone and beside others, whatever the number of warps in a block. */
TEST_IN_EVERY_TYPE(neighbours_change_nothing) {
    enum { COUNT = 5 };
    const int lengths[COUNT] = {5, 16, 130, 1, 200};
    const int32_t hidden[COUNT] = {1, 0, 1, 0, 0};
    for (int size = 64; size <= 128; size += 64) {
        Case x = case_of(type, lengths, hidden, COUNT, 2, size, 64, 8, ALL), y = x;
        run_on_cuda(&x);
        for (int s = 0; s < COUNT; s++) {
            int32_t first = x.cpu.host_offsets[s], offsets[9] = {0};
            for (int i = 1; i < 9; i++) offsets[i] = lengths[s]; /* behind it, empty ones */
            y.offsets = pair_integers(&rig, offsets, 9);
            y.out = poisoned(type, lengths[s], 2 * size);
            y.qkv.cuda = tensor_rows(x.qkv.cuda, first, lengths[s]);
            y.key_terms.cuda = tensor_rows(x.key_terms.cuda, first, lengths[s]);
            for (int count = 1; count < 9; count += 7) {
                int32_t own[8] = {hidden[s]};
                y.hidden = pair_integers(&rig, own, count);
                y.cuda = (Sequences){tensor_rows(y.offsets.cuda, 0, count + 1), y.offsets.cpu.data, count};
                run_on_cuda(&y);
                expect_same_bits(&rig, "a sequence alone", y.out,
                                 (Pair){y.out.cpu, tensor_rows(x.out.cuda, first, lengths[s])});
            }
        }
        rig_clear(&rig);
    }
}

/* Keys, values and terms of hidden rows are not used, whatever they hold; a sequence that sees no key gives zeros. */
TEST_IN_EVERY_TYPE(hidden_rows_are_not_used) {
    for (int size = 64; size <= 128; size += 64) {
        Case x = case_of(type, (int[]){90, 5, 40}, (int32_t[]){2, 5, 41}, 3, 1, size, 4, 4, ALL);
        for (int row = 88; row < 90; row++) {
            for (int i = size; i < 3 * size; i++) floats(x.qkv)[row * 3 * size + i] = NAN;
            floats(x.key_terms)[row] = NAN;
        }
        pair_upload(&rig, x.qkv);
        pair_upload(&rig, x.key_terms);
        compare(&x);
        float *got = pair_download(&rig, x.out);
        for (int i = 0; i < 135 * size; i++) assert_true(isfinite(got[i]) && (got[i] == 0) == (i >= 90 * size));
        free(got);
    }
}

/* Scores are in the hundreds, of both signs, and keys past the end, whose score is 0, exceed all negative ones. */
TEST_IN_EVERY_TYPE(large_scores_stay_finite) {
    for (int sign = -1; sign < 2; sign += 2) {
        Case x = case_of(type, (int[]){70, 9}, (int32_t[]){1, 0}, 2, 1, 64, 9, 3, ALL);
        for (int i = 0; i < 79 * 192; i++)
            if (i % 192 < 64) floats(x.qkv)[i] = (float)sign * 8;
        for (int i = 0; i < 13 * 64; i++) floats(x.distances)[i] = 8 + floats(x.distances)[i] / 64;
        for (int i = 0; i < 79; i++) floats(x.key_terms)[i] = (float)sign * 800;
        pair_upload(&rig, x.qkv);
        pair_upload(&rig, x.distances);
        pair_upload(&rig, x.key_terms);
        run_on_cuda(&x);
        float *got = pair_download(&rig, x.out);
        for (int i = 0; i < 79 * 64; i++) assert_true(isfinite(got[i]));
        free(got);
    }
}

/* A replayed graph is launched with one batch's offsets on the host and other ones on the device. */
TEST_IN_EVERY_TYPE(the_lengths_may_change_under_a_launch) {
    static const int32_t stale[] = {0, 100, 200, 300};
    Case x = case_of(type, (int[]){201, 97, 2}, (int32_t[]){1, 0, 1}, 3, 1, 64, 64, 8, ALL), y = x;
    y.out = poisoned(type, 300, 64);
    y.cuda.host_offsets = stale;
    run_on_cuda(&x);
    run_on_cuda(&y);
    expect_same_bits(&rig, "attention_terms_forward", x.out, y.out);
}

TEST_IN_EVERY_TYPE(no_rows_at_all) {
    Case x = case_of(type, (int[]){0, 0}, (int32_t[]){0, 0}, 2, 2, 64, 64, 8, ALL);
    run_on_cuda(&x);
}

TEST(a_negative_number_of_hidden_rows_dies) {
    op_must_die(OP_attention_terms_forward, "hidden[1]=-1", "hidden[1] is -1, expected less than 2147483647");
}

int main(void) { return tests_run(open_rig, close_rig); }
