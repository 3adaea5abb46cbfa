/* A micro-batch as the model sees it: named arrays in one host buffer, so that a device gets it in a single copy.
 * Sequences are packed: the rows of all sequences lie end to end and there is no padding row. */
#ifndef DATA_BATCH_H
#define DATA_BATCH_H

#include "kernels/tensor.h"

enum { BATCH_MAX_FIELDS = 20, BATCH_MAX_COUNTS = 4 };

typedef struct {
    /* Host tensors inside `buffer`, each 64-byte aligned; absent ones are none. Behind the last, fields[n_fields] is
     * the data set's resident tensor, which lies elsewhere. */
    Tensor fields[BATCH_MAX_FIELDS + 1];
    int n_fields;
    char *buffer;
    size_t size, capacity; /* bytes used, bytes there */

    int n_sequences;
    int64_t n_tokens;                /* rows of all sequences */
    double counts[BATCH_MAX_COUNTS]; /* how many rows carry each loss (TTS: text, mel), or the sum of their weights */
    double group_counts[BATCH_MAX_COUNTS]; /* the same over the whole accumulation group: for --loss-norm batch */
    int32_t *samples;                      /* [n_sequences] indices into the dataset */

    /* Where in the data: micro-batch `index` of epoch `epoch`, the last one or not. The data set may draw from them. */
    int64_t epoch, index;
    bool last;
} Batch;

/* The first field of every batch, which the host reads too: i32 [n + 1], the first row of each sequence. */
enum { BATCH_OFFSETS };

/* Fields of a batch for the TTS GPT. A sequence is 34 + (text_len + 2) + (code_len + 1) rows:
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

Batch batch_open(size_t capacity, int max_sequences);
void batch_close(Batch *batch);
void batch_clear(Batch *batch); /* no fields, no bytes used */
/* The next field: `n` numbers (or rows * columns) in the buffer. Fields must be pushed in the order of their enum. */
Tensor batch_push_1d(Batch *batch, int field, DType dtype, int64_t n);
Tensor batch_push_2d(Batch *batch, int field, DType dtype, int64_t rows, int64_t columns);

#endif
