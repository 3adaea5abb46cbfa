/* Where the sentences of a line end. */
#pragma once

#include "data/segment/tokens.h"

/* Returns the token behind the last one of the sentence that begins with token `begin`. */
size_t sentence_end(const SymbolText *line, const SegmentTokens *tokens, size_t begin);
