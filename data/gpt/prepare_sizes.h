/* The sizes that train_gpt prepare chooses if it was not told: those of the full model, or what fits fewer recordings.
 */
#pragma once

#include "data/gpt/clip.h"

/* Macros, for the defaults of options. FRAMES_PER_ENTRY: of the training of the codebook. */
#define PREPARE_FULL_ENTRIES     8192
#define PREPARE_FULL_WIDTH       1280
#define PREPARE_FRAMES_PER_ENTRY 64
enum { PREPARE_SMALL_WIDTH = 256 };

typedef struct {
    int64_t vocabulary, codebook_size, d_model;
    double val_ratio;
} PrepareSizes;

/* Which sizes may be chosen: nobody has given them. */
typedef struct {
    bool vocabulary, codebook_size, d_model, val_ratio;
} PrepareFit;

/* Returns the frames of the kept clips. */
int64_t prepare_count_frames(const Clip *clips, int64_t n);
/* Returns the seconds of speech from which on the sizes stay those of the full model. */
double prepare_full_seconds(void);
/* Replaces the sizes that may be chosen if there is less speech than that: 64 frames for each entry of the codebook,
 * 50 characters of text for each merge of the tokenizer, vectors 256 wide, and the smallest share in steps of 0.01 that
 * holds out a tenth of the clips, at most 20, and leaves pairs on both sides. Returns whether there is less. */
bool prepare_fit_sizes(const Clip *clips, int64_t n, const PrepareFit *fit, PrepareSizes *sizes);
