/* The fields of a batch for the FLIM classifier, of B cells, whose counts lie in the device's memory
 * (Dataset.device_data). */
#pragma once

#include "data/batch.h"

enum {
    CV_OFFSETS = BATCH_OFFSETS, /* i32 [B + 1]  a cell is one row */
    CV_CELLS,                   /* i32 [B]  rows of the counts */
    CV_DRAWS,                   /* i32 [B, AUGMENT_DRAW_WORDS]  the augmentation of each: an AugmentDraws, bit by bit */
    CV_PARTNERS,                /* i32 [B]  the cell that each is mixed with; none: the batch is not mixed */
    CV_SHARE,                   /* f32 [1]  the share of each cell's own counts in the mixture */
    CV_TARGETS,                 /* f32 [B]  the labels, smoothed and mixed */
    CV_LABELS,                  /* f32 [B]  0, 1 */
    CV_FIELDS
};
enum { CV_COUNT_CELLS, CV_COUNTS }; /* indices into Batch.counts */
