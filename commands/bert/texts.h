/* The options by which texts become tokens, and the tokenizer and the segmenter that they name. All commands share
 * them, so that a text has the same ids in training, evaluation and prediction. */
#pragma once

#include "base/options.h"
#include "commands/trained_tokenizer.h"
#include "data/bert/comments.h"
#include "data/bert/texts.h"

typedef struct {
    const char *tokenizer, *segment, *normalize; /* tokenizer, segment: NULL: not given */
    const char *text_column, *label_column, *id_column;
    const char *empty; /* NULL: the option is not there */
    int64_t max_len;
    bool compat, skip_bad, merge_labels;
} BertTextOptions;

/* The options that decide the ids of a text, besides the two folders; config.json has them. */
#define BERT_TEXT_RULES "max-len", "normalize", "compat"
/* The fact in config.json that tells the segmenter_hash of the training, in hexadecimal digits (empty: there was none);
 * TOKENIZER_FACT tells the tokenizer. */
#define BERT_SEGMENTER_FACT "segmenter_hash"
/* The segmenter's folder in the folder of a run. */
#define BERT_SEGMENTER_FOLDER "segmenter"

void bert_text_options_add(OptionSet *set, BertTextOptions *options);
CommentColumns bert_text_columns(const BertTextOptions *options);
/* Prints which records of a file, or of standard input, were left out, if there are any. */
void bert_print_left_out(const char *path, const CommentCounts *counts);
/* Prints how many labels of a file were changed or merged, if there are any. */
void bert_print_labels(const char *path, const CommentCounts *counts);

/* How texts become tokens. */
typedef struct {
    Tokenizer *tokenizer;
    Segmenter *segmenter;    /* NULL: none */
    char *segmenter_folder;  /* NULL: none */
    char tokenizer_hash[17]; /* in hexadecimal digits */
    char segmenter_hash[17]; /* "": none */
    SpecialIds specials;
    TextRules rules;
} BertTexts;

/* Opens the tokenizer and the segmenter of the options, else those of a model: in the folder of its checkpoint or of
 * its run. model: NULL: there is none. n_threads: 0: all processors. Dies if there is no tokenizer, if a file is
 * damaged, if the model was trained with others, or if its segmenter is not found. */
BertTexts bert_texts_open(const BertTextOptions *options, const TokenizedModel *model, int n_threads);
void bert_texts_close(BertTexts *texts);
/* Opens the segmenter of a folder that an option names. Dies if a file cannot be read or is damaged. */
Segmenter *bert_segmenter_open(const char *option, const char *folder);
/* Prints the sizes of a segmenter, and warns if it is not the published one, of which rules may be missing. */
void bert_segmenter_print(const Segmenter *segmenter, const char *folder);
/* Copies the files of both into a folder, so that it is all that evaluation, prediction and export need. Dies if they
 * cannot be written. */
void bert_texts_keep(const BertTexts *texts, const char *directory);
