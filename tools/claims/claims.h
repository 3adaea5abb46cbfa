/* Builds docs/ESTIMATES.md: one section per guide, with a table of computed runs and a table of claims that are
 * compared with them. Every verdict is computed from numbers; only its reason is written by hand. */
#pragma once

#include <math.h>
#include <stdio.h>

#include "base/base.h"
#include "kernels/cards.h"
#include "tools/claims/numbers.h"

/* In percent: how far a plausible amount or ratio may be from the computed one, and the least gain that counts as
 * "faster". */
enum { AMOUNT_WITHIN = 25, RATIO_WITHIN = 8, GAIN_AT_LEAST = 10 };

/* ---- runs ---- */

typedef struct {
    char name; /* letter in the table of its section: 'a', 'b', ... */
    const Card *card;
    double step, floor;            /* seconds per optimizer step: estimated, and at the stated rates of the card */
    double launches, memory_bound; /* seconds of the step in kernel launches, and in memory-bound operations */
    double loader, copy;           /* seconds beside the step: filling batches, copying them to the card */
    double flops, convolutions;    /* FLOPs per step: all, and those of convolutions */
    double update_bytes;           /* bytes that AdamW moves per step */
    double cleared, normed;        /* bytes of gradients that are cleared per step, and that its norm reads */
    double norm_seconds;           /* which takes so long */
    double sequences, tokens;      /* per step */
    double parameters;
    double peak;                        /* FLOP/s that the card states for these products */
    double memory, states, activations; /* bytes: total; gradients and moments; activations */
    double available;                   /* bytes of the card that a run may use */
    double seconds; /* of the whole run, with validations and checkpoints; 0: its length is not known */
    /* Of a step that several cards share (--gpus): what it waits for, seconds; bytes that each sends; how many times as
     * fast as one card with the same step it is, and would be in the way that is chosen. */
    double exposed, sent, gain, chosen_gain;
    double held_out; /* seconds of a validation on all that is held out; 0: nothing is */
} Run;

void section(const char *title, const char *format, ...) PRINTF_LIKE(2, 3);
/* Runs a trainer with --estimate on a card. */
Run run_computed(const char *card, const char *arguments);
/* Does so, and adds the command and its result to the table of runs. */
Run run_program(const char *card, const char *format, ...) PRINTF_LIKE(2, 3);

/* Preparing features with train_gpt prepare --indextts2: seconds of the whole run. */
typedef struct {
    double flops;
    double networks[3]; /* of w2v-BERT, of the codec, of the conditioning */
    double computing, floor, measuring, seconds;
} Preparation;
/* Estimates it on a card, for so many hours of speech; options: more of the program. */
Preparation preparation_computed(const char *card, double hours, const char *options);

/* ---- claims ----
 *
 * Each function adds a row to the table of claims: what the guide says, the range of numbers that this means (least to
 * most), the computed number, and the reason. */

/* Judges a time: impossible if faster than the floor, optimistic if faster than the estimate, plausible up to twice the
 * estimate. */
void claim_time(const char *says, double least, double most, double estimate, double floor, const char *why, ...)
    PRINTF_LIKE(6, 7);
/* Judges a number, which `text` formats: plausible up to `within` percent outside the range. Writes how far outside it
 * lies. */
typedef const char *(*Text)(double number);
void claim_range(int within, Text text, const char *says, double least, double most, double got, const char *why, ...)
    PRINTF_LIKE(7, 8);
/* Judges a ratio of times or sizes. */
#define claim_ratio(says, least, most, ...) claim_range(RATIO_WITHIN, times, says, least, most, __VA_ARGS__)
/* Judges "faster" or "smaller" without a number. */
#define claim_gain(says, ...) claim_range(0, times, says, 1 + GAIN_AT_LEAST / 100.0, (double)INFINITY, __VA_ARGS__)
/* Judges an amount. */
#define claim_amount(text, says, least, most, ...) claim_range(AMOUNT_WITHIN, text, says, least, most, __VA_ARGS__)
/* Judges whether the memory of the run fits on its card. */
void claim_fits(const char *says, const Run *run, const char *why, ...) PRINTF_LIKE(3, 4);
/* Gives the next claim the number of the guide's own program, where its code tells it: an amount, a ratio, or the bytes
 * that it needs; of a time, the least. */
void claim_theirs(double number);
/* Lists a claim that cannot be computed. */
void claim_unknown(const char *says, const char *why, ...) PRINTF_LIKE(2, 3);

/* ---- the document ---- */

/* Begins the document, before its first section. */
void claims_begin(void);
/* Returns the sections that have been written; free(). */
char *claims_end(void);
/* Returns the number of claims so far. */
int claims_number(void);
/* Prints a table of the verdicts: how many claims have each, and what it means. */
void claims_print_verdicts(void);
/* Writes a paragraph in lines of at most 120 columns. */
void paragraph(FILE *to, const char *format, ...) PRINTF_LIKE(2, 3);
