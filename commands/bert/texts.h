/* The options by which texts become tokens, and the tokenizer and the segmenter that they name. All commands share
 * them, so that a text has the same ids in training, evaluation and prediction. */
#ifndef COMMANDS_BERT_TEXTS_H
#define COMMANDS_BERT_TEXTS_H

#include "base/json.h"
#include "base/options.h"
#include "data/bert/comments.h"
#include "data/bert/texts.h"

typedef struct {
    const char *tokenizer, *segment, *normalize; /* tokenizer, segment: NULL: not given */
    const char *text_column, *label_column, *id_column;
    int64_t max_len;
    bool compat;
} BertTextOptions;

/* The options that decide the ids of a text, besides the two folders; config.json has them. The last is NULL. */
#define BERT_TEXT_RULES "max-len", "normalize", "compat"
/* Facts in config.json: tokenizer_hash and segmenter_hash (empty: none) of the training, in hexadecimal digits. */
#define BERT_TOKENIZER_FACT "tokenizer_hash"
#define BERT_SEGMENTER_FACT "segmenter_hash"
/* The segmenter's folder in the folder of a run. */
#define BERT_SEGMENTER_FOLDER "segmenter"

void bert_text_options_add(OptionSet *set, BertTextOptions *options);
CommentColumns bert_text_columns(const BertTextOptions *options);

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

/* Opens the tokenizer and the segmenter of the options, else those of a checkpoint: in its folder, in the folder of its
 * run, or beside its file. checkpoint: NULL: there is none. description: its config.json, whose hashes they must have;
 * NULL: not known. Dies if there is no tokenizer, if a file is damaged, or if a hash differs. */
BertTexts bert_texts_open(const BertTextOptions *options, const char *checkpoint, const json_t *description,
                          int n_threads);
void bert_texts_close(BertTexts *texts);
/* Copies the files of both into a folder, so that it is all that evaluation, prediction and export need. */
void bert_texts_keep(const BertTexts *texts, const char *directory);

#endif
