/* What a run's steps have taken, beside what --estimate says of exactly the work that they did: so everybody who trains
 * learns how far its arithmetic can be trusted on his machine.
 *
 * A meter runs while the loop trains, and stops for validations, checkpoints and whatever else is no step. The first
 * steps are left out: memory is touched for the first time, a GPU tries ways, and records what comes again, in each of
 * the two places that batches lie in. */
#ifndef TRAIN_METER_H
#define TRAIN_METER_H

#include "train/estimate.h"

enum { METER_LEFT_OUT = 4 };

typedef struct {
    bool runs;
    int64_t steps;
    double seconds;
    Work work;
} Meter;

/* After `step` steps, none of which is still under way; each does nothing if that is how things are. */
void meter_start(Meter *meter, const Device *device, int64_t step);
void meter_stop(Meter *meter, const Device *device, int64_t step);
/* A micro-batch of a step. */
void meter_batch(Meter *meter, const Batch *batch);
/* Seconds that the step under way has waited for what is not its own. */
void meter_waited(Meter *meter, double seconds);

typedef struct {
    int64_t steps;  /* 0: there were too few, and nothing else is known */
    double seconds; /* of a step */
    bool known;     /* what the device can do, without which there is no prediction: */
    WorkTime predicted;
} StepTime;

StepTime meter_step_time(const Meter *meter, const Training *training);
/* "83.1 ms (the mean of 97), predicted 79.5 ms (measured / predicted 1.05), bound by compute". */
void meter_text(const StepTime *time, const Training *training, char text[256]);

#endif
