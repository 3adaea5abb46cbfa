/* The data of a training: files, classes, splits, tokens. */
#pragma once

#include "commands/bert/model.h"
#include "commands/bert/options.h"
#include "data/bert/dataset.h"
#include "data/bert/lengths.h"
#include "data/bert/splits.h"

/* Texts of one split, in the order of their files. */
typedef struct {
    int64_t n;        /* 0: there is no such split */
    const char *path; /* of its file, the last of several; NULL: the texts of a file were divided */
    const char **texts;
    const char **files; /* [n] the path of each one's file; NULL: all are from the same */
    int64_t *lines;     /* [n] in their file, from 1 */
    int32_t *labels;    /* [n] classes; NULL: masked words */
    TokenizedTexts tokenized;
} BertSplit;

typedef struct {
    BertTexts texts; /* tokenizer: NULL: no data are given, and the texts are synthetic */
    Comments *files; /* [n_files] */
    int n_files;
    Classes classes;
    BertSplit splits[BERT_SPLITS]; /* with --folds all texts are in the first */
    bool untested;                 /* the folder's test file has no labels */
    json_t *report;                /* data_report.json; NULL: synthetic texts */
} BertData;

/* Returns the file of a split in a folder, in any format and under any of its names: valid, validation, val or dev;
 * free(). NULL: there is none. Dies if there are two. */
char *bert_split_file(const char *folder, int split);
/* Opens tokenizer and segmenter, reads the files, finds the classes, divides the texts, tokenizes them and prints the
 * data report; sets the sizes of the tables (bert_options_set_tables). Without --data, for --estimate and --dry-run,
 * makes up --rows texts. Dies if any of it cannot be used. */
BertData bert_data_open(BertOptions *options, const BertBase *base);
void bert_data_close(BertData *data);
/* Makes the splits of a fold, 0 .. --folds - 1: its texts are tested on, those of the next one validated on. */
void bert_data_fold(const BertOptions *options, const BertData *data, int fold, BertSplit splits[BERT_SPLITS]);
void bert_splits_close(BertSplit splits[BERT_SPLITS]);
/* Sets weights[classes->n] by --class-weights and the training texts, and prints them. */
void bert_data_weigh_classes(const BertOptions *options, const Classes *classes, const BertSplit *train,
                             float *weights);
/* Opens the texts of one split for masked words, in validation the same ones every time. NULL: there are none. */
Dataset *bert_data_masked(const BertData *data, int split, const BertMasking *masking);
/* Writes what a run's folder needs besides checkpoints: data_report.json, and copies of the files of tokenizer and
 * segmenter, so that the folder is all that evaluation, prediction and export need. */
void bert_data_keep(const BertData *data, const char *directory);
