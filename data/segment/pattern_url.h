/* The pattern of a URL, for data/segment/patterns.c. */
#pragma once

#include "data/segment/symbols.h"

/* Returns the end of a match at `at`, NULL if there is none. */
const Symbol *pattern_match_url(const Symbol *at, const Symbol *end);
/* Returns the leftmost match; begin is NULL if there is none. */
SymbolSpan pattern_find_url(SymbolSpan token);
