/* The benchmarks of the text GPT, on full contexts. "gpt2" is GPT-2 124M as llm.c trains it. */
#include <stdlib.h>
#include <string.h>

#include "data/slm/dataset.h"
#include "model/slm.h"
#include "tests/bench/bench.h"

static void open_case(const char *name, const char *const *arguments, TrainSpec *spec) {
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
    while (strcmp(cases[c].name, name)) c++;
    SlmConfig config = cases[c].config;
    config.context = atoi(arguments[0]);
    if (c) config.dropout = 0.1f; /* llm.c has none */
    spec->train = slm_dataset_synthetic(config.context, BENCH_BATCHES * spec->options->batch_size, config.vocabulary);
    spec->model = slm_open(&config);
}

__attribute__((constructor)) static void register_cases(void) {
    static const BenchCase cases[] = {
        {"gpt2", "T: GPT-2 124M, 50257 classes, no dropout", 1, 4, 1, slm_largest_batch, open_case},
        {"slm", "T: the text GPT, 12 x 768, 30000 classes", 1, 20, 1, slm_largest_batch, open_case},
        {"slm-regular", "T: the text GPT, 24 x 1024, 30000 classes", 1, 12, 1, slm_largest_batch, open_case},
        {"slm-small", "T: the text GPT, 4 x 256, 4096 classes", 1, 8, 1, slm_largest_batch, open_case},
    };
    for (int i = 0; i < 4; i++) bench_register(&cases[i]);
}
