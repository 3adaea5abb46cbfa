/* Batches of labelled texts, the largest batch, and synthetic texts. */
#include "data/bert/dataset.h"
#include "data/bert/lengths.h"
#include "data/loader.h"
#include "tests/bert/texts_rig.h"

static const void *field(const Batch *batch, int which, int64_t n) {
    assert_int_equal(batch->fields[which].dims[0], n);
    return batch->fields[which].data;
}

static Batch filled(const Dataset *dataset, const int32_t *samples, int n) {
    Batch batch = batch_open(dataset->batch_bytes(dataset, samples, n), n);
    Error error;
    assert_true(dataset->fill(dataset, &batch, samples, n, &error));
    return batch;
}

TEST(a_batch_has_no_padding) {
    TokenizedTexts t = texts_of_lengths((const int[]){4, 2, 7, 3}, 4);
    const int32_t labels[] = {0, 1, 1, 2}, samples[] = {2, 0, 3};
    const float weights[] = {0.5f, 2, 1};
    Dataset *dataset = bert_labelled_open(&t, labels, &(BertLoss){3, weights, 0});
    Batch b = filled(dataset, samples, 3);
    assert_int_equal(b.n_sequences, 3);
    assert_int_equal(b.n_tokens, 14);
    assert_memory_equal(field(&b, BERT_OFFSETS, 4), ((int32_t[]){0, 7, 11, 14}), 16);
    const int32_t *ids = field(&b, BERT_IDS, 14);
    assert_memory_equal(ids, t.ids + t.first[2], 28);
    assert_memory_equal(ids + 7, t.ids, 16);
    assert_memory_equal(field(&b, BERT_POSITIONS, 14), ((int32_t[]){2, 3, 4, 5, 6, 7, 8, 2, 3, 4, 5, 2, 3, 4}), 56);
    assert_memory_equal(field(&b, BERT_ROWS, 3), ((int32_t[]){0, 7, 11}), 12);
    assert_memory_equal(field(&b, BERT_LABELS, 3), ((int32_t[]){1, 0, 2}), 12);
    assert_memory_equal(field(&b, BERT_TARGETS, 3), ((float[]){0, 2, 0, 0.5f, 0, 0, 0, 0, 1}), 36);
    assert_true(b.counts[BERT_COUNT_WEIGHTS] == 3.5 && b.counts[BERT_COUNT_ROWS] == 3);
    assert_int_equal(b.n_fields, BERT_FIELDS);
    assert_string_equal(dataset->sample_id(dataset, 3), "text 3");
    batch_close(&b);
    uint64_t before = dataset->content(dataset, 3), other = dataset->content(dataset, 0);
    dataset->close(dataset);
    dataset = bert_labelled_open(&t, (const int32_t[]){0, 1, 1, 1}, &(BertLoss){3, weights, 0});
    assert_true(before != dataset->content(dataset, 3) && other == dataset->content(dataset, 0));
    t.ids[1]++;
    assert_true(other != dataset->content(dataset, 0));
    dataset->close(dataset);
    dataset = bert_labelled_open(&t, NULL, &(BertLoss){.classes = 3});
    b = filled(dataset, samples, 3);
    assert_null(b.fields[BERT_LABELS].data);
    assert_null(b.fields[BERT_TARGETS].data);
    assert_int_equal(b.n_fields, BERT_FIELDS);
    assert_true(b.counts[BERT_COUNT_WEIGHTS] == 3);
    batch_close(&b);
    dataset->close(dataset);
    texts_free(&t);
}

/* The weighted loss of logits, as PyTorch's cross_entropy(weight=..., label_smoothing=...) defines it. */
static double loss_of(const BertLoss *loss) {
    static const double logits[3][2] = {{0.3, -0.2}, {1, 2}, {-0.5, 0.5}};
    TokenizedTexts t = texts_of_lengths((const int[]){2, 3, 4}, 3);
    Dataset *dataset = bert_labelled_open(&t, (const int32_t[]){0, 1, 0}, loss);
    Batch b = filled(dataset, (const int32_t[]){0, 1, 2}, 3);
    const float *targets = field(&b, BERT_TARGETS, 3);
    double sum = 0, weights = b.counts[BERT_COUNT_WEIGHTS];
    for (int i = 0; i < 3; i++)
        for (int c = 0; c < 2; c++)
            sum += (double)targets[2 * i + c] * (log(exp(logits[i][0]) + exp(logits[i][1])) - logits[i][c]);
    batch_close(&b);
    dataset->close(dataset);
    texts_free(&t);
    return sum / weights;
}

TEST(weights_and_smoothing_are_those_of_pytorch) {
    const float weights[] = {0.6046464850f, 2.8889956752f};
    assert_near(loss_of(&(BertLoss){2, weights, 0}), 0.484524122, 1e-7);
    assert_near(loss_of(&(BertLoss){2, NULL, 0}), 0.700200120, 1e-7);
    assert_near(loss_of(&(BertLoss){2, weights, 0.1f}), 0.515359617, 1e-7);
    assert_near(loss_of(&(BertLoss){2, NULL, 0.1f}), 0.708533453, 1e-7);
}

/* ---- the largest batch ---- */

static bool dominates(const Batch *largest, const Batch *batch) {
    bool good = largest->n_tokens >= batch->n_tokens && largest->n_sequences >= batch->n_sequences;
    for (int f = 0; f < BERT_FIELDS; f++)
        good = good && (!batch->fields[f].data || largest->fields[f].dims[0] >= batch->fields[f].dims[0]);
    return good;
}

static void check_largest(const Dataset *dataset, int batch_size, int64_t budget) {
    Batch largest = bert_largest_batch(dataset, batch_size, budget);
    LoaderOptions options = {
        .batch_size = batch_size, .token_budget = budget, .bucket = true, .shuffle = true, .seed = 1};
    options.one_epoch = true;
    for (int bucket = 0; bucket < 2; bucket++) {
        options.bucket = bucket;
        Loader *loader = loader_open(dataset, &options);
        for (const Batch *b; (b = loader_next(loader));)
            if (!dominates(&largest, b)) fail_msg("batch size %d, budget %lld", batch_size, (long long)budget);
        loader_close(loader);
    }
    const int32_t *offsets = largest.fields[BERT_OFFSETS].data, *rows = largest.fields[BERT_ROWS].data;
    assert_int_equal(offsets[largest.n_sequences], largest.n_tokens);
    for (int64_t i = 0; i < largest.fields[BERT_ROWS].dims[0]; i++)
        assert_true(rows[i] >= 0 && rows[i] < largest.n_tokens && (!i || rows[i] > rows[i - 1]));
    batch_close(&largest);
}

TEST(the_largest_batch_dominates_all) {
    static const int batch_sizes[] = {1, 2, 5, 32, 100, 1000};
    static const int64_t budgets[] = {1, 50, 192, 500, 4096};
    enum { N = 300, VOCABULARY = 500 };
    TokenizedTexts texts = bert_synthetic_texts(N, VOCABULARY, 0, 192);
    BertMasking masking = bert_masking_synthetic(0.15, VOCABULARY);
    int32_t labels[N];
    Error error;
    for (int i = 0; i < N; i++) labels[i] = i % 3;
    for (int masked = 0; masked < 2; masked++) {
        Dataset *dataset = masked ? bert_masked_open(&texts, &masking, false, &error)
                                  : bert_labelled_open(&texts, labels, &(BertLoss){.classes = 3});
        assert_non_null(dataset);
        for (int i = 0; i < 6; i++) check_largest(dataset, batch_sizes[i], 0);
        for (int i = 0; i < 5; i++) check_largest(dataset, 0, budgets[i]);
        for (int i = 0; i < 5; i++) check_largest(dataset, 8, budgets[i]);
        dataset->close(dataset);
    }
    bert_masking_close(&masking);
    texts_free(&texts);
}

/* ---- synthetic texts ---- */

TEST(synthetic_texts_are_as_long_as_real_ones) {
    enum { N = 24048, VOCABULARY = 64001, MAX_LEN = 192 };
    static const double points[][2] = {{0.5, 12}, {0.9, 30}, {0.95, 42}, {0.99, 76}, {0.999, 134}};
    for (size_t i = 0; i < sizeof points / sizeof *points; i++)
        assert_near(bert_length_quantile(points[i][0]), points[i][1], 1e-9);
    double mean = 0;
    for (int i = 0; i < N; i++) mean += fmin(MAX_LEN, round(bert_length_quantile((i + 0.5) / N))) / N;
    assert_near(mean, 16.17, 0.05); /* the data set's, of tokens cut to 192 */
    TokenizedTexts t = bert_synthetic_texts(N, VOCABULARY, 0, MAX_LEN);
    int64_t tokens = 0, below[5] = {0}, longest = 0, different = 0;
    for (int64_t i = 0; i < N; i++) {
        int64_t n = t.first[i + 1] - t.first[i];
        tokens += n;
        longest = n > longest ? n : longest;
        for (int k = 0; k < 5; k++) below[k] += (double)n <= points[k][1];
    }
    assert_int_equal(longest, MAX_LEN);
    assert_near((double)tokens / N, 16.2, 0.5);
    for (int k = 0; k < 5; k++) assert_near((double)below[k] / N, points[k][0], 0.03);
    static uint8_t used[VOCABULARY];
    texts_mark_used(&t, used);
    for (int id = 0; id < VOCABULARY; id++) different += used[id];
    assert_int_equal(different, 10416); /* the data set's, too */
    assert_int_equal(used[bert_synthetic_specials(VOCABULARY).mask], 0);
    texts_free(&t);
    t = bert_synthetic_texts(3, 6, 5, MAX_LEN);
    for (int i = 0; i < 3; i++) assert_int_equal(t.first[i + 1], 5 * (i + 1));
    for (int i = 0; i < 15; i++) assert_int_equal(t.ids[i], i % 5 == 0 ? 0 : i % 5 == 4 ? 2 : 4);
    texts_free(&t);
}
