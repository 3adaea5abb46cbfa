/* The grammar of the synthetic comments: kinds of sentences, their patterns, and words for the places in them. */
#pragma once

#include <stdio.h>

#include "base/base.h"
#include "kernels/philox.h"

/* The files of comments, which have other patterns and words. */
enum { SYNTHETIC_TRAIN, SYNTHETIC_VALID, SYNTHETIC_TEST, SYNTHETIC_UNLABELLED, SYNTHETIC_FILES };

/* Random numbers in the order in which they are asked for. */
typedef struct {
    uint64_t seed, next;
    uint32_t purpose, step;
} Dice;

/* Returns a number below n. */
static inline int dice_below(Dice *dice, int n) {
    return (int)philox_below(dice->seed, dice->purpose, dice->step, dice->next++, n);
}

static inline bool dice_chance(Dice *dice, double probability) {
    return (double)philox_uniform(dice->seed, dice->purpose, dice->step, 2 * dice->next++) < probability;
}

/* Writes one of the choices in "one|two|three". */
void grammar_choose(FILE *out, const char *choices, Dice *dice);
/* Writes a sentence without a full stop that decides the class, with the patterns and words of a file. Returns its
 * kind. */
const char *grammar_sentence(FILE *out, int file, bool rude, Dice *dice);
/* Writes what decides nothing: words in front of a sentence, words behind it, and a sentence about something else. */
void grammar_opening(FILE *out, int file, Dice *dice);
void grammar_closing(FILE *out, int file, Dice *dice);
void grammar_aside(FILE *out, int file, Dice *dice);
