/* Proposes how ranks share a step, by what each way would take (cost/timeline.h): so many of them, each with so many of
 * the step's micro-batches, the optimizer's state divided or not. The step keeps its samples and, but for the order of
 * sums, its numbers. Nothing is slower than one rank that computes the same step, since that is one of the ways. What
 * would change numbers is only named: a larger step, 16-bit sums. */
#pragma once

#include "cost/timeline.h"

enum { ADVICE_RANKS = 16, ADVICE_WAYS = 2 * ADVICE_RANKS, ADVICE_TEXT = 1024 };

typedef struct {
    const StepParts *parts;
    Link link;
    Sharing sharing; /* as asked for; its ranks and micro-batches are those of the step */
    int available;   /* ranks that there are, at least sharing.ranks */
    bool whole_step; /* -g counts the micro-batches of all ranks, not of each */
    /* Bytes: what a rank needs whose moments are whole, those moments, and what there is; memory 0: not known, so all
     * fits. */
    double bytes, moments, memory;
} AdviceRequest;

typedef struct {
    Sharing sharing;
    SharedStep time;
    double scaling; /* timeline_scaling */
    bool fits;
} AdviceWay;

typedef struct {
    AdviceRequest request;
    AdviceWay ways[ADVICE_WAYS]; /* [n], most ranks first */
    int n;
    int asked, chosen,
        alone;      /* places in ways; chosen is the fastest that fits, to a hundredth; `asked` if none does */
    int64_t hiding; /* micro-batches of each rank with which what was asked for would scale to 95 %; 0: it does so, or
                     * not even with 64 times as many */
    double halved;  /* seconds of the asked step if gradients were sent in 16 bits; 0: they are */
} Advice;

/* Lists the ways and chooses one. */
Advice advice_of(const AdviceRequest *request);
/* Writes what was asked for, what is chosen and why, in one or two lines without a line break at the end; if the
 * exchange is more than a twentieth of the step, the second says what would hide it. Returns text. */
const char *advice_text(const Advice *advice, char text[ADVICE_TEXT]);
/* Writes a way as options: "2 cards, -g 4 --zero 1". Returns text. */
const char *advice_way_text(const Advice *advice, int way, char text[64]);
