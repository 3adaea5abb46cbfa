/* The parts that the commands `predict` of all programs share: the weights that --checkpoint names, and where
 * predictions go. */
#pragma once

#include "base/file.h"
#include "base/options.h"
#include "commands/trainer.h"
#include "report/table.h"

typedef struct {
    OptionList checkpoints;
    const char *output, *format;
} PredictOptions;

/* Adds --checkpoint, --output and --format. */
void predict_options_add(OptionSet *set, PredictOptions *options);

/* Adds the options of a training that computing without training needs, too. */
void predict_train_options_add(OptionSet *set, TrainOptions *train);

/* The checkpoints that predict together: their probabilities are averaged. */
typedef struct {
    char **paths; /* [n] directories or files */
    int n;
} Ensemble;

/* Returns the checkpoints that --checkpoint names. A path is a file of weights, a checkpoint's folder, the folder of a
 * run, of which the best checkpoint is taken, or a folder with several runs RUNSNAME (such as fold_D1; "": of any
 * name), of which the best of each is taken. Dies if a path leads to no weights, or if one is named twice. */
Ensemble predict_ensemble(const PredictOptions *options, const char *runs);
void predict_ensemble_free(Ensemble *ensemble);

/* Prints how often each class was predicted, by so many models: "class 0: 1 text, class 1: 2 texts". */
void predict_print_counts(int models, const char *const *names, const int64_t *counts, int classes, const char *row);

/* Where predictions are written, some thousand rows at a time. */
typedef struct {
    const char *path;   /* NULL: standard output */
    bool lines;         /* JSON Lines; otherwise CSV */
    int64_t rows;       /* written so far */
    FILE *stream;       /* the original standard output, if path is NULL; text for people goes to stderr then */
    FileWriter *writer; /* of the file */
} PredictOutput;

/* Opens --output before anything is computed. Dies if the file may not be written. */
PredictOutput predict_output_open(const PredictOptions *options);
/* Call it after each row that was added to the table: writes the rows and removes them from it when they are many. */
void predict_output_row(PredictOutput *output, Table *table);
/* Writes the rows so far, for someone who waits for them at standard output. */
void predict_output_flush(PredictOutput *output, Table *table);
/* Writes the other rows. A file appears whole or not at all. Dies if a row could not be written. */
void predict_output_close(PredictOutput *output, Table *table);
