/* A model that is ready to run in a test: on a device, with weights, gradients and an arena. */
#ifndef TESTS_MODEL_RIG_H
#define TESTS_MODEL_RIG_H

#include "model/model.h"
#include "tests/helpers.h"

typedef struct {
    Model *model;
    Device *device;
    Arena arena;
    Tensor sums; /* metrics of the last run, summed */
    PassNumbers *numbers;
} ModelRig;

/* Opens a rig that owns the model and the device. Gradients are zero; weights are initialised if the device computes on
 * the host. */
ModelRig model_rig_open(Model *model, Device *device, size_t arena_bytes);
void model_rig_close(ModelRig *rig);
/* Allocates a flat buffer as long as the parameters. */
Tensor model_rig_flat(ModelRig *rig);
/* Releases the two moments of AdamW, from model_rig_flat, and a norm of 64 bytes. */
void model_rig_release_moments(ModelRig *rig, Tensor m, Tensor v, Tensor norm);
/* Copies the moving buffers (params_moving) to the gradients, as at the beginning of a step, or back, as at the end of
 * the update. norm: norm of the gradients. */
void model_rig_copy_moving(ModelRig *rig, bool back, Tensor norm);
void model_rig_clear_gradients(ModelRig *rig);
/* Returns a training pass whose loss is `share` times the weighted means over these counts. */
Pass model_rig_pass(const ModelRig *rig, const double *counts, double share);
void model_rig_run(ModelRig *rig, const Batch *batch, const Pass *pass);
/* Returns a copy of a tensor on the host; free(). */
float *copy_floats(Tensor t);

/* Checks of facts that hold for every transformer. The rigs are on the cpu, and their models have dropout unless said
 * otherwise. */

/* Recomputing in the backward gives the same bits in less memory. */
void model_rig_check_recompute(ModelRig *rig, const Batch *batch);
/* An evaluation touches no gradient, takes half the memory of a training step, and gives the metrics of `without`,
 * which has the same weights and no dropout. */
void model_rig_check_evaluation(ModelRig *rig, ModelRig *without, const Batch *batch);
/* Dropout is drawn from seed and step. */
void model_rig_check_dropout(ModelRig *rig, const Batch *batch);
/* The dry device counts the calls, FLOPs, bytes and memory of the cpu: training, recomputing, evaluating. */
void model_rig_check_dry(ModelRig *cpu, ModelRig *dry, const Batch *batch);

#endif
