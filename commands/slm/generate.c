/* train_slm generate: a trained model continues prompts.
 *
 *   ./train_slm generate --checkpoint run --prompt "And it came to pass" --number 3
 *   ./train_slm generate --checkpoint run --interactive
 *
 * A prompt is preceded by the end-of-text token, behind which every document of the training began. A text ends with
 * that token, after --max-tokens, or at the end of the model's context. */
#include "commands/slm/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistr.h>

#include "base/json.h"
#include "base/program.h"
#include "base/threads.h"
#include "commands/slm/inference.h"
#include "commands/slm/passage.h"
#include "data/formats/text_source.h"
#include "data/text/encoding.h"
#include "data/text/utf8.h"
#include "model/generate.h"
#include "train/plan/memory.h"

typedef struct {
    SlmInference inference; /* first: its options have their offsets from here */
    OptionList prompt;
    const char *prompts;
    int64_t number, max_tokens, top_k, seed;
    double temperature, top_p, repetition_penalty;
    bool interactive, greedy, special_tokens, json;
    FILE *out; /* of the texts */
} Generate;

#define FIELD(name) offsetof(Generate, name)

// clang-format off
static const OptionRow table[] = {
    {.name = "prompt", .heading = "Generation", .usual = true, .letter = 'p', .type = OPTION_LIST, .offset = FIELD(prompt), .metavar = "TEXT",
     .help = "text to continue, repeatable; '' begins a new text"},
    {.name = "prompts", .type = OPTION_TEXT, .offset = FIELD(prompts), .metavar = "PATH",
     .help = "file with a prompt on each line"},
    {.name = "interactive", .usual = true, .letter = 'i', .type = OPTION_FLAG, .offset = FIELD(interactive), .default_value = "false",
     .help = "read prompts from standard input, a line each, and write the text while it is generated"},
    {.name = "number", .usual = true, .letter = 'n', .type = OPTION_INT, .offset = FIELD(number), .default_value = "1", .min = 1,
     .max = 1e6, .metavar = "N",
     .help = "texts for each prompt"},
    {.name = "max-tokens", .usual = true, .type = OPTION_INT, .offset = FIELD(max_tokens), .default_value = "200", .min = 1,
     .max = 1e6, .metavar = "N",
     .help = "new tokens of a text, at most; the model's context limits prompt and new tokens together"},
    {.name = "temperature", .usual = true, .type = OPTION_FLOAT, .offset = FIELD(temperature), .default_value = "0.8", .max = 100,
     .metavar = "X",
     .help = "divides the logits: below 1 the text keeps to what is probable; 0: the most probable token, always"},
    {.name = "greedy", .type = OPTION_FLAG, .offset = FIELD(greedy), .default_value = "false",
     .help = "the same as --temperature 0"},
    {.name = "top-k", .type = OPTION_INT, .offset = FIELD(top_k), .default_value = "0", .max = 1e9, .metavar = "N",
     .help = "draw from the N most probable tokens only; 0: from all"},
    {.name = "top-p", .type = OPTION_FLOAT, .offset = FIELD(top_p), .default_value = "0.95", .min = 1e-6, .max = 1,
     .metavar = "X",
     .help = "draw from the fewest tokens that have this share of the probability; 1: from all"},
    {.name = "repetition-penalty", .type = OPTION_FLOAT, .offset = FIELD(repetition_penalty), .default_value = "1",
     .min = 0.01, .max = 100, .metavar = "X",
     .help = "above 1: tokens that have occurred become less probable"},
    {.name = "seed", .usual = true, .type = OPTION_INT, .offset = FIELD(seed), .default_value = "1234", .max = 9e15, .metavar = "N",
     .help = "another seed, another text"},
    {.name = "special-tokens", .type = OPTION_FLAG, .offset = FIELD(special_tokens), .default_value = "false",
     .help = "special tokens written out in a prompt (<|endoftext|>) are these tokens; otherwise they are text"},
    {.name = "json", .heading = "Files", .type = OPTION_FLAG, .offset = FIELD(json), .default_value = "false",
     .help = "print a JSON object per text, on a line of its own"},
};
// clang-format on

static const char RESULTS[] = "the generated text";

/* ---- prompts ---- */

typedef struct {
    char **texts;           /* [n] */
    TokenIds *ids;          /* [n] with the id that begins a text */
    GenerationPrompt *runs; /* [n number]: text i is runs[i number .. ] */
    int n;
} Prompts;

/* Returns whether the model can continue a prompt of `size` bytes. number: of the prompt, from 1. */
static bool check_prompt(const Generate *o, const char *text, size_t size, const TokenIds *ids, int number,
                         Error *error) {
    const uint8_t *bad = u8_check((const uint8_t *)text, strlen(text));
    int64_t context = o->inference.config.context;
    if (bad)
        return error_set(error, "prompt %d: byte %lld, 0x%02x, begins no UTF-8 character; %s", number,
                         (long long)(bad - (const uint8_t *)text) + 1, *bad, encoding_advice(text, strlen(text)));
    if (strlen(text) != size)
        return error_set(error, "prompt %d has a zero byte behind its %zu bytes; take it out", number, strlen(text));
    if (!ids->n)
        return error_set(error, "prompt %d is empty, and this model knows no token that begins a text: give a text",
                         number);
    return ids->n <= context ||
           error_set(error, "prompt %d has %lld tokens, and the model's context is %lld: shorten it", number,
                     (long long)ids->n, (long long)context);
}

/* Adds a prompt of `size` bytes. False if the model cannot continue it. */
static bool add_prompt(Prompts *p, const Generate *o, const char *text, size_t size, Error *error) {
    const SlmInference *inference = &o->inference;
    int32_t first = slm_inference_first_id(inference);
    p->texts = xrealloc(p->texts, (size_t)(p->n + 1) * sizeof *p->texts);
    p->ids = xrealloc(p->ids, (size_t)(p->n + 1) * sizeof *p->ids);
    TokenIds *ids = &p->ids[p->n];
    *ids = (TokenIds){.n = 0};
    if (first >= 0) token_ids_add(ids, first);
    p->texts[p->n++] = xstrdup(text);
    OWNED char *what = xformat("prompt %d", p->n);
    passage_encode(inference->tokenizer, what, text, o->special_tokens, ids);
    return check_prompt(o, text, size, ids, p->n, error);
}

static void add_lines(Prompts *p, const Generate *o) {
    char *text, *rest;
    size_t size;
    MUST_OR(text_read(o->prompts, &text, &size, &error), "--prompts %s: %s", o->prompts, error.text);
    const char *binary = encoding_of_binary(text, size);
    if (binary) die("--prompts %s: the file %s", o->prompts, binary);
    if (strlen(text) != size) die("--prompts %s: expected text, found a byte 0 at %zu", o->prompts, strlen(text));
    rest = text + utf8_mark(text, size);
    for (char *line; (line = strsep(&rest, "\n"));) {
        size_t length = strlen(line);
        if (length && line[length - 1] == '\r') line[length - 1] = 0;
        if (*line) MUST(add_prompt(p, o, line, strlen(line), &error));
    }
    if (!p->n) die("--prompts %s: the file has no line", o->prompts);
    free(text);
}

/* Makes o->number runs of each prompt, each with random numbers of its own. */
static void make_runs(Prompts *p, const Generate *o) {
    size_t n = (size_t)p->n * (size_t)o->number;
    p->runs = xcalloc(n, sizeof *p->runs);
    for (size_t i = 0; i < n; i++) {
        const TokenIds *ids = &p->ids[i / (size_t)o->number];
        p->runs[i] = (GenerationPrompt){
            .parts = {{.ids = ids->ids, .n = ids->n}}, .n_parts = 1, .sequence = (uint32_t)(i % (size_t)o->number)};
    }
}

static void prompts_free(Prompts *p) {
    for (int i = 0; i < p->n; i++) {
        free(p->texts[i]);
        token_ids_free(&p->ids[i]);
    }
    FREE(p->texts, p->ids, p->runs);
    *p = (Prompts){.n = 0};
}

/* ---- generation ---- */

static GenerationOptions options_of(const Generate *o, const int32_t *end) {
    return (GenerationOptions){.sampling = {.repetition_penalty = (float)o->repetition_penalty,
                                            .temperature = o->greedy ? 0 : (float)o->temperature,
                                            .top_k = (int)o->top_k,
                                            .top_p = (float)o->top_p,
                                            .seed = (uint64_t)o->seed},
                               .stops = end,
                               .n_stops = *end >= 0,
                               .max_new = o->max_tokens,
                               .n_threads = threads_take((int)o->inference.train.threads, "--threads")};
}

static const char *end_text(GenerationEnd end) {
    return end == GENERATION_STOP ? "end of text" : end == GENERATION_LIMIT ? "max tokens" : "end of context";
}

static Generator *open_generator(const Generate *o, const GenerationSize *size) {
    const SlmInference *inference = &o->inference;
    GenerationModel model = slm_generation(inference->model);
    Error error;
    Generator *generator = generator_open(&model, inference->device, size, memory_available(inference->device), &error);
    if (!generator) die("%s", error.text);
    return generator;
}

static void print_json(const Generate *o, const Prompts *p, int i, const Generated *generated) {
    int prompt = i / (int)o->number;
    OWNED char *text = passage_text(o->inference.tokenizer, generated->ids, generated->n);
    json_auto_t *object = json_build("a generated text", "{s:s, s:i, s:s, s:I, s:s}", "prompt", p->texts[prompt],
                                     "number", i % (int)o->number + 1, "text", text, "tokens", (json_int_t)generated->n,
                                     "end", end_text(generated->end));
    OWNED char *line = json_text("a generated text", object, JSON_COMPACT);
    fprintf(o->out, "%s\n", line);
}

/* Prints prompt and text as one passage. */
static void print_passage(const Generate *o, const Prompts *p, int i, const Generated *generated) {
    int prompt = i / (int)o->number;
    const TokenIds *ids = &p->ids[prompt];
    Passage passage = passage_open(o->inference.tokenizer, ids->ids, ids->n, generated->n);
    for (int64_t k = 0; k < generated->n; k++) passage_add(&passage, generated->ids[k]);
    fprintf(o->out, "\n-- prompt %d of %d, text %d of %d: %lld tokens, %s\n", prompt + 1, p->n, i % (int)o->number + 1,
            (int)o->number, (long long)generated->n, end_text(generated->end));
    passage_write(&passage, o->out);
    fprintf(o->out, "\n");
    passage_close(&passage);
}

typedef struct {
    Passage passage;
    FILE *out;
} Stream;

static void write_id(void *context, int prompt, int32_t id) {
    Stream *s = context;
    (void)prompt;
    passage_add(&s->passage, id);
    passage_write(&s->passage, s->out);
    program_flush(s->out, false, RESULTS);
}

/* Generates a single text, and writes it meanwhile. */
static void stream(const Generate *o, Generator *generator, const Prompts *p, const GenerationOptions *common) {
    GenerationOptions options = *common;
    Generated generated;
    Stream s = {passage_open(o->inference.tokenizer, p->ids[0].ids, p->ids[0].n, options.max_new), o->out};
    passage_write(&s.passage, s.out);
    options.on_id = write_id;
    options.context = &s;
    MUST(generator_run(generator, p->runs, 1, &options, &generated, &error));
    fprintf(s.out, "\n");
    program_flush(s.out, false, RESULTS);
    fprintf(stderr, "[Generate] %lld tokens, %s\n", (long long)generated.n, end_text(generated.end));
    passage_close(&s.passage);
    generated_free(&generated, 1);
}

static void generate(const Generate *o, const Prompts *p, const GenerationOptions *options) {
    GenerationModel model = slm_generation(o->inference.model);
    int n = p->n * (int)o->number;
    GenerationSize size = generation_size(&model, p->runs, n, (int)o->inference.train.batch_size, o->max_tokens);
    Generator *generator = open_generator(o, &size);
    if (n == 1 && !o->json) {
        stream(o, generator, p, options);
        generator_close(generator);
        return;
    }
    OWNED Generated *generated = xcalloc((size_t)n, sizeof *generated);
    double start = seconds_now();
    int64_t tokens = 0;
    MUST(generator_run(generator, p->runs, n, options, generated, &error));
    double seconds = seconds_now() - start;
    for (int i = 0; i < n; i++) {
        tokens += generated[i].n;
        if (o->json)
            print_json(o, p, i, &generated[i]);
        else
            print_passage(o, p, i, &generated[i]);
    }
    fprintf(stderr, "\n[Generate] %d texts, %lld tokens in %.2f s: %.0f tokens/s\n", n, (long long)tokens, seconds,
            (double)tokens / seconds);
    generated_free(generated, n);
    generator_close(generator);
}

/* Continues each line of standard input until its end. */
static void converse(const Generate *o, const GenerationOptions *options) {
    int64_t context = o->inference.config.context;
    GenerationSize size = {.sequences = 1, .longest = context, .prompt_rows = context};
    Generator *generator = open_generator(o, &size);
    OWNED char *line = NULL;
    size_t capacity = 0;
    Error error;
    fprintf(stderr, "Type the beginning of a text, then Enter; Ctrl-D ends.\n");
    for (ssize_t length; (length = getline(&line, &capacity, stdin)) >= 0;) {
        Prompts p = {.n = 0};
        if (length && line[length - 1] == '\n') line[--length] = 0;
        if (add_prompt(&p, o, line, (size_t)length, &error)) {
            make_runs(&p, o);
            stream(o, generator, &p, options);
        } else {
            warn("%s", error.text);
        }
        prompts_free(&p);
    }
    generator_close(generator);
}

static void check_options(const Generate *o) {
    if (!o->prompt.count && !o->prompts && !o->interactive)
        die_usage("nothing to continue: give --prompt TEXT, --prompts FILE or --interactive");
    if (o->interactive && (o->prompt.count || o->prompts || o->number > 1 || o->json))
        die_usage("--interactive reads its prompts from standard input, and writes one text for each: leave out "
                  "--prompt, --prompts, --number and --json");
    if (o->greedy && o->number > 1) die_usage("--greedy gives the same text every time: leave out --number");
}

int slm_generate(int argc, char **argv) {
    static const OptionsHeader header = {"train_slm generate", "--checkpoint run --prompt TEXT [options]",
                                         "--checkpoint run --prompt \"In the year\"",
                                         "Continues texts with a trained model."};
    static const OptionOverride at_once = {.name = "batch-size",
                                           .default_value = "16",
                                           .min = 1,
                                           .metavar = "N",
                                           .help = "texts that are generated at once"};
    static const char *const unused[] = {"num-workers", "profile", NULL};
    static Generate o;
    Prompts prompts = {.n = 0};
    slm_inference_options(&o.inference);
    options_override(&o.inference.set, &at_once, 1);
    options_remove(&o.inference.set, unused);
    options_add(&o.inference.set, table, sizeof table / sizeof *table, &o);
    options_parse(&header, &o.inference.set, argc, argv);
    check_options(&o);
    o.out = program_results(); /* everything else goes to stderr */
    slm_inference_describe(&o.inference);
    for (int i = 0; i < o.prompt.count; i++)
        MUST(add_prompt(&prompts, &o, o.prompt.text[i], strlen(o.prompt.text[i]), &error));
    if (o.prompts) add_lines(&prompts, &o);
    make_runs(&prompts, &o);
    slm_inference_open(&o.inference, NULL);
    int32_t end = tokenizer_end_of_text(o.inference.tokenizer);
    GenerationOptions options = options_of(&o, &end);
    if (o.interactive)
        converse(&o, &options);
    else
        generate(&o, &prompts, &options);
    program_flush(o.out, true, RESULTS);
    prompts_free(&prompts);
    slm_inference_close(&o.inference, argc, argv);
    return 0;
}
