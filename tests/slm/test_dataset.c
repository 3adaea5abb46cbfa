/* Batches of text: which rows of a stream are in which sample. In most streams here id p stands at position p, so that
 * a batch tells which rows it has. */
#include "data/loader.h"
#include "kernels/philox.h"
#include "tests/allocations.h"
#include "tests/slm/streams.h"
#include "tests/test.h"

/* ---- batches ---- */

/* Checks what all batches of a stream of rows have in common, and returns the number of sequences. */
static int64_t check_batch(const Batch *batch) {
    assert_int_equal(batch->n_fields, SLM_FIELDS);
    const int32_t *offsets = slm_field(batch, SLM_OFFSETS), *ids = slm_field(batch, SLM_IDS);
    int64_t n = batch->n_tokens, sequences = batch->fields[SLM_OFFSETS].dims[0] - 1;
    for (int f = SLM_IDS; f < SLM_FIELDS; f++) assert_int_equal(batch->fields[f].dims[0], n);
    assert_int_equal(offsets[0], 0);
    assert_int_equal(offsets[sequences], n);
    for (int64_t s = 0; s < sequences; s++) {
        assert_true(offsets[s] < offsets[s + 1]);
        for (int32_t r = offsets[s]; r < offsets[s + 1]; r++)
            assert_int_equal(slm_field(batch, SLM_POSITIONS)[r], r - offsets[s]);
    }
    for (int64_t r = 0; r < n; r++) assert_int_equal(slm_field(batch, SLM_TARGETS)[r], ids[r] + 1);
    assert_true(batch->counts[SLM_COUNT_TOKENS] == (double)n);
    return sequences;
}

static const struct {
    SlmSampling sampling;
    bool separate;
} modes[] = {{SLM_EPOCH, false}, {SLM_EPOCH, true}, {SLM_ORDER, false}, {SLM_ORDER, true}};
enum { MODES = 4 };
static const int contexts[] = {1, 2, 7, 16, 101, 100000};
enum { CONTEXTS = 6 };

static bool begins_piece(const SlmStream *stream, int64_t row, int context) {
    for (int64_t d = 0; d < stream->n_documents; d++)
        if (row >= stream->first[d] && row < stream->first[d + 1]) return (row - stream->first[d]) % context == 0;
    return false;
}

static double all_bytes(const SlmStream *stream) {
    double bytes = 0;
    for (int64_t d = 0; d < stream->n_documents; d++) bytes += (double)stream->bytes[d];
    return bytes;
}

/* Reads an epoch from the loader; every row of the stream must come once. Returns a hash of the order. */
static uint64_t check_epoch(const SlmStream *stream, const Dataset *dataset, Loader *loader, int mode, int context) {
    char seen[MOST_IDS] = {0};
    int64_t rows = stream->n_tokens - 1, total = 0, samples = 0, shorter = 0;
    uint64_t hash = HASH_START;
    double bytes = 0;
    for (bool last = false; !last;) {
        const Batch *batch = loader_next(loader);
        assert_int_equal(check_batch(batch), batch->n_sequences);
        const int32_t *offsets = slm_field(batch, SLM_OFFSETS), *ids = slm_field(batch, SLM_IDS);
        for (int64_t s = 0; s < batch->n_sequences; s++) {
            int64_t n = offsets[s + 1] - offsets[s];
            assert_true(n <= context && n == dataset->tokens(dataset, batch->samples[s]));
            shorter += n < context;
            if (modes[mode].separate) assert_true(begins_piece(stream, ids[offsets[s]], context));
            for (int32_t r = offsets[s] + 1; r < offsets[s + 1]; r++)
                if (modes[mode].separate || ids[r] != ids[r - 1] + 1)
                    assert_true(begins_piece(stream, ids[r], context) == !modes[mode].separate);
        }
        for (int64_t r = 0; r < batch->n_tokens; r++) assert_int_equal(seen[ids[r]]++, 0);
        hash = hash_bytes(hash, ids, (size_t)batch->n_tokens * sizeof *ids);
        total += batch->n_tokens;
        samples += batch->n_sequences;
        bytes += batch->counts[SLM_COUNT_BYTES];
        last = batch->last;
    }
    assert_int_equal(total, rows);
    assert_int_equal(samples, dataset->n_samples);
    assert_true(bytes == all_bytes(stream)); /* to the last bit */
    if (!modes[mode].separate) assert_int_equal(shorter, rows % context != 0);
    return hash;
}

TEST(every_token_is_a_target_once_an_epoch) {
    for (int which = 0; which < STREAM_KINDS; which++)
        for (int i = 0; i < MODES * CONTEXTS; i++) {
            int mode = i % MODES, context = contexts[i / MODES];
            SlmStream *stream = slm_stream_of_kind(which);
            Dataset *dataset = slm_dataset_of(stream, context, modes[mode].sampling, modes[mode].separate);
            LoaderOptions options = {.batch_size = modes[mode].separate ? 0 : 3,
                                     .token_budget = modes[mode].separate ? 3 * (int64_t)context : 0,
                                     .shuffle = modes[mode].sampling != SLM_ORDER,
                                     .bucket = modes[mode].separate && modes[mode].sampling != SLM_ORDER,
                                     .seed = 5,
                                     .stop_after = -1};
            Loader *loader = loader_open(dataset, &options);
            uint64_t hash[4];
            for (int epoch = 0; epoch < 4; epoch++) hash[epoch] = check_epoch(stream, dataset, loader, mode, context);
            if (modes[mode].sampling == SLM_ORDER)
                assert_true(hash[0] == hash[1]);
            else if (which != 2 || context < 100) /* there is only one order of one sample */
                assert_true(hash[0] != hash[1] && hash[1] != hash[2] && hash[2] != hash[3]);
            loader_close(loader);
            dataset->close(dataset);
            slm_stream_close(stream);
        }
}

TEST(seeds_and_epochs_give_orders_of_their_own) {
    SlmStream *stream = slm_stream_of_kind(3);
    for (int random = 0; random < 2; random++) {
        uint64_t hash[9];
        for (int i = 0; i < 9; i++) {
            SlmDatasetOptions options = {16, random ? SLM_RANDOM : SLM_EPOCH, false, (uint64_t)(i / 3)};
            Dataset *dataset = slm_dataset_open(stream, &options, NULL);
            Batch batch = slm_batch_filled(dataset, i % 3, 0, (int)dataset->n_samples);
            hash[i] = checksum(0, slm_field(&batch, SLM_IDS), (size_t)batch.n_tokens * sizeof(int32_t));
            for (int before = 0; before < i; before++) assert_true(hash[before] != hash[i]);
            batch_close(&batch);
            dataset->close(dataset);
        }
    }
    slm_stream_close(stream);
}

TEST(validation_reads_the_stream_in_order) {
    SlmStream *stream = slm_stream_of_kind(3);
    for (int separate = 0; separate < 2; separate++) {
        Dataset *dataset = slm_dataset_of(stream, 16, SLM_ORDER, separate);
        Batch batch = slm_batch_filled(dataset, 0, 0, (int)dataset->n_samples);
        for (int32_t r = 0; r < stream->n_tokens - 1; r++) assert_int_equal(slm_field(&batch, SLM_IDS)[r], r);
        batch_close(&batch);
        dataset->close(dataset);
    }
    slm_stream_close(stream);
}

/* Returns the chi-square of counts against equal ones; its mean is n - 1, its variance 2 (n - 1). A fair generator
 * exceeds the mean by 6 standard deviations less than once in 10^6. */
static void expect_uniform(const int64_t *counts, int n, int64_t draws) {
    double expected = (double)draws / n, sum = 0;
    for (int i = 0; i < n; i++) sum += ((double)counts[i] - expected) * ((double)counts[i] - expected) / expected;
    print_message("chi-square %.1f of %d degrees of freedom\n", sum, n - 1);
    assert_true(fabs(sum - (n - 1)) <= 6 * sqrt(2.0 * (n - 1)));
}

/* Four pieces have 24 orders. */
TEST(all_orders_of_pieces_are_equally_likely) {
    SlmStream *stream = slm_stream_of_rows((const int64_t[]){3, 1, 2, 5}, 4);
    Dataset *dataset = slm_dataset_of(stream, 11, SLM_EPOCH, false);
    int64_t counts[24] = {0};
    for (int epoch = 0; epoch < 4800; epoch++) {
        Batch batch = slm_batch_filled(dataset, epoch, 0, 1);
        int order[4], n = 0, rank = 0;
        for (int r = 0; r < 11; r++) {
            int32_t row = slm_field(&batch, SLM_IDS)[r];
            for (int d = 0; d < 4; d++)
                if (row == stream->first[d]) order[n++] = d;
        }
        assert_int_equal(n, 4);
        for (int i = 0; i < 4; i++) { /* the rank of the permutation among all */
            int smaller = 0;
            for (int j = i + 1; j < 4; j++) smaller += order[j] < order[i];
            rank = rank * (4 - i) + smaller;
        }
        counts[rank]++;
        batch_close(&batch);
    }
    expect_uniform(counts, 24, 4800);
    dataset->close(dataset);
    slm_stream_close(stream);
}

/* ---- random places ---- */

TEST(random_places_are_uniform) {
    enum { T = 7, PLACES = 101 - T, EPOCHS = 800 };
    SlmStream *stream = slm_stream_of_rows((const int64_t[]){60, 40}, 2); /* 101 tokens */
    Dataset *dataset = slm_dataset_of(stream, T, SLM_RANDOM, false);
    int64_t counts[PLACES] = {0}, equal = 0;
    double bytes = 0;
    assert_int_equal(dataset->n_samples, 14);
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        Batch batch = slm_batch_filled(dataset, epoch, 0, 14), again = slm_batch_filled(dataset, epoch, 9, 1);
        assert_int_equal(check_batch(&batch), 14);
        const int32_t *ids = slm_field(&batch, SLM_IDS);
        for (int r = 0; r < 14 * T; r++) assert_int_equal(ids[r], ids[r / T * T] + r % T);
        for (int s = 0; s < 14; s++) {
            assert_true(ids[s * T] < PLACES); /* 0 .. tokens - T - 1 */
            counts[ids[s * T]]++;
            equal += s && ids[s * T] == ids[0];
        }
        assert_memory_equal(slm_field(&again, SLM_IDS), ids + 9 * (ptrdiff_t)T,
                            T * sizeof *ids); /* batches do not matter */
        bytes += batch.counts[SLM_COUNT_BYTES];
        batch_close(&batch);
        batch_close(&again);
    }
    expect_uniform(counts, PLACES, EPOCHS * 14);
    assert_true(counts[0] && counts[PLACES - 1] && equal); /* with replacement */
    assert_true(bytes > 0);
    dataset->close(dataset);
    slm_stream_close(stream);
}

/* Counts the sequences that some place has most of. */
static int64_t most_sequences(const SlmStream *stream, int64_t context) {
    int64_t most = 0;
    for (int64_t o = 0; o + context < stream->n_tokens; o++) {
        int64_t n = 1;
        for (int64_t d = 0; d < stream->n_documents; d++) n += stream->first[d] > o && stream->first[d] < o + context;
        if (n > most) most = n;
    }
    return most;
}

TEST(random_rows_are_cut_where_documents_begin) {
    enum { T = 16 };
    for (int which = 0; which < STREAM_KINDS; which++) {
        SlmStream *stream = slm_stream_of_kind(which);
        Dataset *dataset = slm_dataset_of(stream, T, SLM_RANDOM, true),
                *whole = slm_dataset_of(stream, T, SLM_RANDOM, false);
        int n = (int)dataset->n_samples;
        for (int epoch = 0; epoch < 20; epoch++) {
            Batch batch = slm_batch_filled(dataset, epoch, 0, n), uncut = slm_batch_filled(whole, epoch, 0, n);
            assert_memory_equal(slm_field(&batch, SLM_IDS), slm_field(&uncut, SLM_IDS),
                                (size_t)n * T * sizeof(int32_t));
            int64_t sequences = check_batch(&batch), s = 0;
            int32_t samples[MOST_IDS] = {0}; /* room for any sample is room for each */
            assert_true(batch.size <= dataset->batch_bytes(dataset, samples, n));
            const int32_t *offsets = slm_field(&batch, SLM_OFFSETS), *ids = slm_field(&batch, SLM_IDS);
            for (int32_t r = 0; r < n * T; r++)
                if (r % T == 0 || begins_piece(stream, ids[r], INT32_MAX)) assert_int_equal(offsets[s++], r);
            assert_int_equal(s, sequences);
            batch_close(&batch);
            batch_close(&uncut);
        }
        Batch largest = slm_largest_batch(dataset, 1, 0);
        assert_int_equal(largest.fields[SLM_OFFSETS].dims[0] - 1, most_sequences(stream, T));
        batch_close(&largest);
        dataset->close(dataset);
        whole->close(whole);
        slm_stream_close(stream);
    }
}

/* ---- one stream of batches ---- */

static uint64_t hash_batch(const Batch *batch) {
    uint64_t hash = checksum(1, batch->buffer, batch->size);
    hash = checksum(hash, batch->samples, (size_t)batch->n_sequences * sizeof *batch->samples);
    hash = checksum(hash, batch->group.counts, sizeof batch->group.counts);
    return checksum(hash, batch->counts, sizeof batch->counts);
}

TEST(workers_and_restarts_do_not_change_batches) {
    enum { STEPS = 60 };
    static const int sampling[] = {SLM_EPOCH, SLM_RANDOM};
    for (int c = 0; c < 8; c++) {
        bool separate = c & 1,
             tiny = c & 2; /* tiny: epochs of one or two batches, many of which are under way at once */
        SlmStream *stream = slm_stream_of_kind(3);
        Dataset *dataset = slm_dataset_of(stream, 16, sampling[c / 4], separate);
        LoaderOptions o = {.batch_size = separate ? 0 : tiny ? 200 : 5, .accumulate = 3, .shuffle = true, .seed = 9};
        o.token_budget = separate ? (tiny ? 4000 : 80) : 0;
        o.stop_after = -1;
        uint64_t want[STEPS];
        int64_t epoch[STEPS], index[STEPS];
        Loader *loader = loader_open(dataset, &o);
        for (int i = 0; i < STEPS; i++) {
            const Batch *batch = loader_next(loader);
            want[i] = hash_batch(batch);
            epoch[i] = batch->epoch;
            index[i] = batch->index;
        }
        loader_close(loader);
        if (tiny) assert_true(epoch[STEPS - 1] >= STEPS / 2 - 1);
        static const struct { int from, workers; } runs[] = {{0, 1}, {0, 8}, {3, 0}, {27, 8}, {54, 1}};
        for (int r = 0; r < 5; r++) {
            o.n_workers = runs[r].workers;
            o.start_epoch = epoch[runs[r].from];
            o.start_index = index[runs[r].from];
            Dataset *fresh = slm_dataset_of(stream, 16, sampling[c / 4], separate);
            loader = loader_open(fresh, &o);
            for (int i = runs[r].from; i < STEPS; i++) assert_true(hash_batch(loader_next(loader)) == want[i]);
            loader_close(loader);
            fresh->close(fresh);
        }
        dataset->close(dataset);
        slm_stream_close(stream);
    }
}

/* ---- threads ---- */

enum { FILLERS = 8, ROUNDS = 100, AT_ONCE = 4, PIECES = 5003 };

static struct {
    const Dataset *dataset;
    uint64_t want[ROUNDS + AT_ONCE]; /* of each epoch */
    pthread_barrier_t together;
    int wrong;
} race;

static uint64_t hash_epoch(int epoch) {
    Batch batch = slm_batch_filled(race.dataset, epoch, 0, (int)race.dataset->n_samples);
    uint64_t hash = checksum(0, slm_field(&batch, SLM_IDS), (size_t)batch.n_tokens * sizeof(int32_t));
    batch_close(&batch);
    return hash;
}

static void *fill_many(void *number) {
    for (int round = 0; round < ROUNDS; round++) {
        int epoch = round + (int)(intptr_t)number / 2;
        pthread_barrier_wait(&race.together);
        if (hash_epoch(epoch) != race.want[epoch]) __atomic_fetch_add(&race.wrong, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

/* Some threads ask for the same epoch in every round, and all together for more epochs than are kept. */
TEST(threads_share_the_orders_of_epochs) {
    int64_t rows[PIECES];
    pthread_t threads[FILLERS];
    for (int d = 0; d < PIECES; d++) rows[d] = 1;
    SlmStream *stream = slm_stream_of_rows(rows, PIECES);
    Dataset *dataset = slm_dataset_of(stream, 7, SLM_EPOCH, false);
    race.dataset = dataset;
    race.wrong = 0;
    for (int epoch = 0; epoch < ROUNDS + AT_ONCE; epoch++) race.want[epoch] = hash_epoch(epoch);
    pthread_barrier_init(&race.together, NULL, FILLERS);
    for (intptr_t i = 0; i < FILLERS; i++) thread_start(&threads[i], fill_many, (void *)i, "of a test");
    for (int i = 0; i < FILLERS; i++) pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&race.together);
    assert_int_equal(race.wrong, 0);
    dataset->close(dataset);
    slm_stream_close(stream);
}

TEST(filling_allocates_nothing) {
    SlmStream *stream = slm_stream_of_kind(3);
    Dataset *dataset = slm_dataset_of(stream, 16, SLM_EPOCH, false);
    LoaderOptions options = {.batch_size = 4, .shuffle = true, .stop_after = -1, .n_workers = 2};
    Loader *loader = loader_open(dataset, &options);
    loader_next(loader);
    int64_t before = allocation_count();
    for (int i = 0; i < 500; i++) loader_next(loader);
    assert_int_equal(allocation_count(), before);
    loader_close(loader);
    dataset->close(dataset);
    slm_stream_close(stream);
}

/* ---- counts ---- */

TEST(bytes_are_shared_among_the_rows_of_their_document) {
    const int32_t ids[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    const int64_t first[] = {0, 4, 4, 5, 8}, bytes[] = {10, 0, 3, 1}; /* the second has no rows */
    static const double want[] = {2, 3, 2, 3, 3, 0, 0, 1};
    SlmStream *stream = slm_stream_of(ids, 9, first, bytes, 4, 9, -1),
              *unknown = slm_stream_of(ids, 9, first, NULL, 4, 9, -1);
    for (int separate = 0; separate < 2; separate++) {
        Dataset *dataset = slm_dataset_of(stream, 1, SLM_EPOCH, separate);
        assert_int_equal(dataset->n_samples, 8);
        for (int32_t s = 0; s < 8; s++) {
            double counts[BATCH_MAX_COUNTS] = {0};
            Batch batch = slm_batch_filled(dataset, 3, s, 1);
            dataset->counts(dataset, s, counts);
            assert_true(counts[SLM_COUNT_TOKENS] == 1 && counts[SLM_COUNT_BYTES] == want[s]);
            assert_true(batch.counts[SLM_COUNT_BYTES] == want[slm_field(&batch, SLM_IDS)[0]]);
            batch_close(&batch);
        }
        dataset->close(dataset);
    }
    Dataset *dataset = slm_dataset_of(stream, 8, SLM_ORDER, false);
    Batch batch = slm_batch_filled(dataset, 0, 0, 1);
    assert_true(batch.counts[SLM_COUNT_BYTES] == 14);
    batch_close(&batch);
    dataset->close(dataset);
    dataset = slm_dataset_of(unknown, 3, SLM_ORDER, false);
    batch = slm_batch_filled(dataset, 0, 0, 3);
    assert_true(batch.counts[SLM_COUNT_BYTES] == 0 && batch.counts[SLM_COUNT_TOKENS] == 8);
    batch_close(&batch);
    dataset->close(dataset);
    slm_stream_close(stream);
    slm_stream_close(unknown);
}

static int ascending(const void *a, const void *b) {
    return (*(const int64_t *)a > *(const int64_t *)b) - (*(const int64_t *)a < *(const int64_t *)b);
}

/* Checks the largest batch against the sorted lengths of all samples: nothing is planned for that cannot be. */
static void expect_no_slack(const Dataset *dataset, int batch_size, int64_t budget, const Batch *largest,
                            int64_t longest) {
    int64_t n = dataset->n_samples, *lengths = xcalloc((size_t)n, sizeof *lengths), rows = 0, samples = 0, shortest = 0;
    int64_t most = batch_size > 0 && batch_size < n ? batch_size : n;
    for (int64_t i = 0; i < n; i++) lengths[i] = dataset->tokens(dataset, i);
    qsort(lengths, (size_t)n, sizeof *lengths, ascending);
    assert_int_equal(longest, lengths[n - 1]);
    for (int64_t i = n - most; i < n; i++) rows += lengths[i];
    if (budget && rows > budget) rows = budget > longest ? budget : longest;
    while (samples < most && (!budget || !samples || shortest + lengths[samples] <= budget))
        shortest += lengths[samples++];
    assert_int_equal(largest->n_sequences, samples);
    int64_t sequences = largest->fields[SLM_OFFSETS].dims[0] - 1, together = sequences + longest - 1;
    assert_int_equal(largest->n_tokens, rows > together ? rows : together);
    free(lengths);
}

static void expect_dominated(const Dataset *dataset, int batch_size, int64_t budget) {
    LoaderOptions options = {.batch_size = batch_size, .token_budget = budget, .shuffle = true, .stop_after = -1};
    Batch largest = slm_largest_batch(dataset, batch_size, budget);
    const int32_t *at = slm_field(&largest, SLM_OFFSETS);
    int64_t sequences = largest.fields[SLM_OFFSETS].dims[0] - 1, longest = 0;
    for (int64_t s = 0; s < sequences; s++) longest = at[s + 1] - at[s] > longest ? at[s + 1] - at[s] : longest;
    assert_int_equal(at[sequences], largest.n_tokens);
    for (options.bucket = false;; options.bucket = true) {
        Loader *loader = loader_open(dataset, &options);
        for (int64_t i = loader_epoch_batches(dataset, &options, 0); i > 0; i--) {
            const Batch *batch = loader_next(loader);
            const int32_t *offsets = slm_field(batch, SLM_OFFSETS);
            int64_t n = batch->fields[SLM_OFFSETS].dims[0] - 1;
            assert_true(batch->n_tokens <= largest.n_tokens && n <= sequences && batch->size <= largest.size);
            assert_true(batch->n_sequences <= largest.n_sequences);
            assert_true(batch->counts[SLM_COUNT_TOKENS] <= largest.counts[SLM_COUNT_TOKENS]);
            for (int64_t s = 0; s < n; s++) assert_true(offsets[s + 1] - offsets[s] <= longest);
        }
        loader_close(loader);
        if (options.bucket) break;
    }
    expect_no_slack(dataset, batch_size, budget, &largest, longest);
    batch_close(&largest);
}

TEST(the_largest_batch_dominates) {
    for (int which = 0; which < STREAM_KINDS; which++)
        for (int mode = 0; mode < 6; mode++) {
            SlmStream *stream = slm_stream_of_kind(which);
            Dataset *dataset = slm_dataset_of(stream, 16,
                                              mode % 3 == 0   ? SLM_EPOCH
                                              : mode % 3 == 1 ? SLM_RANDOM
                                                              : SLM_ORDER,
                                              mode / 3);
            for (int batch_size = 1; batch_size <= 64; batch_size *= 2) expect_dominated(dataset, batch_size, 0);
            for (int budget = 1; budget < 3000; budget += 1 + budget / 3) {
                expect_dominated(dataset, 0, budget);
                expect_dominated(dataset, 6, budget);
            }
            dataset->close(dataset);
            slm_stream_close(stream);
        }
}

/* ---- bad streams, names, checksums ---- */

TEST(short_streams_are_taken_or_refused_by_name) {
    const int32_t ids[] = {3, 4, 5, 6, 7};
    Error error;
    SlmStream *two = slm_stream_of(ids, 2, (const int64_t[]){0, 1}, NULL, 1, 9, -1),
              *five = slm_stream_of(ids, 5, (const int64_t[]){0, 4}, NULL, 1, 9, -1),
              *one = slm_stream_of(ids, 1, (const int64_t[]){0, 0}, NULL, 1, 9, -1);
    for (int mode = 0; mode < MODES; mode++) {
        Dataset *dataset = slm_dataset_of(two, 1024, modes[mode].sampling, modes[mode].separate);
        Batch batch = slm_batch_filled(dataset, 0, 0, 1);
        assert_int_equal(dataset->n_samples, 1);
        assert_int_equal(batch.n_tokens, 1);
        assert_int_equal(slm_field(&batch, SLM_IDS)[0], 3);
        assert_int_equal(slm_field(&batch, SLM_TARGETS)[0], 4);
        batch_close(&batch);
        dataset->close(dataset);
        assert_null(slm_dataset_open(one, &(SlmDatasetOptions){8, modes[mode].sampling, false, 0}, &error));
        assert_contains(error.text, "there are 1 tokens, and at least 2 are needed");
    }
    assert_null(slm_dataset_open(five, &(SlmDatasetOptions){5, SLM_RANDOM, false, 0}, &error));
    assert_contains(error.text, "there are 5 tokens, and random places for a context of 5 need at least 6");
    Dataset *dataset = slm_dataset_of(five, 4, SLM_RANDOM, false); /* the only place is the first */
    Batch batch = slm_batch_filled(dataset, 7, 0, 1);
    assert_memory_equal(slm_field(&batch, SLM_IDS), ids, 4 * sizeof *ids);
    batch_close(&batch);
    dataset->close(dataset);
    slm_stream_close(two);
    slm_stream_close(five);
    slm_stream_close(one);
}

/* Data sets of equal streams have equal hashes; any other id, or another beginning of a document, is noticed. */
TEST(the_checksum_covers_every_id) {
    enum { N = 40 };
    for (int c = 0; c < 6; c++) {
        SlmDatasetOptions o = {7, c % 3 == 0 ? SLM_EPOCH : c % 3 == 1 ? SLM_RANDOM : SLM_ORDER, c / 3, 1};
        int64_t first[] = {0, 10, 21, N - 1};
        uint64_t seen[N + 2];
        for (int change = 0; change < N + 2; change++) {
            int32_t ids[N];
            for (int32_t i = 0; i < N; i++) ids[i] = i == change ? 55 : i;
            first[1] = change == N ? 11 : 10;
            SlmStream *stream = slm_stream_of(ids, N, first, NULL, 3, 60, -1);
            Dataset *dataset = slm_dataset_open(stream, &o, NULL);
            seen[change] = (uint64_t)dataset_content_hash(dataset);
            o.seed++; /* makes no difference */
            Dataset *again = slm_dataset_open(stream, &o, NULL);
            assert_true((uint64_t)dataset_content_hash(again) == seen[change]);
            assert_true(dataset_hash(again) == dataset_hash(dataset));
            for (int before = 0; before < change; before++) assert_true(seen[before] != seen[change]);
            again->close(again);
            dataset->close(dataset);
            slm_stream_close(stream);
        }
    }
}

/* The checksum is made of blocks of 4096 ids; here the last id is alone in one. */
TEST(the_checksum_covers_the_last_id) {
    static int32_t ids[4097];
    int64_t hash[2];
    for (int change = 0; change < 2; change++) {
        ids[4096] = change;
        SlmStream *stream = slm_stream_of(ids, 4097, (const int64_t[]){0, 4096}, NULL, 1, 9, -1);
        Dataset *dataset = slm_dataset_of(stream, 4096, SLM_ORDER, false);
        hash[change] = dataset_content_hash(dataset);
        dataset->close(dataset);
        slm_stream_close(stream);
    }
    assert_true(hash[0] != hash[1]);
}

TEST(samples_are_named_by_their_documents) {
    SlmStream *stream = slm_stream_of_rows((const int64_t[]){20, 3, 4}, 3);
    Dataset *pieces = slm_dataset_of(stream, 8, SLM_EPOCH, true), *order = slm_dataset_of(stream, 8, SLM_ORDER, false),
            *shuffled = slm_dataset_of(stream, 8, SLM_EPOCH, false),
            *random = slm_dataset_of(stream, 8, SLM_RANDOM, false);
    assert_string_equal(pieces->sample_id(pieces, 1), "document 0, tokens 8..15");
    assert_string_equal(pieces->sample_id(pieces, 4), "document 2, tokens 0..3");
    assert_string_equal(order->sample_id(order, 2), "document 0, token 16 to document 2, 8 tokens");
    assert_string_equal(shuffled->sample_id(shuffled, 3), "shuffled sample 3");
    assert_string_equal(random->sample_id(random, 2), "random sample 2");
    pieces->close(pieces);
    order->close(order);
    shuffled->close(shuffled);
    random->close(random);
    slm_stream_close(stream);
}

TEST(synthetic_data_are_full_contexts) {
    Dataset *dataset = slm_dataset_synthetic(33, 50, 70);
    Batch batch = slm_batch_filled(dataset, 0, 0, 50);
    int64_t counts[70] = {0};
    assert_int_equal(dataset->n_samples, 50);
    assert_int_equal(batch.n_tokens, 50 * 33);
    for (int32_t r = 0; r < batch.n_tokens; r++) {
        assert_in_range(slm_field(&batch, SLM_IDS)[r], 0, 69);
        counts[slm_field(&batch, SLM_IDS)[r]]++;
    }
    expect_uniform(counts, 70, batch.n_tokens);
    batch_close(&batch);
    dataset->close(dataset);
}
