/* What docs/ESTIMATES.md is made of: sections, one a guide, each with the runs that were computed and the claims that
 * are judged by them. A verdict is computed from numbers; only its reason is told in words. */
#ifndef ESTIMATES_H
#define ESTIMATES_H

#include "tools/estimates_text.h"

#define HOUR (3600.0)
#define DAY  (24 * HOUR)

/* ---- runs ---- */

typedef struct {
    char name; /* in its section's table: 'a', 'b', ... */
    const Card *card;
    double step, floor;                          /* seconds of an optimizer step: estimated; at the stated rates */
    double launches, memory_bound, loader, copy; /* of which in launches, in operations that memory bounds; beside it */
    double flops, convolutions, update_bytes;    /* of a step; of it in convolutions; what AdamW moves */
    double sequences, tokens;                    /* of a step */
    double parameters;
    double peak;                                       /* FLOP/s that the card states for these products */
    double memory, states, activations;                /* bytes: all; gradients and moments; activations */
    double available;                                  /* bytes that the card has for it */
    double validation_seconds, validation_activations; /* of a micro-batch of a validation; text models only */
} Run;

void section(const char *title, const char *format, ...) PRINTF_LIKE(2, 3);
/* A trainer's --estimate, by the command that is shown. */
Run run_program(const char *card, const char *format, ...) PRINTF_LIKE(2, 3);
/* A model without a trainer. */
typedef enum { IN_F32, IN_TF32, IN_16_BITS } Precision;
Run run_text(const TextModel *model, const char *card, TextBatch batch, Precision precision);

/* ---- claims: what the guide says, the range of numbers that this is, what is computed, and why ---- */

/* Faster than the floor: impossible; than the estimate: optimistic; up to twice as slow: plausible. */
void claim_time(const char *says, double least, double most, double estimate, double floor, const char *why, ...)
    PRINTF_LIKE(6, 7);
/* How many times as fast, or as large: 8 % from the range are plausible. */
void claim_ratio(const char *says, double least, double most, double ratio, const char *why, ...) PRINTF_LIKE(5, 6);
/* How many times as fast, or as small, where the guide gives no number: 10 % are enough. */
void claim_gain(const char *says, double ratio, const char *why, ...) PRINTF_LIKE(3, 4);
/* Bytes, parameters, dollars, shares, as `text` writes them: 25 % from the range are plausible. */
typedef const char *(*Text)(double number);
void claim_amount(Text text, const char *says, double least, double most, double got, const char *why, ...)
    PRINTF_LIKE(6, 7);
void claim_fits(const char *says, const Run *run, double bytes, const char *why, ...) PRINTF_LIKE(4, 5);
/* What no arithmetic says. */
void claim_unknown(const char *says, const char *why, ...) PRINTF_LIKE(2, 3);

/* ---- numbers as text, of 2 or 3 digits; they last for some dozens of calls ---- */
const char *number(double x);
const char *seconds(double x); /* "12 ms", "3.1 days" */
const char *bytes(double x);   /* "12.6 GB" */
const char *percent(double share);
const char *dollars(double x);
const char *times(double x); /* "1.3x" */
const char *count(double x); /* "14.1K", "26.2M" */

/* ---- the guides ---- */
void estimates_amharic(void);
void estimates_psd(void);
void estimates_flim(void);
void estimates_phobert(void);
void estimates_slm(void);

#endif
