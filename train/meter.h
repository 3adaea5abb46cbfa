/* Measures the time of a run's steps, and predicts the time of exactly the work that they did: comparing both shows how
 * far --estimate can be trusted on this machine.
 *
 * A meter runs during steps, and stops for validations, checkpoints and everything else. The first steps do not count,
 * because memory is touched for the first time, and a GPU tries algorithms and records graphs for each of its two batch
 * buffers. */
#pragma once

#include "cost/cost.h"
#include "train/spec.h"

enum { METER_LEFT_OUT = 4 };

typedef struct {
    bool runs;
    int64_t steps;
    double seconds;
    Work work;
} Meter;

/* Start and stop the meter after `step` steps, between steps. Do nothing if the meter already runs, or is stopped;
 * meter_start also does nothing during the first METER_LEFT_OUT steps. */
void meter_start(Meter *meter, const Device *device, int64_t step);
void meter_stop(Meter *meter, const Device *device, int64_t step);
/* Counts a micro-batch of the step under way. */
void meter_batch(Meter *meter, const Batch *batch);
/* Excludes seconds in which the step under way waited for something else. */
void meter_waited(Meter *meter, double seconds);

typedef struct {
    int64_t steps;  /* measured; 0: too few, and the other fields are not set */
    double seconds; /* per step, measured */
    bool known;     /* whether the device's rates are known, so that there is a prediction */
    WorkTime predicted;
} StepTime;

/* Returns the mean time of a step, measured and, on a machine whose rates are known (else NULL), predicted. */
StepTime meter_step_time(const Meter *meter, const Machine *machine);
/* Writes "83.1 ms (mean of 97; the first 3 are left out), predicted 79.5 ms (measured / predicted 1.05), bound by
 * compute". */
void meter_text(const StepTime *time, const TrainSpec *spec, char text[256]);
