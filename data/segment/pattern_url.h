/* The pattern of URLs, for data/segment/patterns.c. */
#ifndef DATA_SEGMENT_PATTERN_URL_H
#define DATA_SEGMENT_PATTERN_URL_H

#include "data/segment/symbols.h"

/* Returns the end of a match at `at`; NULL if there is none. */
const Symbol *pattern_match_url(const Symbol *at, const Symbol *end);
/* Returns the leftmost match in a token; begin is NULL if there is none. */
SymbolSpan pattern_find_url(SymbolSpan token);

#endif
