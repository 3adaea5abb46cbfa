/* The test of a fold: the predictions of its best checkpoint for the validation cells, from which the threshold comes,
 * and, once, for the test donor's. */
#pragma once

#include "commands/cv/fold.h"

/* Fills predictions, kept and best_epoch of a fold that was trained, from the prediction cache if the same checkpoint
 * has predicted the same cells; exports the best weights to the reference's format. */
void cv_fold_test(CvFold *f);
