/* Batches of power spectra: which rows of a packed batch come from where, masks, partners, and what does not depend on
 * how they are made. */
#include "data/loader.h"
#include "data/psd/dataset.h"
#include "tests/test.h"

enum { SENSORS = 3, CLASSES = 3, EACH = 4, SAMPLES = SENSORS * CLASSES * EACH };

/* Sample i: class i / 12, sensor i / 4 % 3; sensor 2 has no class 2 but twice as much of class 1. Bins are numbered
 * through. */
static PsdStore make_store(void) {
    PsdStore s = {.n = SAMPLES, .n_sensors = SENSORS};
    s.psd = xmalloc((size_t)SAMPLES * PSD_BINS * sizeof(float));
    s.labels = xcalloc(SAMPLES, sizeof(int32_t));
    s.sensors = xcalloc(SAMPLES, sizeof(int32_t));
    s.rows = xcalloc(SAMPLES, sizeof(int32_t));
    for (int32_t i = 0; i < SAMPLES * PSD_BINS; i++) s.psd[i] = (float)i;
    for (int32_t i = 0; i < SAMPLES; i++) {
        s.labels[i] = i / (SENSORS * EACH);
        s.sensors[i] = i / EACH % SENSORS;
        if (s.labels[i] == 2 && s.sensors[i] == 2) s.labels[i] = 1;
        s.rows[i] = 10 + 2 * i; /* rows between have no sample */
    }
    return s;
}

static void free_store(PsdStore *s) {
    free(s->psd);
    free(s->labels);
    free(s->sensors);
    free(s->rows);
}

static Dataset *open_rows(const PsdStore *store, const int32_t *samples, int n, PsdDatasetOptions options) {
    int64_t rows[SAMPLES];
    for (int i = 0; i < n; i++) rows[i] = store->rows[samples[i]];
    return psd_dataset_open(store, &(PsdIds){rows, n}, &options);
}

static const PsdDatasetOptions pretraining = {.pretraining = true, .n_visible = 5, .seed = 7, .classes = CLASSES};

static Dataset *open_all(const PsdStore *store, PsdDatasetOptions options) {
    int32_t samples[SAMPLES];
    for (int32_t i = 0; i < SAMPLES; i++) samples[i] = i;
    return open_rows(store, samples, SAMPLES, options);
}

static Batch fill(const Dataset *dataset, const int32_t *samples, int n, int64_t epoch) {
    Batch batch = batch_open(dataset->batch_bytes(dataset, samples, n), n);
    Error error;
    batch_clear(&batch);
    batch.epoch = epoch;
    assert_true(dataset->fill(dataset, &batch, samples, n, &error));
    return batch;
}

static const int32_t *field(const Batch *batch, int which, int64_t n) {
    assert_int_equal(batch->fields[which].dims[0], n);
    return batch->fields[which].data;
}

/* The first bin of the patch whose halves are these pieces. */
static int first_bin(const PsdStore *store, const int32_t *pieces) {
    assert_int_equal(pieces[1], pieces[0] + 1);
    return (int)store->psd[pieces[0] * PSD_PIECE];
}

TEST(whole_sequences_have_cls_and_twelve_patches) {
    PsdStore store = make_store();
    static const float weights[] = {0.5f, 2, 3};
    Dataset *d = open_all(&store, (PsdDatasetOptions){.class_weights = weights, .classes = CLASSES});
    const int32_t samples[] = {30, 2};
    Batch b = fill(d, samples, 2, 0);
    assert_int_equal(b.n_sequences, 2);
    assert_int_equal(b.n_tokens, 26);
    const int32_t *offsets = field(&b, PSD_OFFSETS, 3), *rows = field(&b, PSD_PATCH_ROWS, 24);
    const int32_t *positions = field(&b, PSD_PATCH_POSITIONS, 24), *pieces = field(&b, PSD_PIECES, 48);
    const int32_t *cls = field(&b, PSD_CLS_ROWS, 2), *wanted = field(&b, PSD_OUTPUT_ROWS, 2);
    for (int s = 0; s < 2; s++) {
        assert_int_equal(offsets[s], 13 * s);
        assert_int_equal(cls[s], 13 * s);
        assert_int_equal(wanted[s], 13 * s);
        assert_int_equal(field(&b, PSD_TARGETS, 2)[s], store.labels[samples[s]]);
        assert_true(((const float *)field(&b, PSD_WEIGHTS, 2))[s] == weights[store.labels[samples[s]]]);
        for (int k = 0; k < 12; k++) {
            assert_int_equal(rows[12 * s + k], 13 * s + 1 + k);
            assert_int_equal(positions[12 * s + k], 1 + k);
            assert_int_equal(first_bin(&store, pieces + 2 * (ptrdiff_t)(12 * s + k)), samples[s] * 200 + 16 * k);
        }
    }
    assert_int_equal(offsets[2], 26);
    assert_true(b.counts[PSD_COUNT_WEIGHTS] == 3.5 && b.counts[PSD_COUNT_SPECTRA] == 2); /* classes 1 (moved), 0 */
    batch_close(&b);
    d->close(d);
    free_store(&store);
}

/* Every patch is either visible or a target, and has its right place in both networks. */
TEST(pretraining_divides_the_patches) {
    PsdStore store = make_store();
    Dataset *d = open_all(&store, pretraining);
    const int32_t samples[] = {0, 17, 35};
    enum { B = 3, V = 5, M = 7, BARE = B * V };
    Batch b = fill(d, samples, B, 4);
    const int32_t *offsets = field(&b, PSD_OFFSETS, 3 * B + 1), *pieces = field(&b, PSD_PIECES, 2 * (BARE + 24 * B));
    const int32_t *rows = field(&b, PSD_PATCH_ROWS, BARE + 24 * B), *wanted = field(&b, PSD_OUTPUT_ROWS, BARE + 2 * B);
    const int32_t *visible = field(&b, PSD_VISIBLE_ROWS, BARE), *masked = field(&b, PSD_MASKED_ROWS, B * M);
    const int32_t *spectra = field(&b, PSD_SPECTRA, 2 * B), *targets = field(&b, PSD_TARGET_PIECES, 2 * B * M);
    for (int s = 0; s < B; s++) {
        int seen[12] = {0};
        assert_int_equal(offsets[s], V * s);
        assert_int_equal(field(&b, PSD_DECODER_OFFSETS, B + 1)[s], 12 * s);
        for (int k = 0; k < V; k++) {
            int at = V * s + k, position = field(&b, PSD_PATCH_POSITIONS, BARE + 24 * B)[at] - 1;
            seen[position]++;
            assert_int_equal(rows[at], at);
            assert_int_equal(wanted[at], at);
            assert_int_equal(visible[at], 12 * s + position);
            assert_int_equal(field(&b, PSD_VISIBLE_POSITIONS, BARE)[at], position);
            assert_int_equal(first_bin(&store, pieces + 2 * (ptrdiff_t)at), samples[s] * 200 + 16 * position);
        }
        for (int k = 0; k < M; k++) {
            int at = M * s + k, position = field(&b, PSD_MASKED_POSITIONS, B * M)[at];
            seen[position]++;
            assert_int_equal(masked[at], 12 * s + position);
            assert_int_equal(first_bin(&store, targets + 2 * (ptrdiff_t)at), samples[s] * 200 + 16 * position);
        }
        for (int k = 0; k < 12; k++) assert_int_equal(seen[k], 1);
        assert_int_equal(spectra[s], samples[s]);
    }
    for (int s = 0; s < 2 * B; s++) { /* both views, whole */
        assert_int_equal(offsets[B + s], BARE + 13 * s);
        assert_int_equal(wanted[BARE + s], BARE + 13 * s);
        assert_int_equal(first_bin(&store, pieces + 2 * (ptrdiff_t)(BARE + 12 * s + 11)), spectra[s] * 200 + 176);
    }
    assert_int_equal(offsets[3 * B], b.n_tokens);
    assert_int_equal(b.n_tokens, BARE + 26 * B);
    assert_true(b.counts[PSD_COUNT_MASKED] == B * M * 16 && b.counts[PSD_COUNT_PAIRED] == 2 * B);
    batch_close(&b);
    d->close(d);
    free_store(&store);
}

/* A partner has the same class, comes from another sensor if one has the class, and is not the sample itself if there
 * is another. Every such sensor and sample is drawn about equally often. */
TEST(partners_come_from_other_sensors) {
    PsdStore store = make_store();
    Dataset *d = open_all(&store, pretraining);
    int drawn[SAMPLES] = {0};
    enum { EPOCHS = 4000 };
    const int32_t sample[] = {0};
    for (int e = 0; e < EPOCHS; e++) {
        Batch b = fill(d, sample, 1, e);
        int partner = field(&b, PSD_SPECTRA, 2)[1];
        assert_int_equal(store.labels[partner], 0);
        assert_int_not_equal(store.sensors[partner], 0);
        drawn[partner]++;
        batch_close(&b);
    }
    for (int i = 4; i < 12; i++) /* eight of them, 500 each: 6 standard deviations of a binomial are 126 */
        assert_true(abs(drawn[i] - EPOCHS / 8) < 126);
    const int32_t alone[] = {24, 25, 28}, single[] = {30};
    Dataset *own = open_rows(&store, alone, 2, pretraining), *lonely = open_rows(&store, single, 1, pretraining);
    for (int e = 0; e < 20; e++) {
        Batch b = fill(own, sample, 1, e), c = fill(lonely, sample, 1, e);
        assert_int_equal(field(&b, PSD_SPECTRA, 2)[1], 25);
        assert_int_equal(field(&c, PSD_SPECTRA, 2)[1], 30);
        batch_close(&b);
        batch_close(&c);
    }
    int64_t counts[3];
    psd_dataset_partners(own, counts);
    assert_true(counts[0] == 0 && counts[1] == 2 && counts[2] == 0);
    psd_dataset_partners(d, counts);
    assert_true(counts[0] == SAMPLES && counts[1] == 0 && counts[2] == 0);
    own->close(own);
    lonely->close(lonely);
    d->close(d);
    free_store(&store);
}

/* A mask is a uniform choice: a patch is visible in 5 of 12 epochs, two of them together in 5 4 / (12 11). */
TEST(masks_are_uniform_and_change_with_the_epoch) {
    PsdStore store = make_store();
    Dataset *d = open_all(&store, pretraining);
    PsdDatasetOptions fixed_options = pretraining;
    fixed_options.fixed = true;
    Dataset *fixed = open_all(&store, fixed_options);
    enum { EPOCHS = 6000 };
    int both[12][12] = {{0}}, fixed_rows[5];
    const int32_t sample[] = {9};
    for (int e = 0; e < EPOCHS; e++) {
        Batch b = fill(d, sample, 1, e);
        const int32_t *visible = field(&b, PSD_VISIBLE_POSITIONS, 5);
        for (int i = 0; i < 5; i++)
            for (int j = 0; j < 5; j++) both[visible[i]][visible[j]]++;
        for (int i = 0; i < 4; i++) assert_true(visible[i] < visible[i + 1]);
        batch_close(&b);
        if (e > 3) continue;
        b = fill(fixed, sample, 1, e);
        if (!e) memcpy(fixed_rows, field(&b, PSD_VISIBLE_ROWS, 5), sizeof fixed_rows);
        assert_memory_equal(fixed_rows, field(&b, PSD_VISIBLE_ROWS, 5), sizeof fixed_rows);
        batch_close(&b);
    }
    for (int i = 0; i < 12; i++) /* 6 standard deviations: 230, 165 */
        for (int j = 0; j < 12; j++)
            assert_true(i == j ? abs(both[i][j] - EPOCHS * 5 / 12) < 230 : abs(both[i][j] - EPOCHS * 20 / 132) < 165);
    d->close(d);
    fixed->close(fixed);
    free_store(&store);
}

/* A micro-batch has the same contents with any number of workers and from any start of the stream. */
TEST(batches_do_not_depend_on_the_workers) {
    PsdStore store = make_store();
    Dataset *d = open_all(&store, pretraining);
    LoaderOptions one = {
        .batch_size = 8, .accumulate = 1, .shuffle = true, .seed = 3, .stop_after = -1, .drop_last = true};
    LoaderOptions many = one;
    many.n_workers = 3;
    Loader *a = loader_open(d, &one), *b = loader_open(d, &many);
    many.start_epoch = 2;
    many.start_index = 1;
    Loader *c = loader_open(d, &many);
    for (int i = 0; i < 12; i++) { /* 4 of 8 an epoch, 4 samples left out */
        const Batch *x = loader_next(a), *y = loader_next(b);
        assert_int_equal(x->n_sequences, 8);
        assert_int_equal(x->epoch, i / 4);
        assert_int_equal(x->size, y->size);
        assert_memory_equal(x->buffer, y->buffer, x->size);
        if (i < 9) continue;
        const Batch *z = loader_next(c);
        assert_memory_equal(x->buffer, z->buffer, x->size);
    }
    loader_close(a);
    loader_close(b);
    loader_close(c);
    d->close(d);
    free_store(&store);
}

/* The bound on bytes is what fill uses but for the ends of lines, and for an entry of offsets that a kind may not
 * have. */
TEST(batch_bytes_are_exact) {
    PsdStore store = make_store();
    for (int kind = 0; kind < 4; kind++) {
        PsdDatasetOptions options = {
            .pretraining = kind & 1, .cnn = kind & 2, .n_visible = kind & 1 ? 3 : 0, .classes = CLASSES};
        Dataset *d = open_all(&store, options);
        Batch largest = psd_largest_batch(d, 32, 0);
        size_t used = 0, bound = d->batch_bytes(d, NULL, 32);
        for (int f = 0; f < largest.n_fields; f++)
            if (largest.fields[f].data) used += tensor_bytes(largest.fields[f]);
        assert_int_equal(largest.n_sequences, 32);
        assert_true(largest.size <= bound && used + PSD_FIELDS * BATCH_LINE + 4 >= bound);
        assert_int_equal(largest.n_tokens, 32 * d->tokens(d, 0));
        batch_close(&largest);
        d->close(d);
    }
    free_store(&store);
}

/* ---- what is refused ---- */

static void open_unknown_class(void *argument) {
    PsdStore *store = argument;
    const int32_t samples[] = {3};
    store->labels[3] = CLASSES;
    open_rows(store, samples, 1, (PsdDatasetOptions){.classes = CLASSES});
}

static void open_other_masks(void *argument) {
    PsdStore *store = argument;
    const int32_t samples[] = {3};
    static int32_t visible[SAMPLES * 6];
    store->visible = visible;
    store->n_visible = 6;
    open_rows(store, samples, 1, pretraining);
}

static void open_missing_rows(void *argument) {
    int64_t rows[] = {10, 11};
    Dataset *d = psd_dataset_open(argument, &(PsdIds){rows, 2}, &pretraining);
    if (d->n_samples != 1) die("wrong");
}

TEST(unusable_samples_are_reported) {
    PsdStore store = make_store();
    char output[512];
    assert_int_equal(run_function(output, sizeof output, open_unknown_class, &store), 1);
    assert_contains(output, "the class of manifest row 16 is unknown");
    assert_int_equal(run_function(output, sizeof output, open_other_masks, &store), 1);
    assert_contains(output, "fixes masks of 6 visible patches, and the mask ratio leaves 5");
    assert_int_equal(run_function(output, sizeof output, open_missing_rows, &store), 0);
    assert_contains(output, "1 rows of the split have no sample");
    free_store(&store);
}
