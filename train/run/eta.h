/* Predicts the time that is left of a run.
 *
 * A run consists of steps and of pauses between them. The time of a step is measured in this part of the run, data
 * waits included, after the first step and again after the first METER_LEFT_OUT, when nothing is compiled, chosen or
 * recorded any more. A pause takes as long as those of its kind before it; until there is one, its kind is not counted.
 * Nothing here reads a clock. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* A validation, with the checkpoint if its weights are the best so far; a checkpoint of --save-interval. */
typedef enum { PAUSE_VALIDATION, PAUSE_CHECKPOINT, PAUSES } Pause;

typedef struct {
    double step_seconds; /* 0: not measured yet */
    double seconds[PAUSES];
    int64_t count[PAUSES];
    Pause latest;
    /* The beginning of the measurement: the clock, the seconds of all pauses until then, the steps done. */
    bool begun;
    double from, paused;
    int64_t steps;
} Eta;

/* The pauses and steps that are left. */
typedef struct {
    int64_t steps, count[PAUSES];
} EtaLeft;

/* Returns whether eta_step needs the results of these first steps, so that they are over when the clock is read. */
bool eta_needs(int64_t done);
/* Notes that this part of the run has done `done` steps at time `now`, in seconds of any clock. */
void eta_step(Eta *eta, int64_t done, double now);
/* Notes a pause that took some seconds. */
void eta_pause(Eta *eta, Pause pause, double seconds);
/* Adds seconds to the latest pause, which the run has waited for later. */
void eta_wait(Eta *eta, double seconds);
/* Returns the seconds that are left; NaN before the time of a step is known. */
double eta_seconds(const Eta *eta, const EtaLeft *left);

/* The plan of a run. */
typedef struct {
    int64_t step, last;                 /* steps done, in all parts of the run, at least 1; the last step */
    int64_t save_interval;              /* 0: only at the end */
    bool validates;                     /* whether there is validation data */
    int64_t val_interval;               /* 0: at the end of each epoch */
    int64_t batch_index, epoch_batches; /* micro-batches of the epoch so far, and in all */
    int64_t batches_per_step;
} EtaPlan;

/* Counts what is left when `step` steps are done, but not yet the pauses that follow the last of them. The run ends
 * with a validation and a checkpoint in any case. */
EtaLeft eta_left(const EtaPlan *plan);
