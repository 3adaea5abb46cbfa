/* Several trainings in a row, with the tests between them: folds, seeds, sensors, stages.
 *
 *     Trainings all = trainings_begin(&options);
 *     for (...) {
 *         trainings_name(&all, left, "fold %d of %d", i + 1, n);
 *         trainings_label(&all, &spec);
 *         Training *training = train_open(&spec);
 *         trainings_add(&all, training);
 *         ... train_run, train_close ...
 *     }
 *     trainings_end(&all, done, "the same command continues"); */
#pragma once

#include "base/base.h"
#include "train/train.h"

typedef struct {
    const TrainOptions *options;
    double start, seconds_before, cost_before; /* of the trainings, in earlier parts; the cost NaN: not known */
    char part[96];                             /* which one trains: "fold 2 of 6"; "": there is only one */
    int follow;                                /* trainings after it that are as long */
} Trainings;

/* Begins to count, in this part by the clock. Dies if --output-dir itself is the folder of a run. The options, whose
 * price and --output-dir are used, must outlive it. */
Trainings trainings_begin(const TrainOptions *options);
/* Says which training comes next. */
void trainings_name(Trainings *all, int follow, const char *format, ...) PRINTF_LIKE(3, 4);
/* Puts its name into the lines of the training of a spec. trainings NULL: there is one, which needs none. */
void trainings_label(const Trainings *all, TrainSpec *spec);
/* Adds what earlier parts of a training took that was opened and does not run yet. trainings NULL: does nothing. */
void trainings_add(Trainings *all, Training *training);
/* Prints, unless all are done, that a signal stopped them and what continues them; then "[Run] in all: 1h12m, 0.96
 * EUR", only the time if there is no price. */
void trainings_end(const Trainings *all, bool done, const char *to_continue);
