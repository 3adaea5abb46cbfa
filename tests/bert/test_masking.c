/* Which tokens are masked: how many, how often, whole words, and always the same ones. */
#include "data/bert/dataset.h"
#include "data/loader.h"
#include "tests/bert/texts_rig.h"

static Error error;

enum { VOCABULARY = 1000, FIRST = 5, MASK = VOCABULARY - 1 };

/* Returns rules for a vocabulary in which ids with a remainder of 1 or 2 by 4 are continued by the next piece. */
static BertMasking masking_of(double share, bool whole_words) {
    BertMasking m = {.share = share,
                     .whole_words = whole_words,
                     .seed = 7,
                     .specials = {.begin = 0, .pad = 1, .end = 2, .unknown = 3, .mask = MASK},
                     .vocabulary = VOCABULARY,
                     .ordinary = xmalloc(VOCABULARY * sizeof *m.ordinary),
                     .continues = xcalloc(VOCABULARY, 1)};
    for (int id = FIRST; id < MASK; id++) {
        m.ordinary[m.n_ordinary++] = id;
        m.continues[id] = id % 4 == 1 || id % 4 == 2;
    }
    return m;
}

TEST(the_number_is_the_rounded_share_of_the_pieces) {
    BertMasking m = masking_of(0.15, false);
    int32_t ids[300];
    static const int want[][2] = {{0, 0}, {1, 1}, {3, 1}, {9, 1}, {10, 2}, {16, 2}, {17, 3}, {100, 15}, {254, 38}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        int n = want[i][0];
        for (int k = 0; k < n; k++) ids[1 + k] = FIRST + k;
        ids[0] = 0;
        ids[n + 1] = 2;
        assert_int_equal(bert_masking_count(&m, ids, n + 2), want[i][1]);
    }
    int32_t unknown[] = {0, 3, 3, MASK, 1, 2};
    assert_int_equal(bert_masking_count(&m, unknown, 6), 0);
    bert_masking_close(&m);
}

/* Applies a masking to a text of 60 pieces with unknown ones, and checks what always holds. Returns the mean place. */
static double check_once(const BertMasking *m, int64_t epoch, int64_t sample, int *kinds) {
    enum { N = 62 };
    int32_t ids[N], masked[N], rows[N], labels[N], scratch[N];
    for (int i = 0; i < N; i++) ids[i] = i % 13 == 5 ? 3 : FIRST + (i * 31 + (int)sample) % 900;
    ids[0] = 0;
    ids[N - 1] = 2;
    memcpy(masked, ids, sizeof ids);
    int want = bert_masking_count(m, ids, N),
        n = bert_masking_apply(m, epoch, sample, masked, N, scratch, rows, labels);
    double sum = 0;
    assert_int_equal(n, want);
    for (int k = 0, i = 0; i < N; i++) {
        if (k == n || rows[k] != i) {
            assert_int_equal(masked[i], ids[i]);
            continue;
        }
        assert_int_equal(labels[k], ids[i]);
        assert_true(ids[i] >= FIRST && (!k || rows[k] > rows[k - 1]));
        assert_true(masked[i] >= FIRST && masked[i] <= MASK);
        kinds[masked[i] == MASK ? 0 : masked[i] != ids[i] ? 1 : 2]++;
        sum += i;
        k++;
        assert_true(k <= n);
    }
    return sum / n;
}

/* Binomial: 5 standard deviations of n draws. */
static void assert_share(int count, int n, double share) {
    assert_near(count, n * share, 5 * sqrt(n * share * (1 - share)));
}

TEST(a_tenth_is_random_and_a_tenth_stays) {
    enum { TIMES = 4000 };
    for (int whole = 0; whole < 2; whole++) {
        BertMasking m = masking_of(0.15, whole);
        int kinds[3] = {0};
        double mean = 0;
        for (int i = 0; i < TIMES; i++) mean += check_once(&m, i % 10, i / 10, kinds) / TIMES;
        int n = kinds[0] + kinds[1] + kinds[2];
        assert_int_equal(n, TIMES * 8); /* 0.15 of 55 pieces */
        assert_share(kinds[0], n, 0.8);
        assert_share(kinds[1], n, 0.1 * (1 - 1.0 / (MASK - FIRST)));
        assert_near(mean, 30.5, 5 * 17.3 / sqrt(TIMES * 8) + 0.5);
        bert_masking_close(&m);
    }
}

TEST(every_piece_is_chosen_equally_often) {
    enum { N = 12, TIMES = 20000 };
    BertMasking m = masking_of(0.25, false);
    int times[N] = {0}, together = 0;
    for (int e = 0; e < TIMES; e++) {
        int32_t ids[N] = {0, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 2}, rows[N], labels[N], scratch[N];
        int n = bert_masking_apply(&m, e, 3, ids, N, scratch, rows, labels);
        assert_int_equal(n, 3);
        for (int k = 0; k < n; k++) times[rows[k]]++;
        together += rows[0] == 1 && rows[1] == 2;
    }
    for (int i = 1; i < N - 1; i++) assert_share(times[i], TIMES, 0.3);
    assert_share(together, TIMES, 0.3 * 2 / 9);
    bert_masking_close(&m);
}

TEST(words_stay_together_but_for_one) {
    enum { N = 33, TIMES = 500 };
    BertMasking m = masking_of(0.3, true);
    int parted = 0;
    for (int e = 0; e < TIMES; e++) {
        int32_t ids[N] = {0}, copy[N], rows[N], labels[N], scratch[N];
        for (int i = 1; i < N - 1; i++) ids[i] = 4 + i; /* words of 3 pieces and 1: 5 6 7 | 8 | 9 10 11 | 12 | ... */
        ids[N - 1] = 2;
        memcpy(copy, ids, sizeof ids);
        int n = bert_masking_apply(&m, e, 0, copy, N, scratch, rows, labels), broken = 0;
        bool chosen[N] = {false};
        assert_int_equal(n, 9);
        for (int k = 0; k < n; k++) chosen[rows[k]] = true;
        for (int i = 1; i + 2 < N; i += 4) {
            int pieces = chosen[i] + chosen[i + 1] + chosen[i + 2];
            broken += pieces == 1 || pieces == 2;
            assert_true(chosen[i] || !pieces); /* of the last word its first pieces */
            assert_true(chosen[i + 1] || !chosen[i + 2]);
        }
        assert_true(broken <= 1);
        parted += broken;
    }
    assert_true(parted > 0 && parted < TIMES);
    bert_masking_close(&m);
}

/* ---- data sets ---- */

static TokenizedTexts some_texts(void) {
    static const int lengths[] = {5, 2, 40, 3, 17, 2, 9, 60, 4, 4, 22, 11, 3, 30};
    TokenizedTexts t = texts_of_lengths(lengths, sizeof lengths / sizeof *lengths);
    t.ids[t.first[3] + 1] = ID_UNKNOWN; /* the only piece of its text */
    return t;
}

static uint64_t hash_of_epochs(const Dataset *dataset, int n_workers, bool check) {
    LoaderOptions options = {
        .batch_size = 3, .shuffle = true, .bucket = true, .seed = 4, .n_workers = n_workers, .stop_after = 8};
    Loader *loader = loader_open(dataset, &options);
    uint64_t hash = HASH_START;
    for (const Batch *b; (b = loader_next(loader));) {
        hash = hash_bytes(hash, b->buffer, b->size);
        if (!check) continue;
        const int32_t *offsets = b->fields[BERT_OFFSETS].data, *rows = b->fields[BERT_ROWS].data;
        const int64_t n_rows = b->fields[BERT_ROWS].dims[0];
        double counts[BATCH_MAX_COUNTS] = {0};
        int64_t k = 0;
        for (int s = 0; s < b->n_sequences; s++) {
            double before = counts[BERT_COUNT_ROWS];
            dataset->counts(dataset, b->samples[s], counts);
            for (double left = counts[BERT_COUNT_ROWS] - before; left > 0; left--, k++)
                assert_true(rows[k] > offsets[s] && rows[k] < offsets[s + 1] - 1);
        }
        assert_int_equal(k, n_rows);
        assert_int_equal(b->fields[BERT_LABELS].dims[0], n_rows);
        assert_null(b->fields[BERT_TARGETS].data);
        for (int c = 0; c < BERT_COUNTS; c++) assert_true(counts[c] == b->counts[c] && counts[c] == (double)n_rows);
    }
    loader_close(loader);
    return hash;
}

TEST(masks_do_not_depend_on_the_workers) {
    TokenizedTexts t = some_texts();
    BertMasking m = masking_of(0.15, true);
    Dataset *dataset = bert_masked_open(&t, &m, false, &error);
    assert_int_equal(dataset->n_samples, 11);
    static const int left_out[] = {1, 3, 5};
    for (int i = 0; i < 11; i++)
        for (int k = 0; k < 3; k++) assert_int_not_equal(bert_masked_text(dataset, i), left_out[k]);
    uint64_t hash = hash_of_epochs(dataset, 0, true);
    for (int workers = 1; workers < 4; workers++) assert_true(hash == hash_of_epochs(dataset, workers, false));
    dataset->close(dataset);
    m.seed++;
    dataset = bert_masked_open(&t, &m, false, &error);
    assert_true(hash != hash_of_epochs(dataset, 0, false));
    dataset->close(dataset);
    for (int64_t i = 0; i < t.first[t.n]; i++) t.ids[i] = ID_UNKNOWN;
    assert_null(bert_masked_open(&t, &m, false, &error));
    assert_contains(error.text, "none of the 14 texts");
    bert_masking_close(&m);
    texts_free(&t);
}

TEST(validation_masks_the_same_in_every_epoch) {
    TokenizedTexts t = some_texts();
    BertMasking m = masking_of(0.15, false);
    for (int fixed = 0; fixed < 2; fixed++) {
        Dataset *dataset = bert_masked_open(&t, &m, fixed, &error);
        const int32_t samples[] = {1, 4, 7};
        Batch batches[2];
        for (int e = 0; e < 2; e++) {
            batches[e] = batch_open(dataset->batch_bytes(dataset, samples, 3), 3);
            batches[e].epoch = e;
            assert_true(dataset->fill(dataset, &batches[e], samples, 3, &error));
        }
        assert_int_equal(batches[0].size, batches[1].size);
        assert_int_equal(!memcmp(batches[0].buffer, batches[1].buffer, batches[0].size), fixed);
        for (int e = 0; e < 2; e++) batch_close(&batches[e]);
        dataset->close(dataset);
    }
    bert_masking_close(&m);
    texts_free(&t);
}

TEST(a_tokenizer_says_what_may_be_masked) {
    Tokenizer *tokenizer = letters_open();
    BertMasking m;
    assert_false(bert_masking_open(tokenizer, 0.15, true, 1, &m, &error));
    assert_contains(error.text, "do not say which belong to one word");
    assert_true(bert_masking_open(tokenizer, 0.15, false, 1, &m, &error));
    assert_int_equal(m.specials.mask, ID_MASK);
    assert_int_equal(m.n_ordinary, 27);
    for (int i = 0; i < m.n_ordinary; i++) assert_int_equal(m.ordinary[i], ID_A + i);
    bert_masking_close(&m);
    tokenizer_close(tokenizer);
}
