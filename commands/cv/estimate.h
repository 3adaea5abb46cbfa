/* --estimate and --dry-run of train_cv. */
#pragma once

#include "commands/cv/fold.h"

/* Prints the estimate of the longest fold in full, and the sum of all trainings, without the tests. */
void cv_estimate(const CvRun *run, const CvFold *folds, int n);
