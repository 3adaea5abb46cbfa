/* Several cards that share the steps of a run: --estimate --gpus. */
#pragma once

#include "train/parallel/advice.h"
#include "train/plan/buckets.h"

/* The work of a card's step by its parts: the means of micro-batches, the first and each later one, and the update. */
typedef struct {
    Work first, later, update;
    BucketWorks buckets;
} SharedWork;

/* A step that several cards share. */
typedef struct {
    SharedStep time;
    double scaling; /* timeline_scaling */
    Link link;
    Advice advice;
} SharedTime;

/* Reads --gpus and divides the step among so many cards, as ranks do. Dies if the text or the step forbids it, and if
 * --link is given without several cards. Does nothing if --gpus is not given. */
void shared_begin(TrainOptions *options);
/* Returns whether the number of cards is to be chosen. */
bool shared_is_automatic(const TrainOptions *options);
/* Returns the most cards that may share a step whose number is to be chosen. */
int shared_most(const TrainOptions *options);
/* Returns the time of a step on options->planned_ranks cards like the machine, whose workers are those of one card.
 * step: the work of a card, whose traffic counts for its parts. bytes: of a card's memory as it is planned. Dies if
 * --link is not of such a card. */
SharedTime shared_time(const TrainSpec *spec, const Machine *machine, const SharedWork *work, const Work *step,
                       double bytes);
