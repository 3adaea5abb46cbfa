/* Attention over cached keys and values on the cuda device, against the cpu device on the same inputs, in every type
 * and every size of heads, and the copy that caches them. */
#include "tests/cuda/schedules.h"

enum { MOST = 6 };

typedef struct {
    Pair out, qkv, kv, slots, lengths;
    int64_t capacity, longest;
    Attention attention;
} Case;

static Case case_of(DType type, const int32_t *lengths, int count, int heads, int size, int64_t capacity) {
    int64_t c = (int64_t)heads * size;
    int32_t slots[MOST];
    Case x = {.out = poisoned(type, count, c),
              .qkv = normal(type, count, 3 * c),
              .kv = normal(type, (count + 1) * capacity, 2 * c),
              .lengths = pair_integers(&rig, lengths, count),
              .capacity = capacity,
              .attention = {heads, true, 1 / sqrtf((float)size)}};
    for (int s = 0; s < count; s++) {
        slots[s] = (s + count / 2 + 1) % (count + 1);
        if (lengths[s] > x.longest) x.longest = lengths[s];
    }
    x.slots = pair_integers(&rig, slots, count);
    return x;
}

static void run_on(Device *device, const Case *x, bool cuda) {
    CachedKeys keys = {.kv = cuda ? x->kv.cuda : x->kv.cpu,
                       .slots = cuda ? x->slots.cuda : x->slots.cpu,
                       .lengths = cuda ? x->lengths.cuda : x->lengths.cpu,
                       .capacity = x->capacity,
                       .longest = x->longest};
    attention_cached_forward(device, cuda ? x->out.cuda : x->out.cpu, cuda ? x->qkv.cuda : x->qkv.cpu, keys,
                             x->attention);
}

/* A score has the error of a sum of `size` terms, which the exponential makes relative; the kernel's exponential adds
 * two units of the last place, and the product with log2(e) one of scores up to about 8. */
static void compare(const Case *x) {
    int64_t size = x->out.cpu.dims[1] / x->attention.n_heads;
    run_on(rig.cpu, x, false);
    run_on(rig.cuda, x, true);
    check_output("attention_cached_forward", x->out, error_in(x->out.cuda.dtype, size, 48) + sum_error(x->longest, 0));
}

static void check(DType type, const int32_t *lengths, int count, int heads, int size, int64_t capacity) {
    Case x = case_of(type, lengths, count, heads, size, capacity);
    compare(&x);
}

/* Lengths of one row, of less and more than the rows that a block reads at once, of exactly one part, and of several
 * parts beside sequences of one. */
TEST_IN_EVERY_TYPE(heads_of_every_size) {
    static const int sizes[] = {16, 32, 64, 128};
    for (int i = 0; i < 4; i++) {
        check(type, (int32_t[]){1, 17, 128, 129, 40}, 5, 2, sizes[i], 200);
        check(type, (int32_t[]){5, 90}, 2, 3, sizes[i], 90);
    }
}

/* Heads are padded to the next size; where a head is no multiple of 16 bytes, or an address not, numbers are read one
 * by one. */
TEST_IN_EVERY_TYPE(heads_of_other_sizes) {
    static const int sizes[] = {1, 7, 8, 20, 33, 40, 80, 127};
    for (int i = 0; i < 8; i++) check(type, (int32_t[]){130, 3, 66}, 3, 2, sizes[i], 131);
    Case x = case_of(type, (int32_t[]){140, 9}, 2, 1, 64, 140);
    Pair kv = normal(type, 3 * 140 * 128 + 1, 0);
    x.kv = shifted(kv, 3 * 140, 128);
    compare(&x);
}

TEST_IN_EVERY_TYPE(sequences_of_many_parts) { check(type, (int32_t[]){1100, 300}, 2, 1, 32, 1100); }

/* A sequence has the same bits alone and beside others, whatever bound of the lengths the host knows. */
TEST_IN_EVERY_TYPE(neighbours_change_nothing) {
    Case x = case_of(type, (int32_t[]){270, 400, 3}, 3, 2, 64, 400), y = x;
    run_on(rig.cuda, &x, true);
    for (int s = 0; s < 3; s++)
        for (int bound = 0; bound < 2; bound++) {
            y.out = poisoned(type, 1, 128);
            y.qkv.cuda = tensor_rows(x.qkv.cuda, s, 1);
            y.slots.cuda = tensor_rows(x.slots.cuda, s, 1);
            y.lengths.cuda = tensor_rows(x.lengths.cuda, s, 1);
            y.longest = bound ? 400 : ((int32_t *)x.lengths.cpu.data)[s];
            run_on(rig.cuda, &y, true);
            expect_same_bits(&rig, "a sequence alone", y.out, (Pair){y.out.cpu, tensor_rows(x.out.cuda, s, 1)});
        }
}

/* Scores are in the hundreds, of both signs: exponentials would be infinite, or all zero, without the maximum. */
TEST_IN_EVERY_TYPE(large_scores_stay_finite) {
    for (int sign = -1; sign < 2; sign += 2) {
        Case x = case_of(type, (int32_t[]){200, 3}, 2, 1, 64, 200);
        for (int i = 0; i < 2 * 192; i++) floats(x.qkv)[i] = (float)sign * 8;
        for (int i = 0; i < 3 * 200 * 128; i += i % 128 == 63 ? 65 : 1) floats(x.kv)[i] = 8 + floats(x.kv)[i] / 64;
        pair_upload(&rig, x.qkv);
        pair_upload(&rig, x.kv);
        run_on(rig.cuda, &x, true);
        float *got = pair_download(&rig, x.out);
        for (int i = 0; i < 128; i++) assert_true(isfinite(got[i]));
        free(got);
    }
}

TEST_IN_EVERY_TYPE(rows_are_cached) {
    ops_on_both(type, "cache_rows", "n=0 c=8|n=1 c=1|n=21 c=35|n=9 c=640|n=70 c=64", "capacity=3 skip=2 odd=1");
}

int main(void) { return tests_run(open_rig, close_rig); }
