/* The files of fastBPE, as PhobertTokenizer of Hugging Face's library reads them. Both are UTF-8:
 * - vocab.txt: lines PIECE COUNT. All pieces of a word but the last end with "@@". The ids: <s> 0, <pad> 1, </s> 2,
 *   <unk> 3, the pieces in the order of the file, <mask>.
 * - bpe.codes: lines LEFT RIGHT COUNT, merges by rank. The last symbol of a word ends with "</w>". That library splits
 *   the lines at all white space, and learners only at blanks: so a symbol with a no-break space at one of its ends
 *   loses it, and a line that then has not two symbols does nothing, but has its rank.
 *
 * Beside them there may be added_tokens.json. Its tokens are found in a text before anything else is done to it, as
 * pieces of their own.
 *
 * The files must belong together: a character is a piece as it is; other pieces are made by merges; what a merge makes
 * is a piece or a part of another merge. So a file that is cut short is refused. */
#pragma once

#include "data/text/bpe_model.h"

/* Opens the files; bpe_close. added_path: NULL: there are no added tokens. Returns NULL with the reason, which begins
 * with "vocab.txt" or "bpe.codes" and the line, or with "added_tokens.json". */
Bpe *fastbpe_open(const char *vocab_path, const char *codes_path, const char *added_path, Error *error);
/* Returns whether a symbol ends with FASTBPE_END. */
bool fastbpe_ends_word(const char *symbol, size_t size);
/* Returns whether it does and would be a special token as a piece. */
bool fastbpe_makes_special(const char *symbol, size_t size);
