#include "commands/slm/samples.h"

#include <stdio.h>
#include <stdlib.h>

#include "commands/slm/passage.h"
#include "model/generate.h"
#include "model/slm.h"
#include "train/plan/memory.h"

struct SlmSamples {
    const Tokenizer *tokenizer;
    const SlmSampleOptions *options;
    Generator *generator;
    int32_t first; /* the id before every document; -1: none */
    TokenIds *ids; /* [n] of the prompts, behind `first` */
    GenerationPrompt *prompts;
    int n;
    uint64_t seed;
};

#define FIELD(name) offsetof(SlmSampleOptions, name)

// clang-format off
static const OptionRow table[] = {
    {.name = "sample-prompt", .heading = "Validation and log", .type = OPTION_LIST, .offset = FIELD(prompts), .metavar = "TEXT",
     .help = "text that is continued after every validation, repeatable; default: a text from its beginning"},
    {.name = "sample-tokens", .type = OPTION_INT, .offset = FIELD(tokens), .default_value = "64", .max = 1e6,
     .metavar = "N",
     .help = "tokens of such a text; 0: none is written"},
};
// clang-format on

void slm_sample_options_add(OptionSet *set, SlmSampleOptions *options) {
    options_add(set, table, sizeof table / sizeof *table, options);
}

/* Encodes the prompts; without any, a text begins with `first` alone, if there is one. */
static void encode_prompts(SlmSamples *s, int context) {
    int32_t first = s->first;
    const OptionList *texts = &s->options->prompts;
    s->n = texts->count ? texts->count : first >= 0;
    s->ids = xcalloc((size_t)s->n, sizeof *s->ids);
    s->prompts = xcalloc((size_t)s->n, sizeof *s->prompts);
    for (int i = 0; i < s->n; i++) {
        TokenIds *ids = &s->ids[i];
        if (first >= 0) token_ids_add(ids, first);
        OWNED char *what = xformat("--sample-prompt %d", i + 1);
        if (texts->count) passage_encode(s->tokenizer, what, texts->text[i], false, ids);
        if (!ids->n || ids->n > context)
            die_usage("--sample-prompt %d has %lld tokens, expected 1 to %d, the context", i + 1, (long long)ids->n,
                      context);
        s->prompts[i] =
            (GenerationPrompt){.parts = {{.ids = ids->ids, .n = ids->n}}, .n_parts = 1, .sequence = (uint32_t)i};
    }
}

SlmSamples *slm_samples_open(const SlmSampleOptions *options, const TrainSpec *spec, const Tokenizer *tokenizer,
                             int32_t first) {
    if (!options->tokens || !spec->validation) return NULL;
    if (!tokenizer && options->prompts.count) die_usage("--sample-prompt: there is no tokenizer; give --tokenizer");
    if (!tokenizer) return NULL;
    SlmSamples *s = xcalloc(1, sizeof *s);
    GenerationModel model = slm_generation(spec->model);
    Error error;
    *s =
        (SlmSamples){.tokenizer = tokenizer, .options = options, .first = first, .seed = (uint64_t)spec->options->seed};
    encode_prompts(s, (int)model.context);
    GenerationSize size = generation_size(&model, s->prompts, s->n, s->n, options->tokens);
    if (s->n) s->generator = generator_open(&model, spec->device, &size, memory_available(spec->device), &error);
    if (s->generator) return s;
    if (s->n)
        warn("no texts are written at validations: %s", error.text);
    else
        printf("[Sample] the tokenizer has no end-of-text token that begins a text: give --sample-prompt for texts at "
               "validations\n");
    slm_samples_close(s);
    return NULL;
}

void slm_samples_close(SlmSamples *s) {
    if (!s) return;
    for (int i = 0; i < s->n; i++) token_ids_free(&s->ids[i]);
    generator_close(s->generator);
    FREE(s->ids, s->prompts, s);
}

/* Prints a text on one line, without the control characters that an untrained model writes. */
static void print_text(int64_t step, const char *text) {
    printf("[Sample] step=%lld ", (long long)step);
    for (; *text; text++)
        if (*text == '\n')
            printf("\\n");
        else if ((unsigned char)*text < ' ' || *text == 0x7f)
            printf("\\x%02x", (unsigned)*text);
        else
            putchar(*text);
    printf("\n");
}

void slm_samples_write(void *samples, Training *training, int64_t step) {
    SlmSamples *s = samples;
    int32_t end = tokenizer_end_of_text(s->tokenizer);
    GenerationOptions options = {
        .sampling = {.repetition_penalty = 1, .temperature = 0.8f, .top_p = 0.95f, .seed = s->seed},
        .stops = &end,
        .n_stops = end >= 0,
        .max_new = s->options->tokens};
    OWNED Generated *generated = xcalloc((size_t)s->n, sizeof *generated);
    Error error;
    if (!generator_run(s->generator, s->prompts, s->n, &options, generated, &error)) {
        warn("no text is written: %s", error.text);
        return;
    }
    for (int i = 0; i < s->n; i++) {
        for (int64_t k = 0; k < generated[i].n; k++) token_ids_add(&s->ids[i], generated[i].ids[k]);
        s->prompts[i].parts[0].ids = s->ids[i].ids; /* may have moved */
        int64_t first = s->first >= 0;
        OWNED char *text = passage_text(s->tokenizer, s->ids[i].ids + first, s->ids[i].n - first);
        OWNED char *name = xformat("sample/%d", i + 1);
        print_text(step, text);
        train_log_text(training, name, text);
        s->ids[i].n -= generated[i].n;
    }
    generated_free(generated, s->n);
}
