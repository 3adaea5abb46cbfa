/* Builds a line of log.jsonl from named values and the means of metrics. */
#pragma once

#include "train/run/run.h"

enum { RECORD_NAME = 48, RECORD_MAX = MODEL_MAX_METRICS + TRAIN_MAX_METRICS + 16 };

/* The values of a record, with storage for their names. */
typedef struct {
    char names[RECORD_MAX][RECORD_NAME];
    LogValue values[RECORD_MAX];
    int n;
} Record;

enum { RECORD_TEXT = 512 }; /* bytes of the text of all metrics */

void record_add(Record *record, double value, const char *format, ...) PRINTF_LIKE(3, 4);
/* Adds a value for each metric of the model: "KIND/name". */
void record_metrics(Record *record, const Model *model, const char *kind, const double *values);
/* Writes the record as a line of log.jsonl. */
void record_log(Run *run, const char *kind, const Record *record);
/* Stores the record's values in the checkpoint's list of latest values, from index `at` on. */
void record_remember(TrainState *state, int at, const Record *record);
/* Returns the divisor of a sum over rows: their number, or the sum of their weights; 1 if there are none, because then
 * the sum is 0. */
double record_divisor(double count);
/* Returns the weight of one row of a metric's loss in the objective of the step, of whose micro-batch these are the
 * counts; all: those of the step. */
float record_loss_scale(const Run *run, int metric, const double *counts, const double *all);
/* Computes the means of the metrics, sums divided by counts, and writes "text_loss=5.1234 mel_loss=...". Returns the
 * objective. */
double record_means(const Model *model, const double *sums, const double *counts, double *means,
                    char text[RECORD_TEXT]);
