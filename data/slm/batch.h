/* The fields of a micro-batch of the text GPT. */
#pragma once

#include "data/batch.h"

/* N rows, each the input that predicts one token. */
enum {
    SLM_OFFSETS = BATCH_OFFSETS, /* of the sequences inside which rows attend to each other */
    SLM_IDS,                     /* i32 [N] */
    SLM_POSITIONS,               /* i32 [N]  0, 1, ... in each sequence */
    SLM_TARGETS,                 /* i32 [N]  the next token; -1: a row without a loss */
    SLM_FIELDS
};
/* Indices into Batch.counts: rows with a loss, and the bytes of text that their targets stand for. */
enum { SLM_COUNT_TOKENS, SLM_COUNT_BYTES, SLM_COUNTS };
