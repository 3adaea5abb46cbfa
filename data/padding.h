/* Rows of padding, which give batches of many sizes few sizes, so that a device meets again what it has recorded
 * (Device.repeat). A row of padding repeats the numbers of one of the batch's rows, in a sequence of padding, and has
 * no target. So its gradient is 0, and nothing that is summed over rows changes; a head has -1 for its target. */
#pragma once

#include "data/batch.h"

typedef enum {
    PAD_NOT,
    PAD_REPEATED, /* repeats the field's rows */
    PAD_NEW_ROW,  /* the numbers of rows of padding, a different one each */
    PAD_NO_TARGET /* -1 */
} PadKind;

/* Rows that are counted together: of one head, of another head, of the whole batch. All fields of a group have as many
 * rows of padding. */
typedef enum { PAD_ONE_HEAD, PAD_OTHER_HEAD, PAD_ALL_ROWS, PAD_GROUPS } PadGroup;

/* A field's padding: i32 [N], unless it is PAD_NOT. BATCH_OFFSETS, of all batches that are padded, gets sequences of
 * padding and behind them empty ones. */
typedef struct {
    PadKind kind;
    PadGroup group;
} FieldPad;

/* Returns a bound of Batch.size of a padded batch, from one of the batch's. */
size_t batch_padded_bytes(size_t bytes);
/* Sets *padded, an open batch with room for batch_padded_bytes, to a batch with padding; its `samples` stay unused.
 * pads[BATCH_MAX_FIELDS]. More rows never get fewer rows with padding: a batch that dominates others still does. */
void batch_pad(Batch *padded, const Batch *batch, const FieldPad *pads);
