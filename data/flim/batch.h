/* The fields of a batch for the FLIM classifier, of B cells, whose counts lie in the device's memory
 * (Dataset.device_data). */
#ifndef DATA_FLIM_BATCH_H
#define DATA_FLIM_BATCH_H

#include "data/batch.h"

enum {
    FLIM_OFFSETS = BATCH_OFFSETS, /* i32 [B + 1]  a cell is one row */
    FLIM_CELLS,                   /* i32 [B]  rows of the counts */
    FLIM_DRAWS,    /* i32 [B, AUGMENT_DRAW_WORDS]  the augmentation of each: an AugmentDraws, bit by bit */
    FLIM_PARTNERS, /* i32 [B]  the cell that each is mixed with; none: the batch is not mixed */
    FLIM_SHARE,    /* f32 [1]  the share of each cell's own counts in the mixture */
    FLIM_TARGETS,  /* f32 [B]  the labels, smoothed and mixed */
    FLIM_LABELS,   /* f32 [B]  0, 1 */
    FLIM_FIELDS
};
enum { FLIM_COUNT_CELLS, FLIM_COUNTS }; /* indices into Batch.counts */

#endif
