/* Attention with terms, against double precision, on every instruction set of the processor, for any number of threads,
 * and without terms beside the ordinary attention. */
#include "kernels/device_open.h"
#include "tests/kernels/ops_rig.h"

typedef struct {
    Tensor out, qkv;
    Sequences sequences;
    Attention attention;
    AttentionTerms terms;
} Case;

/* left < 0: no distances. hidden[s]: rows of sequence s; NULL: no tensor. */
static Case case_of(Rig *rig, const int *lengths, const int *hidden, int count, int heads, int size, int left,
                    int right, bool with_keys) {
    int64_t c = (int64_t)heads * size;
    Case x = {.sequences = packed(rig, lengths, count), .attention = {heads, false, 1 / sqrtf((float)size)}};
    int64_t n = x.sequences.host_offsets[count];
    x.out = poisoned(rig, n, c);
    x.qkv = normal(rig, n, 3 * c);
    x.terms.left = left, x.terms.right = right;
    if (left >= 0) x.terms.distances = normal(rig, left + 1 + right, size);
    if (with_keys) x.terms.key_terms = normal(rig, n, heads);
    for (int64_t i = 0; with_keys && i < n * heads; i++) floats(x.terms.key_terms)[i] *= sqrtf((float)size);
    if (hidden) x.terms.hidden = tensor(rig, DTYPE_I32, count, 0);
    for (int s = 0; hidden && s < count; s++) integers(x.terms.hidden)[s] = hidden[s];
    return x;
}

static void run(Rig *rig, Case *x) {
    poison(x->out);
    attention_terms_forward(rig->device, x->out, x->qkv, x->sequences, x->attention, x->terms);
}

static double dot(const float *a, const float *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)a[i] * (double)b[i];
    return sum;
}

/* The row of `out` of query i of the sequence that begins at row `start`, which sees `keys` keys. */
static void reference_row(const Case *x, int64_t start, int64_t i, int64_t keys, int64_t head, double *out) {
    int64_t c = x->out.dims[1], heads = x->attention.n_heads, size = c / heads;
    const AttentionTerms *terms = &x->terms;
    const float *q = floats(x->qkv) + (start + i) * 3 * c + head * size;
    const float *k = floats(x->qkv) + start * 3 * c + c + head * size;
    double *p = xmalloc((size_t)(keys + 1) * sizeof *p), largest = -INFINITY, sum = 0;
    for (int64_t j = 0; j < keys; j++) {
        int64_t distance = j - i;
        if (distance < -terms->left) distance = -terms->left;
        if (distance > terms->right) distance = terms->right;
        p[j] = dot(q, k + j * 3 * c, size);
        if (tensor_given(terms->distances))
            p[j] += dot(q, floats(terms->distances) + (distance + terms->left) * size, size);
        if (tensor_given(terms->key_terms)) p[j] += (double)floats(terms->key_terms)[(start + j) * heads + head];
        p[j] *= (double)x->attention.scale;
        largest = fmax(largest, p[j]);
    }
    for (int64_t j = 0; j < keys; j++) sum += p[j] = exp(p[j] - largest);
    for (int64_t j = 0; j < keys; j++)
        for (int64_t e = 0; e < size; e++)
            out[(start + i) * c + head * size + e] += p[j] / sum * (double)k[j * 3 * c + c + e];
    free(p);
}

/* A score is a sum of two products of `size` terms and a third number, the output one of `longest` terms. */
static void check_case(Rig *rig, Case *x) {
    double *want = doubles(rig, tensor_numel(x->out));
    const int32_t *at = x->sequences.host_offsets;
    int64_t size = x->out.dims[1] / x->attention.n_heads, longest = 0;
    for (int s = 0; s < x->sequences.count; s++) {
        int64_t length = at[s + 1] - at[s];
        int64_t hidden = tensor_given(x->terms.hidden) ? integers(x->terms.hidden)[s] : 0;
        longest = length > longest ? length : longest;
        for (int64_t i = 0; i < length; i++)
            for (int64_t head = 0; head < x->attention.n_heads; head++)
                reference_row(x, at[s], i, length - hidden, head, want);
    }
    run(rig, x);
    expect(rig, "attention_terms_forward", x->out, want, sum_error(2 * size + 1, 48) + sum_error(longest, 0));
}

static void check_the_reference(Rig *rig) {
    const int lengths[] = {3, 0, 150, 1, 64, 17}, hidden[] = {1, 0, 1, 0, 5, 0};
    for (int kind = 0; kind < 8; kind++) {
        Case x = case_of(rig, lengths, kind & 1 ? hidden : NULL, 6, 2, 20, kind & 2 ? 9 : -1, 3, kind & 4);
        check_case(rig, &x);
    }
}

/* The widths of published networks, and the least and the most distances. */
static void check_other_widths(Rig *rig) {
    static const int sizes[][4] = {{2, 64, 64, 8}, {1, 128, 0, 0}, {3, 7, 0, 127}, {1, 16, 127, 0}, {1, 33, 1, 0}};
    for (int i = 0; i < 5; i++) {
        Case x =
            case_of(rig, (int[]){130, 9}, (int[]){1, 0}, 2, sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3], true);
        check_case(rig, &x);
    }
}

static void check_hidden_sequences_give_zeros(Rig *rig) {
    Case x = case_of(rig, (int[]){3, 70, 2}, (int[]){3, 71, 1}, 3, 2, 16, 4, 4, true);
    run(rig, &x);
    for (int64_t i = 0; i < 73 * 32; i++) assert_true(floats(x.out)[i] == 0);
    for (int64_t i = 73 * 32; i < 75 * 32; i++) assert_true(isfinite(floats(x.out)[i]) && floats(x.out)[i] != 0);
}

/* Keys and values of hidden rows are not read: NaN in them reaches nobody, and NaN in their queries only them. */
static void check_hidden_rows_are_not_read(Rig *rig) {
    Case x = case_of(rig, (int[]){90, 5}, (int[]){2, 0}, 2, 1, 16, 4, 4, true);
    for (int row = 88; row < 90; row++) {
        for (int i = 16; i < 48; i++) floats(x.qkv)[row * 48 + i] = NAN;
        floats(x.terms.key_terms)[row] = NAN;
    }
    floats(x.qkv)[89 * 48] = NAN;
    run(rig, &x);
    for (int64_t i = 0; i < 95 * 16; i++) assert_true(isnan(floats(x.out)[i]) == (i / 16 == 89));
}

/* Without terms the function is that of attention_forward, whose sums have the same errors. */
static void check_without_terms_it_is_the_ordinary_attention(Rig *rig) {
    Case x = case_of(rig, (int[]){3, 100, 16}, NULL, 3, 2, 24, -1, 0, false);
    Tensor ordinary = poisoned(rig, 119, 48), lse = poisoned(rig, 2, 119);
    attention_forward(rig->device, ordinary, lse, x.qkv, x.sequences, x.attention, dropout_of(0));
    run(rig, &x);
    expect(rig, "without terms", x.out, widened(rig, ordinary), 2 * (sum_error(24, 32) + sum_error(100, 0)));
}

/* The number of threads does not change a bit. */
TEST(any_number_of_threads_gives_the_same_bits) {
    static const int threads[] = {1, 2, 3, 8};
    uint64_t first = 0;
    for (int i = 0; i < 4; i++) {
        Rig rig = {.device = cpu_device_open(threads[i]), .hash = HASH_START};
        Case x = case_of(&rig, (int[]){300, 20, 1, 257}, (int[]){1, 0, 0, 0}, 4, 3, 48, 20, 5, true);
        run(&rig, &x);
        hash_output(&rig, x.out);
        if (i && rig.hash != first) fail_msg("%d threads give other bits than 1", threads[i]);
        first = rig.hash;
        rig_free(&rig);
        device_close(rig.device);
    }
}

int main(void) {
    const struct CMUnitTest shared[] = {ops_test(the_reference),
                                        ops_test(other_widths),
                                        ops_test(hidden_sequences_give_zeros),
                                        ops_test(hidden_rows_are_not_read),
                                        ops_test(without_terms_it_is_the_ordinary_attention),
                                        ops_last_test};
    tests_add(shared, sizeof shared / sizeof *shared);
    return tests_run(open_devices, close_devices);
}
