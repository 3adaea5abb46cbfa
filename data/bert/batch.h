/* The fields of a micro-batch of the encoder. N rows are the tokens of S texts, each with its begin and end token. R
 * rows of the last block's output are used. Fields that a task does not need are absent. */
#pragma once

#include "data/batch.h"

enum {
    BERT_OFFSETS = BATCH_OFFSETS,
    BERT_IDS,       /* i32 [N] */
    BERT_POSITIONS, /* i32 [N]  2, 3, ... in each text; 1 of a <pad> that counts as no token (TextRules.padding) */
    BERT_ROWS,      /* i32 [R]  classification: the first row of each text; masked words: the rows to be predicted */
    BERT_LABELS,    /* i32 [R]  classes; masked words: the ids to be predicted. Absent: texts without labels */
    BERT_TARGETS,   /* f32 [R, classes]  classification with labels only: the loss of row i is
                     * -sum_c targets[i, c] log p[i, c]; class weights and label smoothing are inside */
    BERT_FIELDS
};
/* Indices into Batch.counts: the sum of the class weights of the labels (masked words, texts without labels: R), R. */
enum { BERT_COUNT_WEIGHTS, BERT_COUNT_ROWS, BERT_COUNTS };
/* The id of <pad>, which is also its position; the position of a text's first token. A text of T tokens needs
 * BERT_FIRST_POSITION + T rows in the table. */
enum { BERT_PAD = 1, BERT_FIRST_POSITION };
