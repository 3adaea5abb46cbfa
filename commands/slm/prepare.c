#include "commands/slm/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "base/options.h"
#include "base/options/built_in.h"
#include "base/program.h"
#include "base/threads.h"
#include "commands/max_unknown.h"
#include "data/slm/prepare.h"
#include "data/text/unknown.h"

enum { FEW_TOKENS = 4096 }; /* of held-out text: a validation loss over fewer says little */

#define FIELD(name) offsetof(SlmPrepareOptions, name)

// clang-format off
static const OptionRow table[] = {
    {.name = "input", .heading = "Data", .usual = true, .letter = 'i', .type = OPTION_LIST, .offset = FIELD(input), .metavar = "PATH",
     .required = true, .positional = true,
     .help = CORPUS_INPUTS "; repeatable"},
    {.name = "output", .heading = "Files", .usual = true, .letter = 'o', .type = OPTION_TEXT, .offset = FIELD(output), .metavar = "DIR",
     .required = true,
     .help = "folder for the shards and the tokenizer"},
    {.name = "input-format", .heading = "Data", .type = OPTION_CHOICE, .offset = FIELD(input_format), .default_value = "auto",
     .metavar = CORPUS_FORMATS,
     .help = "what the files are, whatever their names; of a folder, those with such names; auto: as their names say"},
    {.name = "split-at", .type = OPTION_CHOICE, .offset = FIELD(split_at), .default_value = "file",
     .metavar = "file|blank-lines|line",
     .help = "what separates the documents of a plain text; a record of JSON or of a table is a document always"},
    {.name = "text-field", .usual = true, .type = OPTION_TEXT, .offset = FIELD(text_field), .default_value = "text",
     .metavar = "NAME",
     .help = "JSON field, or column of a table, with the text"},
    {.name = "normalize", .type = OPTION_CHOICE, .offset = FIELD(normalize), .default_value = "nfc",
     .metavar = "nfc|none",
     .help = "nfc: compose characters, so that an accented letter is the same however it was typed"},
    {.name = "min-characters", .type = OPTION_INT, .offset = FIELD(min_characters), .default_value = "1",
     .max = 1e9, .metavar = "N",
     .help = "drop documents with fewer characters, white space not counted; 0 keeps empty ones"},
    {.name = "duplicates", .type = OPTION_CHOICE, .offset = FIELD(duplicates), .default_value = "exact",
     .metavar = "keep|exact|near",
     .help = "drop documents that are there before: with the same text, or also with about 80 % of it (MinHash)"},
    {.name = "val-ratio", .usual = true, .type = OPTION_FLOAT, .offset = FIELD(val_ratio), .default_value = "0.01", .max = 0.9,
     .metavar = "X",
     .help = "share of the documents held out for validation, by the hash of their text; at least one"},
    {.name = "val-file", .type = OPTION_LIST, .offset = FIELD(val_file), .metavar = "PATH",
     .help = "hold out the documents of this file or folder instead; repeatable"},
    {.name = "tokenizer", .heading = "Tokenizer", .usual = true, .type = OPTION_TEXT, .offset = FIELD(tokenizer), .metavar = "PATH",
     .help = "use this tokenizer.json (BPE) or SentencePiece model instead of training byte-level BPE"},
    MAX_UNKNOWN_ROW(FIELD(max_unknown)),
    {.name = "vocabulary", .usual = true, .type = OPTION_INT, .offset = FIELD(vocabulary), .default_value = "30016",
     .min = 257, .max = 1e6, .metavar = "N",
     .help = "tokens of the tokenizer to train, at most: fewer if the texts have no more pairs; a multiple of 64 suits "
             "matrix products"},
    {.name = "specials", .type = OPTION_LIST, .offset = FIELD(specials), .metavar = "TEXT",
     .help = "special token of the tokenizer to train, besides the one that ends a text; repeatable"},
    {.name = "end-of-text", .type = OPTION_TEXT, .offset = FIELD(end_of_text), .metavar = "TEXT",
     .help = "special token that separates documents; default: <|endoftext|>, of a given tokenizer also </s>"},
    {.name = "parse-specials", .type = OPTION_FLAG, .offset = FIELD(parse_specials), .default_value = "false",
     .help = "special tokens that are written out in a text become their ids; otherwise they are text"},
    {.name = "shard-tokens", .heading = "Files", .type = OPTION_INT, .offset = FIELD(shard_tokens), .default_value = "100000000",
     .min = 1, .max = 1e10, .metavar = "N",
     .help = "most tokens of a shard, unless a single document has more; a shard is in memory while it is made"},
    {.name = "skip-bad", .heading = "Data", .type = OPTION_FLAG, .offset = FIELD(skip_bad), .default_value = "false",
     .help = "leave records of JSON and tables out that cannot be used (no JSON, no text, half an emoji in it, too many "
             "fields), and count them"},
    {.name = "overwrite", .heading = "Files", .type = OPTION_FLAG, .offset = FIELD(overwrite), .default_value = "false",
     .help = "prepare again if the folder was prepared from another corpus, tokenizer or options"},
    {.name = "threads", .heading = "Device", .type = OPTION_INT, .offset = FIELD(threads), .default_value = "0", .max = 1024,
     .metavar = "N",
     .help = "threads; 0: all cores; does not change the output"},
};
// clang-format on

static long long number(const json_t *object, const char *key) {
    return (long long)json_integer_value(json_object_get(object, key));
}

static void print_corpus(const json_t *corpus) {
    char size[32];
    printf("[Corpus] %lld file%s, %s", number(corpus, "files"), format_plural(number(corpus, "files")),
           format_bytes((double)number(corpus, "file_bytes"), size));
    if (number(corpus, "files_left_out"))
        printf("; %lld other file%s left out", number(corpus, "files_left_out"),
               format_plural(number(corpus, "files_left_out")));
    printf("\n[Corpus] %lld document%s; dropped: %lld too short, %lld duplicate%s, %lld near-identical\n",
           number(corpus, "documents"), format_plural(number(corpus, "documents")), number(corpus, "short"),
           number(corpus, "exact_duplicates"), format_plural(number(corpus, "exact_duplicates")),
           number(corpus, "near_duplicates"));
    if (number(corpus, "bad_records"))
        printf("[Corpus] records that cannot be used left out: %lld, the first: %s\n", number(corpus, "bad_records"),
               json_string_value(json_object_get(corpus, "first_bad")));
}

static void print_split(const char *name, const json_t *split) {
    char size[32];
    long long documents = number(split, "documents"), tokens = number(split, "tokens"), bytes = number(split, "bytes"),
              unknown = number(split, "unknown"), dropped = number(split, "dropped_characters"),
              text = tokens - documents - 1;
    if (!documents) {
        printf("[%s] no documents\n", name);
        return;
    }
    printf("[%s] %lld document%s, %s, %lld tokens, %.3f bytes per token, %.4f %% unknown", name, documents,
           format_plural(documents), format_bytes((double)bytes, size), tokens,
           text > 0 ? (double)bytes / (double)text : 0, text > 0 ? 100 * (double)unknown / (double)text : 0);
    printf(", %lld character%s without a token left out, %lld shard%s\n", dropped, format_plural(dropped),
           number(split, "shards"), format_plural(number(split, "shards")));
}

/* Returns the value of a key in the text of settings; `otherwise` if they lack it. */
static double setting(const char *text, const char *key, double otherwise) {
    size_t size = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n'), line += line != NULL)
        if (!strncmp(line, key, size) && line[size] == ':') return atof(line + size + 1);
    return otherwise;
}

/* Warns if settings of configs/, whose steps are those of a large corpus, would go a thousand times or more through
 * these tokens. */
static void check_settings(long long tokens) {
    enum { MANY = 1000 };
    const char *name = NULL;
    double most = MANY;
    for (const BuiltInConfig *c = built_in_configs; c->name; c++) {
        if (!built_in_is_for(c->text, "train_slm")) continue;
        double step = setting(c->text, "batch_size", 0) * setting(c->text, "grad_accumulation", 1) *
                      setting(c->text, "context", 0);
        double epochs = setting(c->text, "max_steps", 0) * step / (double)(tokens > 0 ? tokens : 1);
        if (epochs >= most) most = epochs, name = c->name;
    }
    if (name)
        warn("the settings of --config are for a larger corpus: the steps of %s go %.0f times through these texts, "
             "which "
             "are then known by heart. Give no --config, or a smaller --max-steps with it",
             name, most);
}

/* Prints the command that trains, with a size and a warm-up that suit few tokens. */
static void print_next(const SlmPrepareOptions *o, long long tokens) {
    static const struct {
        long long tokens, context; /* fewer tokens than these; of the size */
        const char *options;
    } sizes[] = {{2000000, 128, " --size tiny"}, {50000000, 256, " --size small"}, {INT64_MAX, 1024, ""}};
    enum { BATCH = 20, EPOCHS = 10, WARMUP = 500, VALIDATION = 1000 };
    int i = 0;
    while (tokens >= sizes[i].tokens) i++;
    long long steps = EPOCHS * (tokens / (BATCH * sizes[i].context) + 1);
    OWNED char *folder = shell_path(o->output);
    printf("Next: %s --data %s%s", program_as_called(), folder, sizes[i].options);
    if (o->max_unknown > atof(MAX_UNKNOWN_DEFAULT)) printf(" --max-unknown %g", o->max_unknown);
    if (steps < 10 * WARMUP) printf(" --warmup-steps %lld", steps / 10);
    if (steps < 2 * VALIDATION) printf(" --val-interval 0");
    printf(" -o run\n");
}

static void print_record(const json_t *record, const SlmPrepareOptions *o) {
    const json_t *splits = json_object_get(record, "splits"), *val = json_object_get(splits, "val"),
                 *tokenizer = json_object_get(record, "tokenizer");
    print_corpus(json_object_get(record, "corpus"));
    printf("[Tokenizer] %s/%s: %lld tokens, %s\n", o->output, json_string_value(json_object_get(tokenizer, "file")),
           number(tokenizer, "vocabulary"), o->tokenizer ? "a copy of the one given" : "trained on the training split");
    if (!o->tokenizer && number(tokenizer, "vocabulary") < o->vocabulary)
        printf(
            "[Tokenizer] fewer tokens than --vocabulary %lld: no other pair of pieces occurs %d times in the texts\n",
            (long long)o->vocabulary, SLM_MIN_FREQUENCY);
    print_split("train", json_object_get(splits, "train"));
    print_split("val", val);
    if (number(val, "documents") && number(val, "tokens") < FEW_TOKENS)
        warn("only %lld tokens are held out: the validation loss will be noisy; hold out more with --val-ratio or "
             "--val-file",
             number(val, "tokens"));
    if (number(val, "bytes") > number(json_object_get(splits, "train"), "bytes"))
        warn("more text is held out than is trained on: a few documents hold most of it; cut it with --split-at, or "
             "hold out documents by --val-file");
    check_settings(number(json_object_get(splits, "train"), "tokens"));
    print_next(o, number(json_object_get(splits, "train"), "tokens"));
}

int slm_prepare(int argc, char **argv) {
    static const OptionsHeader header = {"train_slm prepare", "--input texts --output prepared [options]",
                                         "--input texts --output prepared",
                                         "Makes shards of token ids, and a tokenizer if none is given, from texts. The "
                                         "same command again does nothing."};
    SlmPrepareOptions o = {0};
    OptionSet set = options_parse_table(&header, table, sizeof table / sizeof *table, &o, argc, argv);
    double start = seconds_now();
    char seconds[32];
    bool already;
    if (o.val_file.count && options_given(&set, "val-ratio"))
        die_usage("--val-ratio and --val-file exclude each other: give one of them");
    for (const char *const *name = (const char *const[]){"vocabulary", "specials", NULL}; *name; name++)
        if (o.tokenizer && options_given(&set, *name))
            die_usage("--%s is for a tokenizer to train, and --tokenizer gives one", *name);
    o.threads = threads_take((int)o.threads, "--threads");
    json_auto_t *record = slm_prepare_folder(&o, &already);
    if (already) printf("%s was prepared before from the same texts, tokenizer and options: nothing to do\n", o.output);
    print_record(record, &o);
    if (!already) printf("[Time] %s\n", format_duration(seconds_now() - start, seconds));
    options_free(&set, argc, argv);
    return 0;
}
