/* Finds what fits into a memory: the micro-batch of -b auto, and the options that make a run fit that is too large. */
#pragma once

#include "train/plan/plan.h"

enum { MAX_CHANGES = 2, CHANGE_TEXT = 128, CHANGES_TEXT = 512 };

/* Alternative ways to make a run fit, as options to type: "-b 5 -g 7". */
typedef struct {
    char text[MAX_CHANGES][CHANGE_TEXT];
    int n;                        /* 0: no option makes the run fit */
    bool divides;                 /* the first way has a smaller batch */
    bool recomputes[MAX_CHANGES]; /* has --grad-checkpointing */
    double more_work;             /* the share that --grad-checkpointing adds to the FLOPs of a step */
} Changes;

/* Returns the largest micro-batch that fits into `available` bytes and divides the effective batch, or the largest
 * token budget, and --grad-checkpointing; both together if neither alone is enough. If no divisor has enough samples,
 * the micro-batch is the largest that fits. */
Changes sizing_changes(const TrainSpec *spec, size_t available);
/* Writes "-b 5 -g 7 makes it fit, or --grad-checkpointing with 33 % more work" */
const char *sizing_changes_text(const TrainSpec *spec, const Changes *changes, char text[CHANGES_TEXT]);

/* The choice of -b auto. */
typedef struct {
    int64_t size, accumulation; /* their product is the effective batch */
    int64_t most_at_once;   /* sequences that fit at once, at most the effective batch; if less than `size`, the choice
                             * does not fit */
    int64_t suggested;      /* a close effective batch that needs far fewer micro-batches; 0: not needed */
    size_t used, available; /* bytes, including those that the device has already taken */
} BatchChoice;

/* A cache of the bytes that sizes need, for planning the same training for many cards. Initialise with {.n = 0}. */
typedef struct {
    struct {
        int64_t size;
        DType half;
        size_t bytes;
    } of[64];
    int n;
} KnownSizes;

/* Chooses --batch-size and --grad-accumulation for -b auto and sets them: the largest micro-batch that fits into
 * `available` bytes, divides the effective batch and can be filled by the data; the smallest if none fits. known may be
 * NULL. */
BatchChoice sizing_choose_batch(const TrainSpec *spec, DType half, size_t available, KnownSizes *known);
void sizing_print_choice(const TrainSpec *spec, const BatchChoice *choice);
/* Sets the two options to an earlier choice. */
void sizing_set_batch(const TrainSpec *spec, int64_t size, int64_t accumulation);
