/* The rows of packed clips, at 50 rows a second and, behind the conformers' subsampling, at 25. A clip whose number of
 * filter-bank frames is odd ends with half a row, which is masked: it stays in its sequence, but no query sees it. */
#pragma once

#include "kernels/ops.h"

/* A clip's rows, and how many are valid: all, or all but the last. */
typedef struct {
    int64_t rows, valid;
} ClipLength;

/* Packed sequences with their masked rows, on the device. */
typedef struct {
    Sequences sequences;
    int64_t count, longest; /* rows */
    Tensor hidden;          /* i32 [S]: masked rows of each sequence, 0 or 1 */
    Tensor masked;          /* i32 [S]: the row that is masked, or -1 */
    Tensor positions;       /* i32 [count]: of each row in its sequence */
    Tensor rows;            /* i32 [count]: 0, 1, ... */
    Tensor valid;           /* i32 [n_valid]: rows that are not masked */
    int32_t *host_valid;    /* [S + 1]: where the valid rows of each sequence begin among all; on the host */
    int64_t n_valid;
} ClipRows;

/* Returns the length of a clip behind the subsampling: (rows - 1) / 2, of which (valid - 1) / 2 are valid. */
ClipLength clip_length_subsampled(ClipLength length);
/* Makes the rows of so many clips, whose tensors are pushed on the arena. */
ClipRows clip_rows_open(Device *device, Arena *arena, const ClipLength *lengths, int n);
void clip_rows_close(ClipRows *rows);
