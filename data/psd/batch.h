/* The fields of a batch of B spectra with 12 patches each. The spectra themselves lie in the device's memory, where
 * they are gathered; a batch is indices. Fields that a task does not need are absent.
 *
 * The encoder's rows are: first, in pretraining, the V visible patches of every spectrum, as bare rows. Then S full
 * sequences of 13 rows, CLS and 12 patches: in pretraining the B spectra and after them their B partners, otherwise the
 * B spectra. The decoder's rows are B sequences of 12. n is the number of embedded patches, M = 12 - V the number of
 * masked patches per spectrum. */
#pragma once

#include "data/batch.h"

enum {
    PSD_OFFSETS = BATCH_OFFSETS,
    PSD_PIECES,            /* i32 [2 n]  the halves of the patches: rows of the spectra seen as [25 spectra, 8] */
    PSD_PATCH_ROWS,        /* i32 [n]  the patches' rows: in the bare part, then, from 0 again, in the full sequences */
    PSD_PATCH_POSITIONS,   /* i32 [n]  1 .. 12 */
    PSD_CLS_ROWS,          /* i32 [S]  in the full sequences */
    PSD_CLS_ZEROS,         /* i32 [S]  0: the id and the position of CLS */
    PSD_OUTPUT_ROWS,       /* i32 [B V + S]  rows of the encoder's output that are used: the bare rows and CLS */
    PSD_DECODER_OFFSETS,   /* i32 [B + 1] */
    PSD_VISIBLE_ROWS,      /* i32 [B V]  in the decoder */
    PSD_VISIBLE_POSITIONS, /* i32 [B V]  0 .. 11 */
    PSD_MASKED_ROWS,       /* i32 [B M] */
    PSD_MASKED_POSITIONS,  /* i32 [B M] */
    PSD_MASKED_ZEROS,      /* i32 [B M]  0: the id of the mask token */
    PSD_DECODER_POSITIONS, /* i32 [12 B]  0 .. 11, 0 .. 11, ... */
    PSD_TARGET_PIECES,     /* i32 [2 B M]  like PSD_PIECES, for the masked patches */
    PSD_SPECTRA, /* i32 [S]  the spectrum of each full sequence: for an encoder that reads spectra, not patches */
    PSD_TARGETS, /* i32 [B] */
    PSD_WEIGHTS, /* f32 [B]  class weights of the labels */
    PSD_FIELDS
};
/* Indices into Batch.counts: masked bins, spectra plus partners; the sum of the class weights, spectra. */
enum { PSD_COUNT_MASKED, PSD_COUNT_PAIRED, PSD_COUNT_WEIGHTS, PSD_COUNT_SPECTRA, PSD_COUNTS };
enum { PSD_PATCH = 16, PSD_PATCHES = 12, PSD_SEQUENCE = 13, PSD_PIECE = 8 };
