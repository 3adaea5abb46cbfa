/* The fields of a micro-batch of the TTS GPT. */
#pragma once

#include "data/batch.h"

/* The fields. A sequence is 34 + (text_len + 2) + (code_len + 1) rows:
 *   conditioning 0..31 | speed row 1 | speed row 0 | start text.. stop | start codes..
 * n sequences, N rows, Nt = sum(text_len + 2), Nm = sum(code_len + 1). */
enum {
    GPT_OFFSETS = BATCH_OFFSETS,
    GPT_CONDITIONING,      /* f32 [n 32, d_model]  conditioning latents with the emotion vector added */
    GPT_CONDITIONING_ROWS, /* i32 [n 32] */
    GPT_SPEED_IDS,         /* i32 [n 2]  1, 0, 1, 0, ... */
    GPT_SPEED_ROWS,        /* i32 [n 2] */
    GPT_TEXT_IDS,          /* i32 [Nt]  start, text, stop */
    GPT_TEXT_POSITIONS,    /* i32 [Nt]  0, 1, ... in each sequence */
    GPT_TEXT_ROWS,         /* i32 [Nt] */
    GPT_MEL_IDS,           /* i32 [Nm]  start, codes */
    GPT_MEL_POSITIONS,     /* i32 [Nm] */
    GPT_MEL_ROWS,          /* i32 [Nm] */
    GPT_TEXT_TARGETS,      /* i32 [Nt - n]  text, stop */
    GPT_TEXT_TARGET_ROWS,  /* i32 [Nt - n]  the row that predicts it */
    GPT_MEL_TARGETS,       /* i32 [Nm]  codes, stop; predicted by GPT_MEL_ROWS */
    GPT_FIELDS
};
enum { GPT_COUNT_TEXT, GPT_COUNT_MEL, GPT_COUNTS }; /* indices into Batch.counts */
