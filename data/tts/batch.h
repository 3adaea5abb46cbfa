/* The fields of a micro-batch of the TTS GPT. */
#ifndef DATA_TTS_BATCH_H
#define DATA_TTS_BATCH_H

#include "data/batch.h"

/* The fields. A sequence is 34 + (text_len + 2) + (code_len + 1) rows:
 *   conditioning 0..31 | speed row 1 | speed row 0 | start text.. stop | start codes..
 * n sequences, N rows, Nt = sum(text_len + 2), Nm = sum(code_len + 1). */
enum {
    TTS_OFFSETS = BATCH_OFFSETS,
    TTS_CONDITIONING,      /* f32 [n 32, d_model]  conditioning latents with the emotion vector added */
    TTS_CONDITIONING_ROWS, /* i32 [n 32] */
    TTS_SPEED_IDS,         /* i32 [n 2]  1, 0, 1, 0, ... */
    TTS_SPEED_ROWS,        /* i32 [n 2] */
    TTS_TEXT_IDS,          /* i32 [Nt]  start, text, stop */
    TTS_TEXT_POSITIONS,    /* i32 [Nt]  0, 1, ... in each sequence */
    TTS_TEXT_ROWS,         /* i32 [Nt] */
    TTS_MEL_IDS,           /* i32 [Nm]  start, codes */
    TTS_MEL_POSITIONS,     /* i32 [Nm] */
    TTS_MEL_ROWS,          /* i32 [Nm] */
    TTS_TEXT_TARGETS,      /* i32 [Nt - n]  text, stop */
    TTS_TEXT_TARGET_ROWS,  /* i32 [Nt - n]  the row that predicts it */
    TTS_MEL_TARGETS,       /* i32 [Nm]  codes, stop; predicted by TTS_MEL_ROWS */
    TTS_FIELDS
};
enum { TTS_COUNT_TEXT, TTS_COUNT_MEL, TTS_COUNTS }; /* indices into Batch.counts */

#endif
