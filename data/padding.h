/* Rows of padding, which give batches of many sizes few sizes, so that a device meets again what it has recorded
 * (Device.repeat). A row of padding repeats the numbers of one of the batch's rows, in a sequence of padding, and has
 * no target. So its gradient is 0, and nothing that is summed over rows changes. */
#pragma once

#include "data/batch.h"

typedef enum {
    PAD_NOT,
    PAD_REPEATED, /* repeats the field's numbers */
    PAD_NONE,     /* -1: no row, no target */
    PAD_NEW_ROW   /* the batch's rows of padding, each once, then -1 */
} PadKind;

/* How many rows of padding a field gets. */
typedef enum {
    PAD_LIST,         /* those that round up its own */
    PAD_LIST_AND_NEW, /* the same, but with room for all rows of padding of the batch, which it writes */
    PAD_ALL_ROWS      /* those of the batch: it has a number for each row */
} PadSize;

/* The padding of a field i32 [N], or of any field if it is PAD_NOT. BATCH_OFFSETS gets sequences of padding, and behind
 * them empty ones. */
typedef struct {
    PadKind kind;
    PadSize size;
} FieldPad;

/* Returns a bound of Batch.size of a padded batch, from one of the batch's. */
size_t batch_padded_bytes(size_t bytes);
/* Sets *padded, an open batch with room for batch_padded_bytes, to a batch with padding; its `samples` stay unused.
 * pads[BATCH_MAX_FIELDS]. shapes: of fields without padding only the shapes, as a plan needs them. More rows never get
 * fewer rows with padding: a batch that dominates others still does. */
void batch_pad(Batch *padded, const Batch *batch, const FieldPad *pads, bool shapes);
