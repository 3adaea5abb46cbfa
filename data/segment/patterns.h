/* The 13 patterns that the tokenizer cuts out of tokens, as functions rather than regular expressions: each takes time
 * linear in the token and no stack, whatever the token holds, and what it finds is what a backtracking engine finds.
 *
 * The notation of patterns.c is Perl's, with \d [0-9], \w [A-Za-z0-9_], \b between them, L any letter, S any currency
 * sign, N any character that ends no line. */
#pragma once

#include "data/segment/symbols.h"

/* In the order in which they are tried. */
typedef enum {
    PATTERN_ELLIPSIS,
    PATTERN_EMAIL,
    PATTERN_URL,
    PATTERN_FULL_DATE,
    PATTERN_MONTH,
    PATTERN_DATE,
    PATTERN_TIME,
    PATTERN_MONEY,
    PATTERN_PHONE,
    PATTERN_SHORT_NAME,
    PATTERN_NUMBERS,
    PATTERN_PUNCTUATION,
    PATTERN_SPECIAL,
    PATTERNS
} Pattern;

/* Returns the leftmost match in a token, which holds no spaces; begin is NULL if there is none. */
SymbolSpan pattern_find(Pattern pattern, SymbolSpan token);
/* Returns whether a pattern matches the whole token. */
bool pattern_is_whole(Pattern pattern, SymbolSpan token);
