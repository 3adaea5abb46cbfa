/* The decision.json of a fold's best checkpoint: the threshold that validation cells chose, and the temperature. */
#pragma once

#include "commands/cv/fold.h"
#include "commands/cv/report/tested_fold.h"
#include "commands/threshold_decision.h"

typedef struct {
    ThresholdDecision chosen; /* active if p > threshold */
    bool views;               /* p is the mean over CV_VIEWS views of a cell, as at the choice of the threshold */
    json_t *donors;           /* names of the donors that it was trained on; json_decref() */
} CvDecision;

/* Writes the decision of a fold that was tested beside its best weights. */
bool cv_decision_write(const CvFold *fold, const FoldResult *result, Error *error);
/* Reads the decision of a checkpoint; one that has none decides at 0.5. */
bool cv_decision_read(const char *checkpoint, CvDecision *decision, Error *error);
