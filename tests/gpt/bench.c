/* The benchmark of the TTS GPT: a training step on sequences of given lengths. */
#include <stdio.h>
#include <stdlib.h>

#include "data/gpt/dataset.h"
#include "model/gpt.h"
#include "tests/bench/bench.h"

static Batch gpt_batch(const GptLayout *layout, char **lengths, int n) {
    int32_t *text = xcalloc((size_t)n, 4), *codes = xcalloc((size_t)n, 4), *samples = xcalloc((size_t)n, 4);
    for (int i = 0; i < n; i++) {
        if (sscanf(lengths[i], "%d,%d", &text[i], &codes[i]) != 2) die("expected TEXT,CODES, found %s", lengths[i]);
        samples[i] = i;
    }
    Error error;
    Dataset *data = gpt_dataset_synthetic(layout, text, codes, n);
    Batch batch = batch_open(data->batch_bytes(data, samples, n), n);
    if (!data->fill(data, &batch, samples, n, &error)) die("%s", error.text);
    data->close(data);
    return batch;
}

static Model *open_gpt(const char *name, char **arguments, int n_arguments, Batch *batch) {
    int d = atoi(arguments[0]), v = atoi(arguments[3]), k = atoi(arguments[4]);
    GptLayout layout = {d, 32, 600, 1816, v, k, 0, 1, k, k + 1};
    (void)name;
    *batch = gpt_batch(&layout, arguments + 5, n_arguments - 5);
    return gpt_open(&(GptConfig){.d_model = d,
                                 .n_layers = atoi(arguments[1]),
                                 .n_heads = atoi(arguments[2]),
                                 .text_vocabulary = v,
                                 .mel_codes = k + 2,
                                 .max_text_tokens = 600,
                                 .max_mel_tokens = 1815,
                                 .text_weight = 0.2f,
                                 .mel_weight = 0.8f});
}

__attribute__((constructor)) static void register_cases(void) {
    static const BenchCase tts = {"tts", "D L H V K TEXT,CODES...: the TTS GPT, a pair of lengths per sample", 6,
                                  open_gpt};
    bench_register(&tts);
}
