#include "commands/slm/commands.h"

#include <math.h>
#include <stdio.h>

#include "base/options.h"
#include "data/slm/ngrams.h"

typedef struct {
    const char *data;
    int64_t max_tokens;
} BaselineOptions;

#define FIELD(name) offsetof(BaselineOptions, name)

// clang-format off
static const OptionRow table[] = {
    {.name = "data", .type = OPTION_TEXT, .offset = FIELD(data), .metavar = "DIR", .required = true, .positional = true,
     .help = "folder that `train_slm prepare` wrote"},
    {.name = "max-tokens", .type = OPTION_INT, .offset = FIELD(max_tokens), .default_value = "50000000", .min = 1,
     .max = 4e9, .metavar = "N",
     .help = "training tokens to count, the first ones; each takes about 50 bytes of memory"},
};
// clang-format on

static SlmStream *open_split(const BaselineOptions *o, const char *split) {
    Error error;
    SlmStream *stream = slm_stream_open(o->data, split, NULL, &error);
    if (!stream) die("%s", error.text);
    return stream;
}

static double text_bytes(const SlmStream *stream) {
    double bytes = 0;
    for (int64_t d = 0; stream->bytes && d < stream->n_documents; d++) bytes += (double)stream->bytes[d];
    return bytes;
}

static void print_model(const char *name, double nats, double tokens, double bytes) {
    printf("%-8s %7.4f %11.2f", name, nats / tokens, exp(nats / tokens));
    if (bytes > 0) printf(" %14.4f", nats / log(2) / bytes);
    printf("\n");
}

int slm_baselines(int argc, char **argv) {
    static const OptionsHeader header = {
        "train_slm baselines", "DIR [options]", "prepared",
        "Measures models that only count tokens on the held-out documents: a trained network must beat them."};
    BaselineOptions o;
    OptionSet set = options_parse_table(&header, table, sizeof table / sizeof *table, &o, argc, argv);
    static const char *const names[NGRAM_ORDERS] = {"1-grams", "2-grams", "3-grams"};
    SlmStream *train = open_split(&o, "train"), *held_out = open_split(&o, "val");
    double nats[NGRAM_ORDERS], tokens = (double)(held_out->n_tokens - 1), bytes = text_bytes(held_out);
    int64_t counted = train->n_tokens < o.max_tokens ? train->n_tokens : o.max_tokens;
    Ngrams *ngrams = ngrams_count(train, o.max_tokens);
    ngrams_measure(ngrams, held_out, nats);
    printf("counted %lld of %lld training tokens; held out: %lld documents, %.0f tokens", (long long)counted,
           (long long)train->n_tokens, (long long)held_out->n_documents, tokens);
    if (bytes > 0) printf(", %.0f bytes", bytes);
    printf("\n%-8s %7s %11s%s\n", "model", "loss", "perplexity", bytes > 0 ? "  bits per byte" : "");
    print_model("equal", tokens * log(held_out->vocabulary), tokens, bytes);
    for (int i = 0; i < NGRAM_ORDERS; i++) print_model(names[i], nats[i], tokens, bytes);
    ngrams_free(ngrams);
    slm_stream_close(train);
    slm_stream_close(held_out);
    options_free(&set, argc, argv);
    return 0;
}
