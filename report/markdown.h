/* Files of Markdown. What the data say is shown in them as they say it. */
#pragma once

#include "base/text_file.h"

/* Ends a file of Markdown: escapes what would be HTML or a link, as names and texts of the data may have it, and shows
 * control characters by their pictures. Then as text_file_end. */
bool markdown_end(TextFile *file, const char *path, Error *error);
/* Removes the backslashes of markdown_end and of the cells of tables, in place. Returns the text. */
char *markdown_unescape(char *text);
