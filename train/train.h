/* The engine: trains a model as a TrainSpec says. A program fills the spec, then
 *   Training *training = train_open(&spec);
 *   int status = train_run(training);
 *   train_close(training); */
#pragma once

#include "train/spec.h"

/* Plans the memory on the dry device, prints the plan by group, and allocates. Dies if the run does not fit, with
 * options that would make it fit. Then initialises the weights, imports the base checkpoint, or resumes. The spec is
 * copied; what the spec points to must outlive the training. */
Training *train_open(const TrainSpec *spec);
/* Opens a training for train_outputs only: without gradients, optimizer, or a run in --output-dir. All weights come
 * from --base-checkpoint. Memory is planned for the validation data, or for `train` if there are none. */
Training *train_open_inference(const TrainSpec *spec);
/* Releases everything that train_open took: another training may follow on the same device. */
void train_close(Training *training);

/* Trains until the last step or a signal. Returns the exit status of the program. */
int train_run(Training *training);
/* Computes the model's outputs for every sample of a data set, in its order: [n_samples, n_outputs] on the host. */
void train_outputs(Training *training, const Dataset *dataset, float *outputs);
/* Writes the autotune cache to its file, if the device has new entries. `directory` is the current path of the run's
 * folder, which may have been moved since the start. */
void train_write_autotune_cache(Training *training, const char *directory);

/* Returns the state that checkpoints keep. */
TrainState *train_state(Training *training);
/* Returns the report of the base checkpoint's import; all 0 if there was none. */
const ImportReport *train_import_report(const Training *training);
/* Returns the path of the checkpoint that the run resumed from; NULL for a fresh start. */
const char *train_resumed_from(const Training *training);
/* Returns whether the run ended by itself, at its last step or out of patience, even if a signal came meanwhile. */
bool train_ended(const Training *training);

/* Returns the optimizer's settings before the first update (step 0); segments have the learning rates. */
AdamW train_adamw(const TrainSpec *spec);

/* Returns the learning rate that --learning-rate, --warmup-steps and the spec's schedule give for a step; `total`: the
 * steps of the schedule. */
double train_learning_rate(const TrainSpec *spec, int64_t step, int64_t total);

/* Writes a text to log.jsonl and TensorBoard, at the current step. Only during train_run: for ValidationHook. */
void train_log_text(Training *training, const char *name, const char *text);

/* Prints the memory that train_open would take, the parameters, and the FLOPs and bytes by operation of one optimizer
 * step of the largest micro-batches. Trains nothing. */
void train_dry_run(const TrainSpec *spec);
