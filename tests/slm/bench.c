/* The benchmarks of the text GPT: a training step on full contexts. "gpt2" is GPT-2 124M as llm.c trains it. */
#include <stdlib.h>
#include <string.h>

#include "data/slm/batch.h"
#include "model/slm.h"
#include "tests/bench/bench.h"

static Batch slm_batch(int b, int t, int vocabulary) {
    int64_t n = (int64_t)b * t;
    Batch batch = batch_open((size_t)n * 12 + (size_t)b * 4 + 4096, b);
    int32_t *offsets = batch_push_1d(&batch, SLM_OFFSETS, DTYPE_I32, b + 1).data;
    int32_t *ids = batch_push_1d(&batch, SLM_IDS, DTYPE_I32, n).data;
    int32_t *positions = batch_push_1d(&batch, SLM_POSITIONS, DTYPE_I32, n).data;
    int32_t *targets = batch_push_1d(&batch, SLM_TARGETS, DTYPE_I32, n).data;
    for (int64_t i = 0; i < n; i++) {
        ids[i] = (int32_t)((uint64_t)i * 2654435761u % (uint64_t)vocabulary);
        targets[i] = (int32_t)((uint64_t)(i + 7) * 2246822519u % (uint64_t)vocabulary);
        positions[i] = (int32_t)(i % t);
    }
    for (int i = 0; i <= b; i++) offsets[i] = i * t;
    batch.n_sequences = b;
    batch.n_tokens = n;
    batch.counts[SLM_COUNT_TOKENS] = batch.counts[SLM_COUNT_BYTES] = (double)n;
    return batch;
}

static Model *open_case(const char *name, char **arguments, int n_arguments, Batch *batch) {
    static const struct {
        const char *name;
        SlmConfig config;
    } cases[] = {
        {"gpt2",
         {.vocabulary = 50257, .d_model = 768, .n_layers = 12, .n_heads = 12, .biases = true, .scaled_init = true}},
        {"slm", {.vocabulary = 30000, .d_model = 768, .n_layers = 12, .n_heads = 12, .gelu = GELU_ERF}},
        {"slm-regular", {.vocabulary = 30000, .d_model = 1024, .n_layers = 24, .n_heads = 16, .gelu = GELU_ERF}},
        {"slm-small", {.vocabulary = 4096, .d_model = 256, .n_layers = 4, .n_heads = 4, .gelu = GELU_ERF}},
    };
    int c = 0;
    (void)n_arguments;
    while (strcmp(cases[c].name, name)) c++;
    SlmConfig config = cases[c].config;
    config.context = atoi(arguments[1]);
    *batch = slm_batch(atoi(arguments[0]), config.context, config.vocabulary);
    return slm_open(&config);
}

__attribute__((constructor)) static void register_cases(void) {
    static const BenchCase cases[] = {
        {"gpt2", "B T: GPT-2 124M, 50257 classes", 2, open_case},
        {"slm", "B T: the text GPT, 12 x 768, 30000 classes", 2, open_case},
        {"slm-regular", "B T: the text GPT, 24 x 1024, 30000 classes", 2, open_case},
        {"slm-small", "B T: the text GPT, 4 x 256, 4096 classes", 2, open_case},
    };
    for (int i = 0; i < 4; i++) bench_register(&cases[i]);
}
