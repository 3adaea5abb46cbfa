/* Splits texts into the words that BPE works on. */
#pragma once

#include "base/base.h"

typedef enum {
    WORDS_WHOLE,       /* the text is one word */
    WORDS_SPACES,      /* white space separates words and vanishes */
    WORDS_PUNCTUATION, /* the same, and each sign of punctuation is a word */
    /* Regular expressions, which lose nothing: words_pattern. */
    WORDS_GPT2,
    WORDS_CL100K,        /* cl100k_base's, with at most three digits in a word */
    WORDS_CL100K_DIGITS, /* the same, each digit by itself */
    /* \S+\n? in Python: white space separates words and vanishes, but a newline directly behind a word belongs to it.
     */
    WORDS_BLANKS,
    WORDS_CHARACTERS /* each character is a word */
} WordSplit;

/* Returns the regular expression of a split, in the syntax of Oniguruma; NULL: it is none. */
const char *words_pattern(WordSplit split);

/* Finds the next word of the text begin .. end - 1: moves *begin to it, and returns its end; NULL: there is none. */
const char *words_next(WordSplit split, const char **begin, const char *end);
