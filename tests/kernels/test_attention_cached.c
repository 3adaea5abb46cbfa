/* Attention over cached keys and values, against double precision, on every instruction set of the processor, for any
 * number of threads, and beside the ordinary attention of the same rows. */
#include "kernels/device_open.h"
#include "tests/kernels/ops_rig.h"

/* A cache of three slots, and S sequences in some of them. */
typedef struct {
    Tensor out, qkv;
    CachedKeys keys;
    Attention attention;
} Case;

static Case case_of(Rig *rig, const int *lengths, int count, int heads, int size, int64_t capacity) {
    int64_t c = (int64_t)heads * size;
    Case x = {.out = poisoned(rig, count, c),
              .qkv = normal(rig, count, 3 * c),
              .keys = {.kv = normal(rig, (count + 1) * capacity, 2 * c),
                       .slots = tensor(rig, DTYPE_I32, count, 0),
                       .lengths = tensor(rig, DTYPE_I32, count, 0),
                       .capacity = capacity},
              .attention = {heads, true, 1 / sqrtf((float)size)}};
    for (int s = 0; s < count; s++) {
        integers(x.keys.slots)[s] = (s + count / 2 + 1) % (count + 1); /* one slot stays empty */
        integers(x.keys.lengths)[s] = lengths[s];
        if (lengths[s] > x.keys.longest) x.keys.longest = lengths[s];
    }
    return x;
}

static void run(Rig *rig, Case *x) {
    poison(x->out);
    attention_cached_forward(rig->device, x->out, x->qkv, x->keys, x->attention);
}

static void reference_head(const Case *x, int64_t s, int64_t head, double *out) {
    int64_t c = x->out.dims[1], size = c / x->attention.n_heads, n = integers(x->keys.lengths)[s];
    const float *q = floats(x->qkv) + s * 3 * c + head * size;
    const float *k = floats(x->keys.kv) + integers(x->keys.slots)[s] * x->keys.capacity * 2 * c + head * size;
    double *p = xmalloc((size_t)n * sizeof *p), largest = -INFINITY, sum = 0;
    for (int64_t j = 0; j < n; j++) {
        p[j] = 0;
        for (int64_t i = 0; i < size; i++) p[j] += (double)x->attention.scale * (double)q[i] * (double)k[j * 2 * c + i];
        largest = fmax(largest, p[j]);
    }
    for (int64_t j = 0; j < n; j++) sum += p[j] = exp(p[j] - largest);
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < size; i++) out[s * c + head * size + i] += p[j] / sum * (double)k[j * 2 * c + c + i];
    free(p);
}

/* Checks as for attention_forward: a score has the error of a sum of `size` terms, the output that of `longest`. */
static void check_case(Rig *rig, const int *lengths, int count, int heads, int size, int64_t capacity) {
    Case x = case_of(rig, lengths, count, heads, size, capacity);
    double *want = doubles(rig, tensor_numel(x.out));
    for (int64_t s = 0; s < count; s++)
        for (int64_t head = 0; head < heads; head++) reference_head(&x, s, head, want);
    run(rig, &x);
    expect(rig, "attention_cached_forward", x.out, want, sum_error(size, 32) + sum_error(x.keys.longest, 0));
}

static void check_cached_attention_matches_the_reference(Rig *rig) {
    check_case(rig, (int[]){1}, 1, 1, 7, 1);
    check_case(rig, (int[]){3, 1, 17}, 3, 2, 16, 20);
    check_case(rig, (int[]){256, 255, 257, 4}, 4, 2, 33, 300); /* one part exactly, nearly, and one row more */
    check_case(rig, (int[]){700, 513}, 2, 3, 64, 701);
    check_case(rig, (int[]){5}, 1, 20, 128, 9);
}

/* The new rows of a sequence give what attention_forward gives for its last row, with the rows in any place. */
static void check_the_last_row_of_the_ordinary_attention(Rig *rig) {
    const int lengths[] = {1, 300, 40};
    const int64_t heads = 3, size = 24, c = heads * size, capacity = 310;
    Sequences sequences = packed(rig, lengths, 3);
    int64_t n = sequences.host_offsets[3];
    Tensor qkv = normal(rig, n, 3 * c), all = poisoned(rig, n, c), lse = poisoned(rig, heads, n);
    Tensor kv = poisoned(rig, 4 * capacity, 2 * c), rows = tensor(rig, DTYPE_I32, n, 0), last = normal(rig, 3, 3 * c);
    Tensor slots = tensor(rig, DTYPE_I32, 3, 0), counts = tensor(rig, DTYPE_I32, 3, 0), out = poisoned(rig, 3, c);
    double *want = doubles(rig, 3 * c);
    attention_forward(rig->device, all, lse, qkv, sequences, (Attention){(int)heads, true, 0.2f}, dropout_of(0));
    for (int s = 0; s < 3; s++) {
        int32_t first = sequences.host_offsets[s], end = sequences.host_offsets[s + 1];
        integers(slots)[s] = 3 - s;
        integers(counts)[s] = lengths[s];
        for (int32_t i = first; i < end; i++) integers(rows)[i] = (int32_t)((3 - s) * capacity) + i - first;
        memcpy(floats(last) + s * 3 * c, floats(qkv) + (end - 1) * 3 * c, (size_t)(3 * c) * sizeof(float));
        for (int64_t i = 0; i < c; i++) want[s * c + i] = (double)floats(all)[(end - 1) * c + i];
    }
    cache_rows(rig->device, kv, qkv, rows);
    for (int64_t i = 0; i < n; i++)
        assert_memory_equal(floats(kv) + integers(rows)[i] * 2 * c, floats(qkv) + i * 3 * c + c, (size_t)(8 * c));
    for (int64_t i = 0; i < capacity * 2 * c; i++) assert_true(isnan(floats(kv)[i])); /* nobody's slot */
    CachedKeys keys = {.kv = kv, .slots = slots, .lengths = counts, .capacity = capacity, .longest = capacity};
    attention_cached_forward(rig->device, out, last, keys, (Attention){(int)heads, true, 0.2f});
    expect(rig, "the last row", out, want, 2 * (sum_error(size, 32) + sum_error(300, 0)));
}

/* A sequence has the same bits alone and beside others, whatever bound of the lengths the host knows. */
static void check_neighbours_change_nothing(Rig *rig) {
    Case x = case_of(rig, (int[]){270, 600, 3}, 3, 2, 40, 600), alone = x;
    alone.out = poisoned(rig, 1, 80);
    run(rig, &x);
    for (int s = 0; s < 3; s++)
        for (int bound = 0; bound < 2; bound++) {
            alone.qkv = tensor_rows(x.qkv, s, 1);
            alone.keys.slots = tensor_rows(x.keys.slots, s, 1);
            alone.keys.lengths = tensor_rows(x.keys.lengths, s, 1);
            alone.keys.longest = bound ? 600 : integers(x.keys.lengths)[s];
            run(rig, &alone);
            expect_same(rig, "a sequence alone", alone.out, tensor_rows(x.out, s, 1));
        }
}

/* The number of threads does not change a bit. */
TEST(any_number_of_threads_gives_the_same_bits) {
    static const int threads[] = {1, 2, 3, 8};
    uint64_t first = 0;
    for (int i = 0; i < 4; i++) {
        Rig rig = {.device = cpu_device_open(threads[i]), .hash = HASH_START};
        for (int one = 0; one < 2; one++) {
            Case x = one ? case_of(&rig, (int[]){2000}, 1, 1, 64, 2000)
                         : case_of(&rig, (int[]){300, 20, 800, 1, 257}, 5, 3, 48, 900);
            run(&rig, &x);
            hash_output(&rig, x.out);
        }
        if (i && rig.hash != first) fail_msg("%d threads give other bits than 1", threads[i]);
        first = rig.hash;
        for (int k = 0; k < rig.n_memory; k++) free(rig.memory[k]);
        device_close(rig.device);
    }
}

/* NaN in a key, a value or a query reaches the output of its sequence and no other. */
static void check_nan_reaches_its_own_sequence(Rig *rig) {
    for (int where = 0; where < 3; where++) {
        Case x = case_of(rig, (int[]){300, 5, 1}, 3, 1, 16, 300);
        for (int s = 0; s < 3; s++) {
            int64_t first = integers(x.keys.slots)[s] * 300;
            float *at = where == 2 ? floats(x.qkv) + s * 48 + 3
                                   : floats(x.keys.kv) + (first + integers(x.keys.lengths)[s] - 1) * 32 + 16 * where;
            float before = *at;
            *at = NAN;
            run(rig, &x);
            for (int64_t i = 0; i < 3; i++) assert_true(isnan(floats(x.out)[i * 16]) == (i == s));
            *at = before;
        }
    }
}

int main(void) {
    const struct CMUnitTest shared[] = {
        ops_test(cached_attention_matches_the_reference), ops_test(the_last_row_of_the_ordinary_attention),
        ops_test(neighbours_change_nothing), ops_test(nan_reaches_its_own_sequence), ops_last_test};
    tests_add(shared, sizeof shared / sizeof *shared);
    return tests_run(open_devices, close_devices);
}
