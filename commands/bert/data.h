/* The data of a training: files, classes, splits, tokens. */
#ifndef COMMANDS_BERT_DATA_H
#define COMMANDS_BERT_DATA_H

#include "commands/bert/options.h"
#include "data/bert/classes.h"
#include "data/bert/dataset.h"
#include "data/bert/splits.h"

/* Texts of one split, in the order of their files. */
typedef struct {
    const char *name; /* "train", "validation", "test" */
    int64_t n;        /* 0: there is no such split */
    const char **texts;
    const char **ids;   /* [n]; NULL: no --id-column */
    const char **files; /* [n] the path of each */
    int64_t *lines;     /* [n] and its line there */
    int32_t *labels;    /* [n] classes; NULL: masked words */
    TokenizedTexts tokenized;
} BertSplit;

enum { BERT_MAX_FILES = 64 };

typedef struct {
    BertTexts texts; /* without data: nothing is open */
    Comments files[BERT_MAX_FILES];
    int n_files;
    Classes classes;
    BertSplit splits[BERT_SPLITS]; /* as the files have them, or as --split-shares divides the only one */
    bool synthetic;                /* no data are given: made-up texts, of which only lengths are known */
} BertData;

/* Opens tokenizer and segmenter, reads the files, finds the classes, divides the texts, tokenizes them and prints the
 * data report. Dies if any of it cannot be used. description: config.json of the base checkpoint; NULL: none. */
BertData bert_data_open(const BertOptions *options, const json_t *description);
void bert_data_close(BertData *data);
/* Makes the splits of one fold, 0 .. --folds - 1, of the training and the validation texts: the texts of the fold are
 * the test split, those of the next one the validation split. bert_splits_close. */
void bert_data_fold(const BertOptions *options, const BertData *data, int fold, BertSplit splits[BERT_SPLITS]);
void bert_splits_close(BertSplit splits[BERT_SPLITS]);

#endif
