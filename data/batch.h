/* A micro-batch as the model sees it: named arrays in one host buffer, so that a device gets it in a single copy.
 * Sequences are packed: the rows of all sequences lie end to end and there is no padding row. */
#ifndef DATA_BATCH_H
#define DATA_BATCH_H

#include "kernels/tensor.h"

enum { BATCH_MAX_FIELDS = 20, BATCH_MAX_COUNTS = 4, BATCH_LINE = 64 };

typedef struct {
    /* Host tensors inside `buffer`, each in lines of BATCH_LINE bytes of its own; absent ones are none. Behind the
     * last, fields[n_fields] is the data set's resident tensor, which lies elsewhere. */
    Tensor fields[BATCH_MAX_FIELDS + 1];
    int n_fields;
    char *buffer;
    size_t size, capacity; /* bytes used, bytes there */

    int n_sequences;                 /* samples; a model may make more than one sequence of each */
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

/* Fields of a batch for the PSD models, of B spectra of 12 patches; the spectra themselves lie in the device's memory
 * (Dataset.resident) and are gathered there. Parts that a task has not are none.
 *
 * The encoder's rows are first, in pretraining, the V visible patches of every spectrum, bare; then S whole sequences
 * of 13 rows, a CLS row and 12 patches: in pretraining the B spectra and then their B partners, else the B spectra. The
 * decoder's are B sequences of 12. n patches are embedded; M = 12 - V of a spectrum are masked. */
enum {
    PSD_OFFSETS = BATCH_OFFSETS,
    PSD_PIECES,            /* i32 [2 n]  the halves of the patches: rows of the spectra seen as [25 spectra, 8] */
    PSD_PATCH_ROWS,        /* i32 [n]  their rows: of the bare part, then, counted anew, of the whole sequences */
    PSD_PATCH_POSITIONS,   /* i32 [n]  1 .. 12 */
    PSD_CLS_ROWS,          /* i32 [S]  of the whole sequences */
    PSD_CLS_ZEROS,         /* i32 [S]  0: the id and the position of CLS */
    PSD_WANTED_ROWS,       /* i32 [B V + S]  of the encoder: what is read of its output, the bare rows and CLS */
    PSD_DECODER_OFFSETS,   /* i32 [B + 1] */
    PSD_VISIBLE_ROWS,      /* i32 [B V]  of the decoder */
    PSD_VISIBLE_POSITIONS, /* i32 [B V]  0 .. 11 */
    PSD_MASKED_ROWS,       /* i32 [B M] */
    PSD_MASKED_POSITIONS,  /* i32 [B M] */
    PSD_MASKED_ZEROS,      /* i32 [B M]  0: the id of the mask token */
    PSD_DECODER_POSITIONS, /* i32 [12 B]  0 .. 11, 0 .. 11, ... */
    PSD_TARGET_PIECES,     /* i32 [2 B M]  as PSD_PIECES, of the masked patches */
    PSD_SPECTRA,           /* i32 [S]  of the whole sequences: for an encoder that reads spectra, not patches */
    PSD_TARGETS,           /* i32 [B] */
    PSD_WEIGHTS,           /* f32 [B]  of the labels' classes */
    PSD_FIELDS
};
/* Indices into Batch.counts: masked numbers, spectra and partners; the sum of the weights, spectra. */
enum { PSD_COUNT_MASKED, PSD_COUNT_PAIRED, PSD_COUNT_WEIGHTS, PSD_COUNT_SPECTRA, PSD_COUNTS };
enum { PSD_PATCH = 16, PSD_PATCHES = 12, PSD_SEQUENCE = 13, PSD_PIECE = 8 };

/* Fields of a batch for the FLIM classifier, of B cells, whose counts lie in the device's memory (Dataset.resident). */
enum {
    FLIM_OFFSETS = BATCH_OFFSETS, /* i32 [B + 1]  a cell is one row */
    FLIM_CELLS,                   /* i32 [B]  rows of the counts */
    FLIM_DRAWS,                   /* i32 [B, FLIM_DRAW_WORDS]  what is done to each: a FlimDraws, bit by bit */
    FLIM_PARTNERS,                /* i32 [B]  what each is mixed with; none: this batch is not mixed */
    FLIM_SHARE,                   /* f32 [1]  how much of each is its own then */
    FLIM_TARGETS,                 /* f32 [B]  the labels, smoothed and mixed */
    FLIM_LABELS,                  /* f32 [B]  0, 1 */
    FLIM_FIELDS
};
enum { FLIM_COUNT_CELLS, FLIM_COUNTS }; /* indices into Batch.counts */

size_t batch_capacity(size_t bytes); /* of a buffer with room for so many bytes of fields */
Batch batch_open(size_t bytes, int max_sequences);
void batch_close(Batch *batch);
void batch_clear(Batch *batch); /* no fields, no bytes used */
/* The next field: `n` numbers (or rows * columns) in the buffer. Fields must be pushed in the order of their enum. */
Tensor batch_push_1d(Batch *batch, int field, DType dtype, int64_t n);
Tensor batch_push_2d(Batch *batch, int field, DType dtype, int64_t rows, int64_t columns);

#endif
