/* For tests of whole training steps on the cuda device against the cpu device: a model on one of them, its batches, its
 * optimizer, and the results of a step on the host. */
#pragma once

#include "model/model.h"
#include "tests/cuda/rig.h"

/* One device's side of a run. */
typedef struct {
    Device *device;
    Model *model;
    Arena arena;
    Tensor m, v, norm, sums, outputs, device_data;
    PassNumbers *numbers; /* on the device */
    const Batch *batches; /* of one shape; micro-batches take them in turn */
    int n_batches;
    char *memory; /* a batch on the device */
    ParamUpdates updates;
    Segment *moving;
    int n_moving;
    int64_t n_updates;
    bool *unwritten;                           /* see Pass */
    float *weights, *gradients, *host_outputs; /* on the host: after a step; host_outputs after a validation */
    float host_norm, host_sums[MODEL_MAX_METRICS];
    bool repeat; /* micro-batches by Device.repeat */
} Side;

/* Takes ownership of the model. `start` holds the weights. A device dataset may follow each batch's last field. */
Side side_open(Device *device, Model *model, const float *start, const Batch *batches, int n_batches, DType half);
void side_close(Side *side);
/* Runs micro-batches and an update; weights, gradients, norm and sums are on the host then. */
void side_steps(Side *side, bool recompute, uint32_t micro_batches);
/* Runs two micro-batches and an update. */
void side_step(Side *side, bool recompute);
/* Runs a step of two equal sides under two schedules, and requires the same bits. */
void side_step_twice(Rig *rig, Side *got, Side *again, bool recompute);
/* Runs a pass of validation over a batch, and downloads host_sums and host_outputs. */
void side_validate(Side *side, int batch);

/* Returns |got - want| / |want|, or |got| if want is 0. */
double distance(const float *got, const float *want, int64_t n);
/* Returns the largest distance of a parameter, and its name. buffers: of buffers instead of parameters. */
double largest_distance(const ParamTable *table, const float *got, const float *want, bool buffers, const char **where);
/* Returns the tolerance of a type: f32 differs only in the order of sums; a 16-bit type has `roundings` roundings in
 * sequence, whose independent relative errors add up to sqrt(roundings) of them, times 4 for their spread. */
double tolerance_of(DType half, int roundings);

/* Runs a comparison of steps in each type, as the tests of a program. Returns the exit status. */
int step_tests_run(void (*compare)(DType half));
