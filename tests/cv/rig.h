/* The FLIM classifier in tests: batches of given inputs instead of augmented cells, and the weights of the golden
 * values. */
#pragma once

#include "model/cv/cv.h"
#include "tests/cv/golden.h"
#include "tests/golden.h"

enum { CV_GOLDEN_CELLS = 4 };
extern const CvConfig cv_full_config, cv_small_config;

/* Returns how many rows (positions) a number of cells has. */
int64_t cv_rows(const CvConfig *config, int64_t cells);
/* Opens a model that reads its input from the device dataset, f32 [B bins side side, 2]. */
Model *cv_open_for_inputs(const CvConfig *config);
/* Makes a batch of n cells with inputs x, which it does not own. */
Batch cv_batch(const CvConfig *config, float *x, const float *targets, const float *labels, int n);
/* Converts [B, 2, T, H, W] to rows of channels; free(). */
float *cv_channels_last(const float *from, int64_t cells, int64_t positions);
/* Absorbs a bias that only the reference has: subtracts it from the running mean of the norm that follows. */
void cv_absorb_bias(const ParamTable *table, float *flat, int layer, const float *bias);
/* Fills the weights by the golden values' formula, which depends on the tensor's place in the reference's order and on
 * the element's index. */
void cv_fill_parameters(const ParamTable *table, float *flat);
/* Returns the specification's four cells; free(). */
float *cv_golden_cells(void);
