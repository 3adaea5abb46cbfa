/* Elements of an HTML page. Text may come from anywhere: it is escaped, and cannot leave its element. */
#pragma once

#include <stdio.h>

#include "base/base.h"

/* Writes text, or the value of an attribute within quotes. Bytes that are no UTF-8, control characters and those that
 * turn the direction of writing become U+FFFD. */
void html_text(FILE *out, const char *text);
/* Writes formatted text of any length. */
void html_format(FILE *out, const char *format, ...) PRINTF_LIKE(2, 3);
/* Writes elements around texts: each %s of the format, which has no other conversion, is one, escaped. */
void html_print(FILE *out, const char *format, ...) PRINTF_LIKE(2, 3);
/* Writes a row of a list of facts (<dl>). value NULL or "": unknown. */
void html_fact(FILE *out, const char *name, const char *value);
/* Writes "data:TYPE;base64,...". */
void html_data_uri(FILE *out, const char *type, const void *bytes, size_t size);

/* Begins a table that scrolls within the page, up to its first row. Cells of the header are separated by '|'; those of
 * columns of numbers end in ':'. */
void html_table_begin(FILE *out, const char *caption, const char *header);
/* Begins a table whose header has these cells, whatever is in their texts. */
void html_table_begin_cells(FILE *out, const char *caption, const char *const *cells, int n);
void html_table_end(FILE *out);

/* Returns whether a text is one <svg> element of shapes and words, as this program writes them: no script, no link, no
 * outside resource, no style but theirs, which would be that of the whole page. False with the reason. */
bool html_svg_check(const char *text, Error *error);

/* Writes the Markdown that the reports of this program consist of: headings (# becomes <hLEVEL>), paragraphs, lists
 * ("- ") and tables. Other marks stay as they are. */
void html_markdown(FILE *out, const char *text, int level);
