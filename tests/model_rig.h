/* A model that is ready to run in a test: on a device, with weights, gradients and an arena. */
#pragma once

#include "model/model.h"
#include "tests/test.h"

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

/* Fails unless the gradients are these, each of them not zero, to rounding: sums of some hundred terms in another
 * order, and for the gradient of the keys' bias (zero in exact arithmetic) relative to the whole tensor that it is part
 * of. */
void model_rig_check_gradients(const ModelRig *rig, const float *want);

/* Fails unless a step's first pass, before which only ParamUpdates.cleared of the gradients is cleared, and one that
 * adds to them give the gradients of two passes that add to zeros. Clears the gradients. */
void model_rig_check_first_pass(ModelRig *rig, const Batch *batch, const Pass *pass);

/* Fails unless a training pass gives the same bits with 1, 2, 3 and 8 threads. The batch must be large enough to be
 * divided. */
void model_rig_check_threads(Model *(*open)(float dropout), const Batch *batch);

/* Facts that hold for every transformer, as tests of a program: MODEL_TESTS(&small) in its table, with a small model
 * and a batch for it. */
typedef struct {
    Model *(*open)(float dropout);
    Batch (*batch)(void);
    const char *activations; /* "NAME:ELEMENTS ", for each that a pass shows, in order */
} ModelCase;

// clang-format off
#define MODEL_TESTS(model_case) \
    cmocka_unit_test_prestate(recomputing_gives_the_same_bits, model_case), \
    cmocka_unit_test_prestate(the_first_pass_of_a_step_overwrites, model_case), \
    cmocka_unit_test_prestate(padding_adds_nothing, model_case), \
    cmocka_unit_test_prestate(evaluation_drops_nothing_and_touches_no_gradient, model_case), \
    cmocka_unit_test_prestate(dropout_is_drawn_from_seed_and_step, model_case), \
    cmocka_unit_test_prestate(named_activations_are_shown_once, model_case), \
    cmocka_unit_test_prestate(the_dry_device_counts_the_work_of_the_cpu, model_case)
// clang-format on

void the_first_pass_of_a_step_overwrites(void **state);
/* A batch with padding has the metrics and gradients of the batch, to rounding, and the same bits whatever numbers the
 * padding repeats. */
void padding_adds_nothing(void **state);
/* Recomputing in the backward takes less memory. */
void recomputing_gives_the_same_bits(void **state);
/* An evaluation takes half the memory of a training step, and gives the metrics of a model without dropout. */
void evaluation_drops_nothing_and_touches_no_gradient(void **state);
void dropout_is_drawn_from_seed_and_step(void **state);
void named_activations_are_shown_once(void **state);
/* The calls, FLOPs, bytes and memory are equal: training, recomputing, evaluating. */
void the_dry_device_counts_the_work_of_the_cpu(void **state);
