/* The benchmark of the encoder: fine-tuning of PhoBERT base for two classes. */
#include <stdlib.h>

#include "data/bert/dataset.h"
#include "data/bert/lengths.h"
#include "model/bert.h"
#include "tests/bench/bench.h"

enum { MAX_LENGTH = 192, REAL_BATCHES = 64 };

static void open_case(const char *name, const char *const *arguments, TrainSpec *spec) {
    BertConfig config = {.positions = 258,
                         .d_model = 768,
                         .n_layers = 12,
                         .n_heads = 12,
                         .d_ff = 3072,
                         .classes = 2,
                         .vocabulary = atoi(arguments[0]),
                         .dropout = 0.1f,
                         .head_dropout = 0.1f};
    int length = atoi(arguments[1]);
    int64_t n = spec->options->batch_size * (length ? BENCH_BATCHES : REAL_BATCHES);
    (void)name;
    TokenizedTexts *texts = xmalloc(sizeof *texts); /* the data set reads them: they stay */
    *texts = bert_synthetic_texts(n, config.vocabulary, length, MAX_LENGTH);
    OWNED int32_t *labels = xcalloc((size_t)n, sizeof *labels);
    for (int64_t i = 0; i < n; i++) labels[i] = (int32_t)(i % config.classes);
    spec->train = bert_labelled_open(texts, labels, &(BertLoss){.classes = config.classes});
    spec->model = bert_open(&config);
}

__attribute__((constructor)) static void register_cases(void) {
    static const BenchCase bert = {
        "bert",   "V T: PhoBERT base with V token ids, texts of T tokens; 0: of real lengths, 16 on average",
        2,        32,
        1,        bert_largest_batch,
        open_case};
    bench_register(&bert);
}
