/* Several trainings in a row, with the tests between them: folds, seeds, sensors, stages.
 *
 *     Trainings all = trainings_begin(&options, "the same command continues");
 *     trainings_deal(&all, n);
 *     do
 *         for (...) {
 *             if (trainings_train(&all, i)) {
 *                 trainings_name(&all, left, "fold %d of %d", i + 1, n);
 *                 trainings_label(&all, &spec);
 *                 Training *training = train_open(&spec);
 *                 trainings_add(&all, training);
 *                 ... train_run, train_close ...
 *             }
 *             if (trainings_test(&all)) ... test ...
 *         }
 *     while (trainings_again(&all));
 *     trainings_end(&all, done);
 *
 * The ranks of a job that are parted (train/parallel/ranks.h) do them side by side: each trains some, in a first walk
 * over all; in a second one, when all are trained, the first rank tests them one after the other, from their
 * checkpoints. Ranks that train together test nothing but in the first rank. */
#pragma once

#include "base/base.h"
#include "train/train.h"

typedef struct {
    const TrainOptions *options;
    const char *to_continue;
    double start, seconds_before, cost_before; /* of the trainings, in earlier parts; the cost NaN: not known */
    char part[96];                             /* which one trains: "fold 2 of 6"; "": there is only one */
    int follow;                                /* trainings after it that are as long */
    bool dealt;                                /* side by side */
    bool tests;                                /* the second walk, after those that were dealt */
    int status;                                /* of a training that has failed; 0: none has */
} Trainings;

/* Begins to count, in this part by the clock. Dies if --output-dir itself is the folder of a run. The options, whose
 * price and --output-dir are used, must outlive it. to_continue: what continues the trainings after a signal. */
Trainings trainings_begin(const TrainOptions *options, const char *to_continue);
/* Lets ranks that are parted train n trainings side by side, number i in the rank i mod ranks, and print from now on.
 * Does nothing otherwise. */
void trainings_deal(Trainings *all, int n);
/* Returns whether this process trains number i, 0 .. n - 1. all NULL: there is one, which it trains. */
bool trainings_train(const Trainings *all, int i);
/* Returns whether this process now does what follows a training; then it does so alone, until trainings_train. */
bool trainings_test(const Trainings *all);
/* Takes note of a training that has failed, with the exit status of the program. Returns only side by side, where the
 * trainings of other ranks go on, but no other of this one should. all NULL: there is one. */
void trainings_fail(Trainings *all, int status);
/* Ends a walk over all trainings. Returns whether another one follows, to test. Waits for all ranks; those other than
 * the first end here, and all do if a training has failed. A signal to one of them stops the first, too. */
bool trainings_again(Trainings *all);
/* Says which training comes next. */
void trainings_name(Trainings *all, int follow, const char *format, ...) PRINTF_LIKE(3, 4);
/* Puts its name into the lines of the training of a spec. trainings NULL: there is one, which needs none. */
void trainings_label(const Trainings *all, TrainSpec *spec);
/* Adds what earlier parts of a training took that was opened and does not run yet. trainings NULL: does nothing. */
void trainings_add(Trainings *all, Training *training);
/* Prints, unless all are done, that a signal stopped them and what continues them; then "[Run] in all: 1h12m, 0.96
 * EUR", only the time if there is no price. */
void trainings_end(const Trainings *all, bool done);
