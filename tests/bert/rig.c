#include "tests/bert/rig.h"

#include "kernels/philox.h"

BertConfig bert_config_small(int classes, float dropout) {
    return (BertConfig){.vocabulary = 53,
                        .positions = 18,
                        .d_model = 32,
                        .n_layers = 2,
                        .n_heads = 4,
                        .d_ff = 64,
                        .dropout = dropout,
                        .head_dropout = dropout,
                        .classes = classes};
}

static void push(Batch *batch, int field, const int32_t *numbers, int64_t n) {
    memcpy(batch_push_1d(batch, field, DTYPE_I32, n).data, numbers, (size_t)n * sizeof *numbers);
}

/* Packs what both tasks have. */
static Batch batch_of(const int32_t *ids, const int32_t *offsets, int n, const int32_t *rows, int n_rows, int classes) {
    int64_t tokens = offsets[n];
    Batch batch = batch_open((size_t)(2 * tokens + n + (2 + classes) * n_rows) * 4 + 1024, n);
    batch_clear(&batch);
    push(&batch, BERT_OFFSETS, offsets, n + 1);
    push(&batch, BERT_IDS, ids, tokens);
    int32_t *positions = batch_push_1d(&batch, BERT_POSITIONS, DTYPE_I32, tokens).data;
    for (int s = 0; s < n; s++)
        for (int32_t row = offsets[s]; row < offsets[s + 1]; row++) positions[row] = row - offsets[s] + 2;
    push(&batch, BERT_ROWS, rows, n_rows);
    batch.n_sequences = n;
    batch.n_tokens = tokens;
    batch.counts[BERT_COUNT_ROWS] = batch.counts[BERT_COUNT_WEIGHTS] = n_rows;
    return batch;
}

Batch bert_batch_of_classes(const int32_t *ids, const int32_t *offsets, int n, const int32_t *labels,
                            const BertLoss *loss) {
    int classes = loss->classes;
    Batch batch = batch_of(ids, offsets, n, offsets, n, classes);
    if (!labels) return batch;
    push(&batch, BERT_LABELS, labels, n);
    float *targets = batch_push_2d(&batch, BERT_TARGETS, DTYPE_F32, n, classes).data;
    batch.counts[BERT_COUNT_WEIGHTS] = 0;
    for (int s = 0; s < n; s++) {
        for (int c = 0; c < classes; c++) {
            float weight = loss->weights ? loss->weights[c] : 1;
            bool own = c == labels[s];
            targets[s * classes + c] = weight * (loss->smoothing / (float)classes + (own ? 1 - loss->smoothing : 0));
            if (own) batch.counts[BERT_COUNT_WEIGHTS] += (double)weight;
        }
    }
    return batch;
}

Batch bert_batch_of_masks(const int32_t *ids, const int32_t *offsets, int n, const int32_t *rows, const int32_t *labels,
                          int n_rows) {
    Batch batch = batch_of(ids, offsets, n, rows, n_rows, 0);
    push(&batch, BERT_LABELS, labels, n_rows);
    return batch;
}

static int32_t random_below(int64_t place, int end) {
    return (int32_t)(philox_bits(1, PURPOSE_TEST, 0, (uint64_t)place) % (uint32_t)end);
}

Batch bert_batch_random(int vocabulary, int classes, int64_t first, const int32_t *lengths, int n) {
    int32_t *offsets = xcalloc((size_t)n + 1, sizeof *offsets);
    for (int s = 0; s < n; s++) offsets[s + 1] = offsets[s] + lengths[s];
    int64_t tokens = offsets[n];
    int32_t *ids = xcalloc((size_t)tokens, sizeof *ids), *rows = xcalloc((size_t)tokens, sizeof *rows),
            *labels = xcalloc((size_t)tokens, sizeof *labels);
    int n_rows = 0;
    for (int64_t i = 0; i < tokens; i++) {
        ids[i] = random_below(first + i, vocabulary);
        labels[i] = random_below((1 << 20) + first + i, classes ? classes : vocabulary);
        if (i % 3 == 0) rows[n_rows++] = (int32_t)i;
    }
    Batch batch = classes ? bert_batch_of_classes(ids, offsets, n, labels, &(BertLoss){.classes = classes})
                          : bert_batch_of_masks(ids, offsets, n, rows, labels, n_rows);
    int32_t *owned[] = {offsets, ids, rows, labels};
    for (int i = 0; i < 4; i++) free(owned[i]);
    return batch;
}
