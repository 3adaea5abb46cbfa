/* Cuts a line into tokens: words, numbers, dates, addresses, abbreviations and signs. */
#pragma once

#include "data/segment/symbols.h"

typedef struct {
    SymbolSpan *spans; /* [n] of the text that was cut, in order */
    size_t n;
} SegmentTokens;

/* Returns the tokens of a line; free() the spans. */
SegmentTokens segment_tokens(const SymbolText *line);
