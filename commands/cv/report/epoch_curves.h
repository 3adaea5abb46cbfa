/* Curves of a run by epoch, read from its log. */
#pragma once

#include "base/base.h"

enum { CURVE_TRAIN_LOSS, CURVE_VAL_LOSS, CURVE_TRAIN_ACCURACY, CURVE_VAL_ACCURACY, EPOCH_CURVES };

typedef struct {
    double *values[EPOCH_CURVES]; /* [n]; NaN: nothing was logged */
    int n;
    int64_t left_out; /* records without a valid epoch: the file is damaged */
} EpochCurves;

/* Reads a log.jsonl: the values of each validation, and the means of the training values over the steps before it. */
EpochCurves epoch_curves_read(const char *path);
void epoch_curves_free(EpochCurves *curves);
