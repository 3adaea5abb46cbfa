#include "commands/bert/texts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/format.h"
#include "base/threads.h"
#include "checkpoint/load.h"
#include "commands/export.h"
#include "data/bert/batch.h"
#include "data/segment/segmenter.h"

#define FIELD(name) offsetof(BertTextOptions, name)

// clang-format off
static const OptionRow table[] = {
    {.name = "tokenizer", .heading = "Data", .usual = true, .type = OPTION_TEXT, .offset = FIELD(tokenizer), .metavar = "DIR|PATH",
     .help = "folder with vocab.txt and bpe.codes, tokenizer.json or a SentencePiece model, or one of these files; "
             "default: the one beside the weights"},
    {.name = "segment", .type = OPTION_TEXT, .offset = FIELD(segment), .metavar = "DIR",
     .help = "folder with the segmenter's Model.RDR and VnVocab: joins the syllables of Vietnamese words by _, as the "
             "texts that PhoBERT was pretrained on have it; default: as the weights were trained"},
    {.name = "max-len", .type = OPTION_INT, .offset = FIELD(max_len), .default_value = "192", .min = 3, .max = 1e6,
     .metavar = "N",
     .help = "tokens of the longest text, with begin and end; what is longer loses its end"},
    {.name = "normalize", .type = OPTION_CHOICE, .offset = FIELD(normalize), .default_value = "nfc",
     .metavar = "nfc|none",
     .help = "nfc: compose characters from letters and marks (Unicode's normal form C); none: leave them"},
    {.name = "compat", .type = OPTION_FLAG, .offset = FIELD(compat), .default_value = "false",
     .help = "tokenize exactly as Hugging Face's tokenizer: no normal form, line ends stay, special tokens that are "
             "written out in a text count as such"},
    {.name = "text-column", .usual = true, .type = OPTION_TEXT, .offset = FIELD(text_column), .default_value = "text",
     .metavar = "NAME", .help = "column or key of the texts"},
    {.name = "label-column", .usual = true, .type = OPTION_TEXT, .offset = FIELD(label_column), .default_value = "label",
     .metavar = "NAME", .help = "column or key of the labels"},
    {.name = "id-column", .type = OPTION_TEXT, .offset = FIELD(id_column), .metavar = "NAME",
     .help = "column or key of names for the texts, for reports; none: lines of their file"},
    {.name = "empty", .type = OPTION_CHOICE, .offset = FIELD(empty), .default_value = "skip", .metavar = "skip|error",
     .help = "a labelled text without a visible character is left out and counted, or an error"},
    {.name = "skip-bad", .type = OPTION_FLAG, .offset = FIELD(skip_bad), .default_value = "false",
     .help = "leave records out that cannot be used (no JSON, no text, no label, too many fields), and count them"},
    {.name = "merge-labels", .type = OPTION_FLAG, .offset = FIELD(merge_labels), .default_value = "false",
     .help = "take labels that differ in case only, or are the same number (0 and 0.0), for one class"},
};
// clang-format on

void bert_text_options_add(OptionSet *set, BertTextOptions *options) {
    options_add(set, table, sizeof table / sizeof *table, options);
}

CommentColumns bert_text_columns(const BertTextOptions *o) {
    return (CommentColumns){.text = o->text_column,
                            .label = o->label_column,
                            .id = o->id_column,
                            .skip_bad = o->skip_bad,
                            .refuse_empty = o->empty && !strcmp(o->empty, "error")};
}

void bert_print_left_out(const char *path, const CommentCounts *counts) {
    enum { MOST = 10 };
    if (counts->empty) {
        printf("[Data] %s: empty texts left out: %lld (line%s", path, (long long)counts->empty,
               format_plural(counts->empty));
        for (int64_t i = 0; i < counts->empty && i < MOST; i++)
            printf("%s %lld", i ? "," : "", (long long)counts->lines[i]);
        printf("%s); --empty error refuses them\n", counts->empty > MOST ? ", ..." : "");
    }
    if (counts->bad)
        printf("[Data] %s: records that cannot be used left out: %lld, the first: line %s\n", path,
               (long long)counts->bad, counts->first_bad);
}

void bert_print_labels(const char *path, const CommentCounts *counts) {
    if (counts->labels)
        printf("[Data] %s: names of classes with characters that are not composed (NFC), no-break spaces, or blanks at "
               "their ends, which are read without: %lld\n",
               path, (long long)counts->labels);
    if (counts->merged)
        printf("[Data] %s: labels that differ from their class in case only, or are the same number: %lld\n", path,
               (long long)counts->merged);
}

/* ---- tokenizer and segmenter ---- */

static Tokenizer *open_tokenizer(const BertTextOptions *o, const TokenizedModel *model) {
    Error error;
    if (model) return trained_tokenizer(model, o->tokenizer);
    if (!o->tokenizer) die_usage("no tokenizer: give --tokenizer; train_bert tokenizer makes one");
    Tokenizer *tokenizer = tokenizer_open(o->tokenizer, &error);
    if (!tokenizer) die("--tokenizer %s: %s", o->tokenizer, error.text);
    return tokenizer;
}

/* Returns the segmenter's folder of a checkpoint, in its own folder or in that of its run; free(). NULL: there is none.
 */
static char *find_segmenter(const char *checkpoint) {
    OWNED char *folder = checkpoint_folder(checkpoint), *run = path_directory(folder);
    for (int i = 0; i < 2; i++) {
        char *path = path_join(i ? run : folder, BERT_SEGMENTER_FOLDER);
        if (path_is_folder(path)) return path;
        free(path);
    }
    return NULL;
}

/* Dies if the model was trained with another segmenter, or with none where there is one. */
static void check_segmenter(const BertTexts *texts, const TokenizedModel *model) {
    const char *hash = json_string_value(json_object_get(model->description, BERT_SEGMENTER_FACT));
    if (!hash || !strcmp(hash, texts->segmenter_hash)) return;
    if (!texts->segmenter)
        die("%s was trained on segmented texts, and its segmenter is not beside it: give --segment", model->checkpoint);
    die("--segment %s: %s was trained %s: its hash is %s, not %s", texts->segmenter_folder, model->checkpoint,
        *hash ? "with another segmenter" : "on texts that are not segmented", *hash ? hash : "that of none",
        texts->segmenter_hash);
}

Segmenter *bert_segmenter_open(const char *option, const char *folder) {
    Error error;
    Segmenter *segmenter = segmenter_open(folder, &error);
    if (!segmenter) die("%s %s", option, error.text);
    return segmenter;
}

void bert_segmenter_print(const Segmenter *segmenter, const char *folder) {
    int words;
    const int rules = segmenter_size(segmenter, &words);
    printf("[Segment] %s: %d rule%s, %d words\n", folder, rules, format_plural(rules), words);
    if (segmenter_is_published(segmenter)) return;
    warn("%s: not the published segmenter, which has 1446 rules and 34203 words: if it is meant to be that one, a file "
         "is cut short or changed: fetch it anew",
         folder);
}

static void open_segmenter(BertTexts *texts, const BertTextOptions *o, const TokenizedModel *model) {
    if (o->segment)
        texts->segmenter_folder = xstrdup(o->segment);
    else if (model && json_string_length(json_object_get(model->description, BERT_SEGMENTER_FACT)))
        texts->segmenter_folder = find_segmenter(model->checkpoint);
    if (texts->segmenter_folder) {
        texts->segmenter = bert_segmenter_open("--segment", texts->segmenter_folder);
        snprintf(texts->segmenter_hash, sizeof texts->segmenter_hash, "%016llx",
                 (unsigned long long)segmenter_hash(texts->segmenter));
    }
    if (model) check_segmenter(texts, model);
}

BertTexts bert_texts_open(const BertTextOptions *o, const TokenizedModel *model, int n_threads) {
    BertTexts texts = {.tokenizer = open_tokenizer(o, model)};
    snprintf(texts.tokenizer_hash, sizeof texts.tokenizer_hash, "%016llx",
             (unsigned long long)tokenizer_hash(texts.tokenizer));
    open_segmenter(&texts, o, model);
    MUST(texts_specials(texts.tokenizer, &texts.specials, &error));
    texts.rules = (TextRules){.tokenizer = texts.tokenizer,
                              .segmenter = texts.segmenter,
                              .nfc = !o->compat && !strcmp(o->normalize, "nfc"),
                              .compat = o->compat,
                              .padding = o->compat && texts.specials.pad == BERT_PAD,
                              .max_len = (int)o->max_len,
                              .n_threads = threads_take(n_threads, "--threads")};
    return texts;
}

void bert_texts_close(BertTexts *texts) {
    segmenter_close(texts->segmenter);
    tokenizer_close(texts->tokenizer);
    free(texts->segmenter_folder);
}

/* ---- the folder of a run ---- */

static void keep_file(const char *from, const char *to, const char *name) {
    OWNED char *source = path_join(from, name), *target = path_join(to, name);
    MUST(export_copy(source, target, &error));
}

void bert_texts_keep(const BertTexts *texts, const char *directory) {
    make_directories(directory);
    MUST(tokenizer_copy(texts->tokenizer, directory, &error));
    if (!texts->segmenter) return;
    OWNED char *folder = path_join(directory, BERT_SEGMENTER_FOLDER);
    make_directories(folder);
    keep_file(texts->segmenter_folder, folder, "Model.RDR");
    keep_file(texts->segmenter_folder, folder, "VnVocab");
}
