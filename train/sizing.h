/* What fits into a memory: the micro-batch of -b auto, and what to change where a run is too large. */
#ifndef TRAIN_SIZING_H
#define TRAIN_SIZING_H

#include "train/prepare.h"

enum { MOST_CHANGES = 2, CHANGE_TEXT = 128, CHANGES_TEXT = 512 };

/* Ways to make a run fit, each of which is enough: options as they would be typed, "-b 5 -g 7". */
typedef struct {
    char text[MOST_CHANGES][CHANGE_TEXT];
    int n;                                  /* 0: nothing helps */
    bool divides, recomputes[MOST_CHANGES]; /* the batch is smaller in the first; which have --grad-checkpointing */
    double more_work;                       /* which adds this share to the FLOPs of a step */
} Changes;

/* The most sequences (or tokens of the budget) a micro-batch that fit into so many bytes, and --grad-checkpointing; if
 * neither is enough, both together. */
Changes train_changes(Training *training, size_t available);
/* "-b 5 -g 7 makes it fit, or --grad-checkpointing with 33 % more work" */
const char *train_changes_text(const Training *training, const Changes *changes, char text[CHANGES_TEXT]);

/* What -b auto came to. */
typedef struct {
    int64_t size, accumulation; /* their product is the effective batch */
    int64_t most;               /* sequences that fit at once, of those of the effective batch; less than size: it does
                                 * not fit */
    int64_t better;             /* an effective batch near it that needs far fewer micro-batches; 0: none is needed */
    size_t used, available;     /* bytes, with those that the device has already taken */
} BatchChoice;

/* What sizes have been found to need: for one training on one card after another. Begins as {.n = 0}. */
typedef struct {
    struct {
        int64_t size;
        DType half;
        size_t bytes;
    } of[64];
    int n;
} KnownSizes;

/* For --batch-size and --grad-accumulation of the training, which auto has left open, by what fits into so many bytes:
 * the largest micro-batch that divides the effective batch and that the data can fill; the smallest, if none fits.
 * known: or NULL. */
BatchChoice train_choose_batch(Training *training, DType half, size_t available, KnownSizes *known);
void train_choice_print(const Training *training, const BatchChoice *choice);
/* The same two numbers, as they were chosen before. */
void train_set_batch(Training *training, int64_t size, int64_t accumulation);

#endif
