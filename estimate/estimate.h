/* Estimates the memory and the time of a whole run on a card.
 *
 * The run's own micro-batches go through the dry device, which yields the FLOPs and bytes of every operation exactly;
 * cost/cost.h turns them into seconds. */
#pragma once

#include "cost/cost.h"
#include "estimate/shared.h"
#include "train/plan/memory.h"
#include "train/plan/sizing.h"
#include "train/spec.h"

/* A run, whatever the card. */
typedef struct {
    Work step, validation; /* one of each; of a step that cards share, the part of one card */
    int ranks;             /* cards that share a step */
    bool divided;          /* and the optimizer's state */
    SharedWork shared;     /* if they are several */
    int64_t steps;         /* 0: not known, there is no data */
    double epoch_batches, epoch_samples, epoch_tokens;
    int64_t validations, checkpoints;
    double checkpoint_bytes;
    MemoryPlan memory;
} RunWork;

/* A run on a card. */
typedef struct {
    Machine machine;
    const RunWork *work;
    BatchChoice batch; /* of -b auto; size 0: -b was given */
    WorkTime step, validation;
    SharedTime shared; /* of a step, if several cards share it: step.seconds is then that of all */
    double steps_seconds, validation_seconds, checkpoint_seconds, seconds;
    double available;       /* bytes of its memory, less what CUDA itself takes */
    const CardPrice *price; /* of all cards */
    bool fits;
    Changes changes; /* with which it would */
} RunTime;

/* Returns the price of so many cards, which lives as long as the process: that of a card for each of them, or if the
 * list has one without a card that of the whole machine. */
const CardPrice *estimate_price(const PriceList *prices, const Card *card, int cards);
/* Fills times[n], of which each points into work[n]. Where -b is auto, each machine has the micro-batches that fit
 * there. */
void estimate_runs(const TrainSpec *spec, const Machine *machines, int n, RunWork *work, RunTime *times);
