/* Texts as counts of their words, for a classifier that knows nothing of their order. */
#pragma once

#include "data/sparse_rows.h"
#include "data/text/strings.h"

/* Counts the words of n UTF-8 texts: runs of letters and digits in lower case, and every other visible character alone.
 * longest: 2 counts pairs of neighbours too. Columns are the numbers of the words in `words`; `learn` adds those of the
 * texts, otherwise words that are not in it are left out. sparse_rows_free. */
SparseRows bag_of_words(Strings *words, const char *const *texts, int64_t n, int longest, bool learn);
