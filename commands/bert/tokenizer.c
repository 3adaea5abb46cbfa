#include "commands/bert/commands.h"

#include <errno.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/format.h"
#include "base/options.h"
#include "base/program.h"
#include "base/threads.h"
#include "commands/bert/texts.h"
#include "data/text/fastbpe_train.h"
#include "data/unfinished.h"

typedef struct {
    OptionList data;
    BertTextOptions text;
    const char *output;
    int64_t learn, min_frequency, threads;
    bool overwrite;
} Options;

#define FIELD(name) offsetof(Options, name)

// clang-format off
static const OptionRow table[] = {
    {.name = "learn", .heading = "Tokenizer", .type = OPTION_INT, .offset = FIELD(learn), .min = 1, .max = 1e6, .metavar = "N",
     .required = true,
     .help = "merges to learn, at most: fewer if the texts have no more pairs; the vocabulary becomes a little larger: "
             "merges, and characters inside and at the end of a word"},
    {.name = "data", .heading = "Data", .letter = 'd', .type = OPTION_LIST, .offset = FIELD(data), .metavar = "PATH", .required = true,
     .positional = true,
     .help = "files with texts, " COMMENTS_ANY "; repeatable"},
    {.name = "output", .heading = "Files", .letter = 'o', .type = OPTION_TEXT, .offset = FIELD(output), .metavar = "DIR",
     .required = true,
     .help = "folder for vocab.txt and bpe.codes"},
    {.name = "min-frequency", .heading = "Tokenizer", .type = OPTION_INT, .offset = FIELD(min_frequency), .default_value = "2", .min = 1,
     .max = 1e9, .metavar = "N",
     .help = "merge no pair that occurs less often"},
    {.name = "overwrite", .heading = "Files", .type = OPTION_FLAG, .offset = FIELD(overwrite), .default_value = "false",
     .help = "replace vocab.txt and bpe.codes that are in the folder, and remove added_tokens.json"},
    {.name = "threads", .heading = "Device", .type = OPTION_INT, .offset = FIELD(threads), .default_value = "0", .max = 1024,
     .metavar = "N",
     .help = "threads; 0: all cores; does not change the output"},
};

static const OptionOverride overrides[] = {
    {.name = "segment",
     .help = "folder with the segmenter's Model.RDR and VnVocab: joins the syllables of Vietnamese words by _ before; "
             "then use the tokenizer with the same segmenter"},
};
// clang-format on

static const char ADDED[] = "added_tokens.json"; /* would be read with the new files */
static const char UNFINISHED[] = "train_bert tokenizer";

/* Dies if a file is in the way, unless it is of this command that was killed. */
static void check_output(const Options *o) {
    static const char *const names[] = {"vocab.txt", "bpe.codes", ADDED};
    bool again;
    MUST_OR(unfinished_find(o->output, UNFINISHED, &again, &error), "--output: %s", error.text);
    for (int i = 0; i < 3 && !again && !o->overwrite; i++)
        if (path_holds(o->output, names[i]))
            die("%s/%s is there already: choose another --output, or replace it with --overwrite", o->output, names[i]);
}

static void remove_file(const Options *o, const char *name) {
    OWNED char *path = path_join(o->output, name);
    if (unlink(path) && errno != ENOENT) die("cannot remove %s: %s", path, strerror(errno));
}

/* Writes the tokenizer in place of the one that was in the folder. Without vocab.txt, which goes first and comes last,
 * a folder holds none: a kill leaves no files of two. */
static void write_tokenizer(const Options *o, const FastBpeTrainer *trainer) {
    FileLock lock;
    Error error;
    bool ok = unfinished_lock(&lock, o->output, &error);
    if (ok) check_output(o);
    ok = ok && unfinished_begin(o->output, UNFINISHED, &error);
    if (ok) {
        remove_file(o, "vocab.txt");
        remove_file(o, ADDED);
    }
    if (!ok || !directory_flush(o->output, &error) || !fastbpe_trainer_write(trainer, o->output, &error) ||
        !unfinished_end(o->output, &error))
        die("%s", error.text);
    file_unlock(&lock);
}

static void add_texts(FastBpeTrainer *trainer, const TextRules *rules, const Comments *comments) {
#pragma omp parallel for num_threads(rules->n_threads) schedule(dynamic, 256)
    for (int64_t i = 0; i < comments->n; i++) {
        size_t size;
        OWNED char *text = texts_prepare(rules, comments->texts[i], &size);
        fastbpe_trainer_add(trainer, omp_get_thread_num(), text, size);
    }
}

/* Adds the texts of all files; returns their number. */
static int64_t add_files(FastBpeTrainer *trainer, const TextRules *rules, const Options *o) {
    const CommentColumns columns = bert_text_columns(&o->text);
    int64_t texts = 0;
    for (int i = 0; i < o->data.count; i++) {
        Comments comments;
        MUST_OR(comments_read(o->data.text[i], &columns, LABELS_UNUSED, &comments, &error), "--data %s", error.text);
        bert_print_left_out(comments.path, &comments.counts);
        add_texts(trainer, rules, &comments);
        texts += comments.n;
        comments_free(&comments);
    }
    return texts;
}

static void print_path(const char *option, const char *path) {
    OWNED char *word = shell_path(path);
    printf(" %s %s", option, word);
}

static void print_learned(const Options *o, const FastBpeLearned *learned) {
    printf("[Words] %lld, %lld different; %.3f tokens per word\n", (long long)learned->words,
           (long long)learned->distinct, (double)learned->tokens / (double)learned->words);
    printf("[Tokenizer] %s: %d merges, %d pieces, of which the texts do not have %d\n", o->output, learned->merges,
           learned->pieces, learned->unseen);
    if (learned->merges < o->learn)
        printf("[Tokenizer] fewer merges than --learn %lld: no other pair of symbols occurs %lld times in the texts\n",
               (long long)o->learn, (long long)o->min_frequency);
    printf("Next: %s pretrain", program_as_called());
    for (int i = 0; i < o->data.count; i++) print_path("--data", o->data.text[i]);
    if (strcmp(o->text.text_column, "text") != 0) print_path("--text-column", o->text.text_column);
    print_path("--tokenizer", o->output);
    if (o->text.segment) print_path("--segment", o->text.segment);
    if (strcmp(o->text.normalize, "nfc") != 0) printf(" --normalize %s", o->text.normalize);
    printf(" -o pretrained\n");
}

static void learn(const Options *o) {
    const FastBpeTraining options = {(int)o->learn, (int)o->min_frequency, (int)o->threads};
    TextRules rules = {.nfc = !strcmp(o->text.normalize, "nfc"), .n_threads = (int)o->threads};
    FastBpeLearned learned;
    Segmenter *segmenter = o->text.segment ? bert_segmenter_open("--segment", o->text.segment) : NULL;
    if (segmenter) bert_segmenter_print(segmenter, o->text.segment);
    rules.segmenter = segmenter;
    FastBpeTrainer *trainer = fastbpe_trainer_open(&options);
    const int64_t texts = add_files(trainer, &rules, o);
    printf("[Data] %lld text%s from %d file%s%s\n", (long long)texts, format_plural(texts), o->data.count,
           format_plural(o->data.count), segmenter ? ", segmented" : "");
    MUST(fastbpe_trainer_learn(trainer, &learned, &error));
    write_tokenizer(o, trainer);
    print_learned(o, &learned);
    fastbpe_trainer_close(trainer);
    segmenter_close(segmenter);
}

int bert_tokenizer(int argc, char **argv) {
    static const OptionsHeader header = {
        "train_bert tokenizer", "--learn 4000 --data texts.txt --output tokenizer [options]",
        "--learn 4000 --data texts.txt --output tokenizer",
        "Learns vocab.txt and bpe.codes, the two files of PhoBERT's kind of tokenizer, from texts. White space, "
        "normal form and segmentation are those of the training."};
    static const char *const of_texts[] = {"segment", "normalize", "text-column", "skip-bad", NULL};
    Options o = {0};
    OptionSet set = {0};
    options_add(&set, table, sizeof table / sizeof *table, &o);
    options_add_config(&set);
    int first = set.count;
    bert_text_options_add(&set, &o.text);
    options_keep(&set, first, of_texts);
    options_override(&set, overrides, sizeof overrides / sizeof *overrides);
    options_parse(&header, &set, argc, argv);
    const double start = seconds_now();
    char seconds[32];
    check_output(&o);
    o.threads = threads_take((int)o.threads, "--threads");
    learn(&o);
    printf("[Time] %s\n", format_duration(seconds_now() - start, seconds));
    options_free(&set, argc, argv);
    return 0;
}
