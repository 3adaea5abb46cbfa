/* Prints what a run is at its start, and plots its curves at its end. */
#pragma once

#include "train/spec.h"

/* Warns if the run is over before its warm-up of the learning rate is. */
void report_check_warmup(const TrainSpec *spec, int64_t total_steps);
/* Warns if a run goes a thousand times or more through its data. */
void report_check_epochs(const TrainSpec *spec, int64_t total_steps, int64_t epoch_batches);
void report_start(const TrainSpec *spec, int64_t total_steps, int64_t batches_an_epoch, int64_t validation_batches);
/* Writes DIRECTORY/loss.svg from DIRECTORY/log.jsonl: the training and validation curves of the metric and the
 * baseline; and DIRECTORY/curves.svg, which has a chart for every metric, the learning rate, the gradient norm and the
 * speed. Warns and returns false if the file cannot be written. */
bool report_plot(const char *directory, const Model *model, const BaselineSpec *baseline);
