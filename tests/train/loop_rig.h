/* For tests of the loop from inside: a classifier of a few numbers, whose samples lie in a device dataset, and runs of
 * it in a child process, which may die. */
#pragma once

#include <math.h>

#include "tests/files.h"
#include "train/train.h"

enum { FEATURES = 5, CLASSES = 3 };

/* The data: sample i has the features x[i]; its class is the largest of the first three. */
typedef struct {
    Dataset face;
    float *x; /* [n, FEATURES] */
} Toy;

/* Makes n samples; close with Dataset.close. */
Dataset *toy_open(int64_t n, uint64_t seed);
/* Returns the data behind the data set. */
const Toy *toy_of(const Dataset *face);
/* Fills a batch: the data set's own function. */
bool toy_fill(const Dataset *face, Batch *batch, const int32_t *samples, int n, Error *error);

/* A run: everything that a program would have. */
typedef struct {
    TrainOptions options;
    OptionSet set;
    TrainSpec spec;
    Training *training; /* opened by toy_train */
    Dataset *train, *validation;
    char *line; /* of the command, into which options point */
} ToyRun;

/* Opens a run with the options of a command line without quotes. 0 samples of validation: there are none. */
ToyRun *toy_run_open(Device *device, const char *directory, const char *arguments, int64_t n_train,
                     int64_t n_validation, uint64_t seed);
/* Closes a run that was never trained. */
void toy_run_forget(ToyRun *run);
void toy_run_close(ToyRun *run);
/* Sets the hook of the learning rate. Its context is the run. */
void toy_set_rate(ToyRun *run, double (*at)(const void *context, int group, int64_t step, int64_t epoch));
/* Return options of the run that is the context of such a hook. */
const char *toy_output_dir(const void *context);
double toy_rate(const void *context);
/* Trains from the opening to the end; dies if that fails. */
void toy_train(ToyRun *run);

/* The output of the last child process. */
extern char toy_output[1 << 16];
/* Calls work(argument) in a child process. Returns its exit status. */
int toy_try(void (*work)(void *), void *argument);
/* The same, for work that must succeed. */
void toy_must(void (*work)(void *), void *argument);

/* Ends a child process that finds something wrong. */
#define must_hold(condition)                                                                                           \
    do {                                                                                                               \
        if (!(condition)) die("%s:%d: not so: %s", __FILE__, __LINE__, #condition);                                    \
    } while (0)

/* Fails unless the last checkpoints of two runs have the same weights. */
void assert_same_weights(const char *a, const char *b);

/* The outputs that toy_judge has received, and the values that it returns. */
typedef struct {
    float seen[64 * CLASSES];
    int64_t n;
    int calls;
    double verdicts[64]; /* in their order; 0: the share of errors */
    int n_verdicts;
    const ToyRun *run;
} Judged;

/* Computes the share of errors of the outputs, or the next verdict; context: a Judged. */
double toy_judge(void *context, const float *outputs, int64_t n, double *values);
/* Makes toy_judge decide which weights of the run are the best. */
void set_judge(ToyRun *run, Judged *judged);

/* Opens the device of the tests that every device has (tests/train/device_rig.c): a program that sets it has them. */
extern Device *(*toy_device)(void);
