/* train_slm evaluate: how well a model predicts.
 *
 *   ./train_slm evaluate --checkpoint run --text held_out.txt            loss, perplexity, bits per byte
 *   ./train_slm evaluate --checkpoint run --choices hellaswag_val.jsonl  accuracy: which ending is the likeliest
 *
 * Both become windows of token ids, of which the model gives the sum of the losses. */
#include "commands/slm/commands.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/threads.h"
#include "commands/slm/evaluation.h"
#include "commands/slm/inference.h"
#include "commands/trainer.h"
#include "data/slm/corpus_files.h"

typedef struct {
    SlmInference inference;
    SlmTexts texts;
    OptionList choices;
    const char *output;
} Evaluate;

#define FIELD(name) offsetof(Evaluate, name)

// clang-format off
static const OptionRow table[] = {
    {.name = "text", .heading = "Data", .type = OPTION_LIST, .offset = FIELD(texts.text), .metavar = "PATH", .positional = true,
     .help = CORPUS_INPUTS "; repeatable"},
    {.name = "choices", .usual = true, .type = OPTION_LIST, .offset = FIELD(choices), .metavar = "PATH",
     .help = "questions in JSON Lines or an array of JSON, each with context (or ctx), endings and label, as HellaSwag has them; "
             "repeatable"},
    {.name = "output", .heading = "Files", .usual = true, .letter = 'o', .type = OPTION_TEXT, .offset = FIELD(output), .metavar = "FILE",
     .help = "CSV with a row per file, or of --choices per question"},
    {.name = "stride", .heading = "Data", .type = OPTION_INT, .offset = FIELD(texts.stride), .default_value = "0", .max = 1e6,
     .metavar = "N",
     .help = "tokens by which the window of a context moves on: each predicts its last N tokens, which have at least "
             "context - N tokens before them; 0: the context, as in training, the fastest"},
    {.name = "documents", .type = OPTION_CHOICE, .offset = FIELD(texts.documents), .default_value = "packed",
     .metavar = "packed|separate",
     .help = "packed: the documents of a file end to end, as in training; separate: tokens see their own document only"},
    {.name = "input-format", .type = OPTION_CHOICE, .offset = FIELD(texts.input_format), .default_value = "auto",
     .metavar = CORPUS_FORMATS,
     .help = "what the files are, whatever their names; of a folder, those with such names; auto: as their names say"},
    {.name = "split-at", .type = OPTION_CHOICE, .offset = FIELD(texts.split_at), .default_value = "file",
     .metavar = "file|blank-lines|line",
     .help = "what separates the documents of a plain text; a record of JSON or of a table is a document always"},
    {.name = "text-field", .type = OPTION_TEXT, .offset = FIELD(texts.text_field), .default_value = "text",
     .metavar = "NAME",
     .help = "JSON field, or column of a table, with the text"},
    {.name = "normalize", .type = OPTION_CHOICE, .offset = FIELD(texts.normalize), .default_value = "nfc",
     .metavar = "nfc|none",
     .help = "nfc: compose characters, as train_slm prepare does unless told otherwise"},
    {.name = "skip-bad", .type = OPTION_FLAG, .offset = FIELD(texts.skip_bad), .default_value = "false",
     .help = "leave records of JSON and tables out that cannot be used, and count them"},
};
// clang-format on

static void check_options(const Evaluate *e, const OptionSet *set) {
    static const char *const of_texts[] = {"input-format", "stride",     "documents",
                                           "split-at",     "text-field", "normalize"};
    Error error;
    if (!e->texts.text.count == !e->choices.count)
        die_usage("what is evaluated? give --text or --choices, one of them");
    for (size_t i = 0; e->choices.count && i < sizeof of_texts / sizeof *of_texts; i++)
        if (options_given(set, of_texts[i])) die_usage("--%s is for --text", of_texts[i]);
    if (e->output && !file_is_replaceable(e->output, &error)) die_usage("--output: %s", error.text);
}

/* Returns the sums of the losses of all windows; free(). */
static float *losses_of(Evaluate *e, const SlmScoring *scoring) {
    SlmInference *i = &e->inference;
    Dataset *windows = slm_windows_open(&scoring->windows, scoring->ids.ids);
    slm_inference_open(i, &(SlmPasses){windows, SLM_OUTPUTS, slm_windows_largest});
    float *losses = xmalloc((size_t)scoring->windows.n * sizeof *losses);
    double start = seconds_now(), rows = 0;
    train_outputs(i->training, windows, losses);
    for (int64_t w = 0; w < scoring->windows.n; w++) rows += scoring->windows.windows[w].rows;
    printf("[Evaluate] %lld windows, %.0f rows in %.2f s\n", (long long)scoring->windows.n, rows,
           seconds_now() - start);
    windows->close(windows);
    return losses;
}

static void write_table(const char *path, const Table *results) {
    MUST(table_write_csv(results, path, &error));
    printf("[Evaluate] %lld row%s written to %s\n", (long long)table_rows(results), table_rows(results) == 1 ? "" : "s",
           path);
}

/* Evaluates texts or questions, and fills the table of results. */
static void evaluate(Evaluate *e, Table *results) {
    SlmScoring scoring = {.tokenizer = e->inference.tokenizer,
                          .context = e->inference.config.context,
                          .first = slm_inference_first_id(&e->inference),
                          .missing = {.encode = tokenizer_encode_plain, .tokenizer = e->inference.tokenizer}};
    if (e->choices.count) {
        struct SlmQuestions *questions = slm_questions_open(&e->choices, e->texts.skip_bad, &scoring);
        OWNED float *losses = losses_of(e, &scoring);
        slm_questions_results(questions, &scoring, losses, results);
        slm_questions_close(questions);
    } else {
        struct SlmTextFiles *files = slm_texts_open(&e->texts, &scoring);
        OWNED float *losses = losses_of(e, &scoring);
        slm_texts_results(files, &scoring, losses, results);
        slm_texts_close(files);
        table_print(results, results->columns, stdout);
    }
    token_ids_free(&scoring.ids);
    unknown_free(&scoring.missing);
    free(scoring.windows.windows);
}

int slm_evaluate(int argc, char **argv) {
    static const OptionsHeader header = {"train_slm evaluate", "--checkpoint run FILE... [options]",
                                         "--checkpoint run new_texts",
                                         "Measures how well a model predicts texts, or chooses among endings."};
    static const OptionOverride windows = {
        .name = "batch-size", .default_value = "8", .min = 1, .metavar = "N", .help = "windows per batch"};
    static Evaluate e;
    SlmInference *i = &e.inference;
    Table results = {0};
    slm_inference_options(i);
    options_override(&i->set, &windows, 1);
    options_add(&i->set, table, sizeof table / sizeof *table, &e);
    options_parse(&header, &i->set, argc, argv);
    check_options(&e, &i->set);
    i->train.manifest = e.texts.text.count ? e.texts.text : e.choices; /* the data */
    train_options_resolve(&i->train, &i->set);
    i->train.val_batch_size = i->train.batch_size;
    e.texts.n_threads = threads_take((int)i->train.threads, "--threads");
    trainer_begin(&i->train, NULL);
    slm_inference_describe(i);
    evaluate(&e, &results);
    if (e.output) write_table(e.output, &results);
    table_free(&results);
    slm_inference_close(i, argc, argv);
    return 0;
}
