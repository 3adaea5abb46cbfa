/* Padding: what rows of padding hold, and how many sizes batches get. */
#include "data/padding.h"

#include "kernels/ops.h"
#include "kernels/philox.h"
#include "tests/test.h"

enum { IDS = BATCH_OFFSETS + 1, ROWS, TARGETS, OTHER_ROWS, ALL_IDS, VECTORS, FIELDS, MOST = 4096 };

static const FieldPad
    with_heads[BATCH_MAX_FIELDS] = {[IDS] = {PAD_REPEATED, PAD_LIST},
                                    [ROWS] = {PAD_NONE, PAD_LIST},
                                    [TARGETS] = {PAD_NONE, PAD_LIST},
                                    [OTHER_ROWS] = {PAD_NEW_ROW, PAD_LIST_AND_NEW}},
    with_all[BATCH_MAX_FIELDS] =
        {[ROWS] = {PAD_NONE, PAD_LIST}, [TARGETS] = {PAD_NONE, PAD_LIST}, [ALL_IDS] = {PAD_REPEATED, PAD_ALL_ROWS}},
    of_sequences[BATCH_MAX_FIELDS] = {{0}};

static uint32_t draw(uint64_t i, uint32_t below) { return philox_bits(9, PURPOSE_TEST, 0, i) % below; }

/* Returns a batch of sequences of up to `longest` rows, one of them empty, of which some are one head's. */
static Batch make_batch(int sequences, int longest, int head, int other) {
    Batch b = batch_open(sizeof(int32_t) * 6 * MOST, 1);
    int32_t *offsets = batch_push_1d(&b, BATCH_OFFSETS, DTYPE_I32, sequences + 1).data;
    for (int s = offsets[0] = 0; s < sequences; s++)
        offsets[s + 1] = offsets[s] + (s == 1 ? 0 : 1 + (int32_t)draw((uint64_t)s, (uint32_t)longest));
    b.n_sequences = sequences;
    b.n_tokens = offsets[sequences];
    if (head > b.n_tokens) head = (int)b.n_tokens;
    if (other > b.n_tokens) other = (int)b.n_tokens;
    const int64_t rows[FIELDS] = {
        [IDS] = head, [ROWS] = head, [TARGETS] = head, [OTHER_ROWS] = other, [ALL_IDS] = b.n_tokens};
    for (int f = IDS; f <= ALL_IDS; f++) {
        int32_t *to = batch_push_1d(&b, f, DTYPE_I32, rows[f]).data;
        for (int64_t i = 0; i < rows[f]; i++) to[i] = (int32_t)draw((uint64_t)(f * MOST + i), 1000);
    }
    batch_push_2d(&b, VECTORS, DTYPE_F32, sequences, 3);
    return b;
}

static void expect_offsets(const Batch *padded, const Batch *batch) {
    int64_t n = batch->fields[BATCH_OFFSETS].dims[0] - 1, count = padded->fields[BATCH_OFFSETS].dims[0] - 1;
    const int32_t *at = padded->fields[BATCH_OFFSETS].data;
    for (int64_t s = n; s < count; s++) assert_true(at[s + 1] >= at[s]);
    assert_int_equal(at[n], batch->n_tokens);
    assert_int_equal(at[count], padded->n_tokens);
    assert_int_equal(sequences_are_short(at, count), sequences_are_short(batch->fields[BATCH_OFFSETS].data, n));
}

/* A field of new rows has each of them once. */
static void expect_rows(const Batch *padded, const Batch *batch, const FieldPad *pads) {
    for (int f = IDS; f < FIELDS; f++) {
        Tensor own = batch->fields[f], t = padded->fields[f];
        const int32_t *numbers = t.data;
        int64_t n = own.dims[0], more = padded->n_tokens - batch->n_tokens;
        assert_memory_equal(t.data, own.data, tensor_bytes(own));
        if (pads[f].kind == PAD_NOT) assert_int_equal(t.dims[0], n);
        if (pads[f].kind == PAD_NEW_ROW) assert_true(t.dims[0] >= n + more);
        if (pads[f].kind != PAD_NOT) assert_true(t.dims[0] <= padded->n_tokens);
        for (int64_t i = n; i < t.dims[0]; i++) {
            if (pads[f].kind == PAD_NONE) assert_int_equal(numbers[i], -1);
            if (pads[f].kind == PAD_REPEATED) assert_int_equal(numbers[i], numbers[i - n]);
            if (pads[f].kind == PAD_NEW_ROW) assert_int_equal(numbers[i], i - n < more ? batch->n_tokens + i - n : -1);
        }
    }
}

static void check(const FieldPad *pads, int sequences, int longest, int head, int other) {
    Batch batch = make_batch(sequences, longest, head, other), padded = batch_open(batch_padded_bytes(batch.size), 0);
    batch_pad(&padded, &batch, pads, false);
    assert_true(padded.size <= batch_padded_bytes(batch.size));
    assert_int_equal(padded.n_sequences, batch.n_sequences);
    assert_int_equal(padded.n_fields, FIELDS);
    expect_offsets(&padded, &batch);
    expect_rows(&padded, &batch, pads);
    if (pads == with_all) assert_int_equal(padded.fields[ALL_IDS].dims[0], padded.n_tokens);
    batch_close(&padded);
    batch_close(&batch);
}

TEST(rows_of_padding_repeat_rows_in_sequences_of_their_own) {
    const FieldPad *const all[] = {with_heads, with_all, of_sequences};
    for (int i = 0; i < 3; i++)
        for (int n = 600; n < 640; n += 3) check(all[i], n, 5, 100, 900); /* short ones, of which many are needed */
    for (int i = 0; i < 3; i++) check(all[i], 600, 3, 1100, 1100);        /* lists almost as long as the batch */
    for (int i = 0; i < 3; i++)
        for (int longest = 5; longest < 40; longest += 11)
            for (int n = 2; n < 60; n += 7) check(all[i], n, longest, 1 + n * 2, 1 + n * 3);
}

/* Pads a batch of so many rows, of which `head` are a head's, and `targets` have a target. */
static Batch pad_rows(const FieldPad *pads, int64_t n, int64_t head, int64_t targets) {
    Batch batch = batch_open(sizeof(int32_t) * 6 * MOST, 1), padded;
    int32_t *offsets = batch_push_1d(&batch, BATCH_OFFSETS, DTYPE_I32, 2).data;
    offsets[0] = 0;
    offsets[1] = (int32_t)n;
    batch.n_tokens = n;
    const int64_t rows[] = {[IDS] = head, [ROWS] = head, [TARGETS] = targets, [OTHER_ROWS] = head, [ALL_IDS] = n};
    for (int f = IDS; f <= ALL_IDS; f++) {
        batch_push_1d(&batch, f, DTYPE_I32, rows[f]);
        memset(batch.fields[f].data, 0, tensor_bytes(batch.fields[f]));
    }
    padded = batch_open(batch_padded_bytes(batch.size), 0);
    batch_pad(&padded, &batch, pads, true);
    batch_close(&batch);
    return padded;
}

/* So memory that is planned for the largest batch is enough for all, whatever is less: rows, a head's, or targets. */
static void expect_order(const FieldPad *pads, int64_t n, int64_t head) {
    int64_t less = head - n / 40;
    Batch larger = pad_rows(pads, n + 1, head + 1, head + 1),
          smaller[] = {pad_rows(pads, n, head, head), pad_rows(pads, n + 1, head, head),
                       pad_rows(pads, n + 1, head + 1, head), pad_rows(pads, n + 1, head + 1, less > 0 ? less : 0)};
    for (int i = 0; i < 4; i++) {
        for (int f = 0; f <= ALL_IDS; f++) assert_true(smaller[i].fields[f].dims[0] <= larger.fields[f].dims[0]);
        batch_close(&smaller[i]);
    }
    batch_close(&larger);
}

TEST(a_larger_batch_stays_larger) {
    for (int64_t n = 40; n < 1500; n += 13)
        for (int64_t head = 1; head <= n; head += n / 5) {
            expect_order(with_heads, n, head);
            expect_order(with_all, n, head);
        }
}

TEST(a_doubling_has_few_sizes) {
    int sizes = 0;
    int64_t last = 0;
    for (int64_t n = 512; n < 1024; n++) {
        Batch padded = pad_rows(with_all, n, 64, 64);
        sizes += padded.n_tokens != last;
        last = padded.n_tokens;
        assert_true(last - n < n / 16);
        batch_close(&padded);
    }
    assert_int_equal(sizes, 17); /* with the first */
}
