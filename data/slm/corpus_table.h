/* Cuts a table into its records and takes the texts of one column; csv.h reads each record. */
#pragma once

#include "base/base.h"

/* The layout of the other records, which the first one, of column names, tells. */
typedef struct {
    char separator;
    int n, column; /* columns, and the one of the text */
} CorpusTable;

/* Follows the quotes of a record through the next bytes of it; *state begins as 0. Returns whether it goes on behind
 * them, in quotes. separator: 0: any. */
bool corpus_table_in_quotes(int *state, char separator, const char *bytes, size_t size);
/* Reads the column names, which begin at `line`, behind Excel's "sep=;" if that is there. usual: a comma or a tab. */
bool corpus_table_head(const char *lines, size_t size, int64_t line, char usual, const char *text_field,
                       CorpusTable *table, Error *error);
/* Returns the text of a record, with its bytes in *size; free(). NULL with "line 7: ...". */
char *corpus_table_text(const CorpusTable *table, const char *record, int64_t line, size_t *size, Error *error);
