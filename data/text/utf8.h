/* Bytes as text. */
#pragma once

#include "base/base.h"

/* Returns the bytes as UTF-8 text, with U+FFFD in place of each byte that is 0 or belongs to no character; free(). */
char *utf8_of_bytes(const char *bytes, size_t size);
/* Returns false with "LINE: ...", and what to do, if the text has a zero byte or is not UTF-8. */
bool utf8_check(const char *text, size_t size, Error *error);
/* Returns the size of the byte order mark at the beginning of a text, 0 or 3. */
size_t utf8_mark(const char *text, size_t size);
