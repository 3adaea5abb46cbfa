/* What a run says at its start, and the picture of its loss at its end. */
#ifndef TRAIN_REPORT_H
#define TRAIN_REPORT_H

#include "train/loop.h"

void report_start(const Training *training, int64_t total_steps, int64_t batches_an_epoch, int64_t validation_batches);
/* Writes DIRECTORY/loss.svg from DIRECTORY/log.jsonl: training and validation curve of the metric, and the known floor.
 * False: it cannot be written, which is warned of. */
bool report_plot(const char *directory, const Model *model, const char *floor_name, double floor_value, int metric);

#endif
