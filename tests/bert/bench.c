/* The benchmarks of the encoder: a step of fine-tuning PhoBERT base, without dropout. "bert-real" has comments of the
 * lengths of a public data set: comment i of B is as long as a share of (i + 1/2) / B of all is at most. Its optimizer
 * has rows of the tokens in that data set only, as --compact-vocabulary has them by default. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/bert/batch.h"
#include "data/bert/lengths.h"
#include "model/bert.h"
#include "tests/bench/bench.h"

static const BertConfig phobert = {
    .vocabulary = 64001, .positions = 258, .d_model = 768, .n_layers = 12, .n_heads = 12, .d_ff = 3072, .classes = 2};
enum { MAX_LENGTH = 192 };

static Batch bert_batch(const BertConfig *config, const int32_t *offsets, int b) {
    int64_t n = offsets[b];
    Batch batch = batch_open((size_t)n * 8 + (size_t)b * 24 + 4096, b);
    memcpy(batch_push_1d(&batch, BERT_OFFSETS, DTYPE_I32, b + 1).data, offsets, (size_t)(b + 1) * 4);
    int32_t *ids = batch_push_1d(&batch, BERT_IDS, DTYPE_I32, n).data;
    int32_t *positions = batch_push_1d(&batch, BERT_POSITIONS, DTYPE_I32, n).data;
    memcpy(batch_push_1d(&batch, BERT_ROWS, DTYPE_I32, b).data, offsets, (size_t)b * 4);
    int32_t *labels = batch_push_1d(&batch, BERT_LABELS, DTYPE_I32, b).data;
    float *targets = batch_push_2d(&batch, BERT_TARGETS, DTYPE_F32, b, config->classes).data;
    for (int s = 0; s < b; s++) {
        labels[s] = s % config->classes;
        for (int c = 0; c < config->classes; c++) targets[s * config->classes + c] = c == labels[s];
        for (int32_t i = offsets[s]; i < offsets[s + 1]; i++) {
            ids[i] = (int32_t)((uint64_t)i * 2654435761u % (uint64_t)config->vocabulary);
            positions[i] = BERT_FIRST_POSITION + i - offsets[s];
        }
    }
    batch.n_sequences = b;
    batch.n_tokens = n;
    batch.counts[BERT_COUNT_WEIGHTS] = batch.counts[BERT_COUNT_ROWS] = b;
    return batch;
}

static Model *open_case(const char *name, char **arguments, int n_arguments, Batch *batch) {
    int b = atoi(arguments[0]);
    bool real = !strcmp(name, "bert-real");
    BertConfig config = phobert;
    (void)n_arguments;
    if (real) config.vocabulary = BERT_SYNTHETIC_IDS;
    int32_t *offsets = xcalloc((size_t)b + 1, sizeof *offsets);
    for (int i = 0; i < b; i++) {
        double length = real ? bert_length_quantile((i + 0.5) / b) : atoi(arguments[1]);
        offsets[i + 1] = offsets[i] + (int32_t)lround(fmin(length, MAX_LENGTH));
    }
    *batch = bert_batch(&config, offsets, b);
    free(offsets);
    return bert_open(&config);
}

__attribute__((constructor)) static void register_cases(void) {
    static const BenchCase cases[] = {
        {"bert", "B T: PhoBERT base, two classes, B comments of T tokens", 2, open_case},
        {"bert-real", "B: the same, comments of real lengths: 16 tokens on average", 1, open_case},
    };
    for (int i = 0; i < 2; i++) bench_register(&cases[i]);
}
