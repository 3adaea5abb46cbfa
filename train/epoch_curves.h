/* What a run has logged, by epoch. */
#ifndef TRAIN_EPOCH_CURVES_H
#define TRAIN_EPOCH_CURVES_H

#include "base/base.h"

enum { CURVE_TRAIN_LOSS, CURVE_VAL_LOSS, CURVE_TRAIN_ACCURACY, CURVE_VAL_ACCURACY, EPOCH_CURVES };

typedef struct {
    double *values[EPOCH_CURVES]; /* [n]; NaN: nothing was logged */
    int n;
    int64_t left_out; /* records whose epoch is none: the file is damaged */
} EpochCurves;

/* Reads a log.jsonl: what each validation measured, and the mean over the steps before it of what training did. */
EpochCurves epoch_curves_read(const char *path);
void epoch_curves_free(EpochCurves *curves);

#endif
