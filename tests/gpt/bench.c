/* The benchmark of the TTS GPT, on samples of given lengths. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/gpt/dataset.h"
#include "model/gpt.h"
#include "tests/bench/bench.h"

/* Opens samples of the lengths in a text, in turn: "TEXT,CODES,TEXT,CODES,...". */
static Dataset *open_samples(const GptLayout *layout, const char *lengths, int batch_size) {
    int n = 0;
    for (const char *p = lengths; (p = strchr(p, ',')); p++) n++;
    int listed = (n + 1) / 2;
    n = listed < batch_size ? batch_size : listed;
    OWNED int32_t *text = xcalloc((size_t)n, 4), *codes = xcalloc((size_t)n, 4);
    const char *rest = lengths;
    for (int i = 0, used = 0; i < listed; i++, rest += used + (rest[used] == ','))
        if (sscanf(rest, "%d,%d%n", &text[i], &codes[i], &used) != 2) die("expected TEXT,CODES,..., found %s", rest);
    for (int i = listed; i < n; i++) {
        text[i] = text[i - listed];
        codes[i] = codes[i - listed];
    }
    return gpt_dataset_synthetic(layout, text, codes, n);
}

static void open_gpt(const char *name, const char *const *arguments, TrainSpec *spec) {
    int d = atoi(arguments[0]), v = atoi(arguments[3]), k = atoi(arguments[4]);
    GptLayout layout = {d, 32, 600, 1816, v, k, 0, 1, k, k + 1};
    (void)name;
    spec->train = open_samples(&layout, arguments[5], (int)spec->options->batch_size);
    spec->model = gpt_open(&(GptConfig){.d_model = d,
                                        .n_layers = atoi(arguments[1]),
                                        .n_heads = atoi(arguments[2]),
                                        .text_vocabulary = v,
                                        .mel_codes = k + 2,
                                        .max_text_tokens = 600,
                                        .max_mel_tokens = 1815,
                                        .dropout = 0.1f,
                                        .text_weight = 0.2f,
                                        .mel_weight = 0.8f});
}

__attribute__((constructor)) static void register_cases(void) {
    static const BenchCase tts = {
        "tts",   "D L H V K TEXT,CODES,...: the TTS GPT, a pair of lengths for each sample, in turn",
        6,       8,
        4,       gpt_largest_batch,
        open_gpt};
    bench_register(&tts);
}
