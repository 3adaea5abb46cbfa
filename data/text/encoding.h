/* Tells what bytes are that should be UTF-8 text, for messages: everyone who reads a text asks here. */
#pragma once

#include "base/base.h"

/* Returns whether it is a web page (HTML), as failed downloads are. Such a page is a text. */
bool encoding_is_web_page(const char *bytes, size_t size);
/* Returns what a file of another program is by its first bytes, and what makes text of it; NULL: it is none that is
 * known here, a sound or a text. */
const char *encoding_of_foreign(const char *bytes, size_t size);
/* Returns what a file is by its first bytes, and what makes text of it ("is UTF-16: ..."), if it certainly is no UTF-8
 * text: UTF-16 and UTF-32, also without a byte order mark, sound, compressed files, tables and documents of other
 * programs. NULL: it is none of them. */
const char *encoding_of_binary(const char *bytes, size_t size);
/* Returns what to do with bytes that are not UTF-8, from the beginning of a file or of a line: the same, or which
 * encoding they seem to have. */
const char *encoding_advice(const char *bytes, size_t size);
/* Returns false with "byte 7 is not UTF-8; ..." if a line is not UTF-8, or has a zero byte. */
bool encoding_check_line(const char *line, size_t size, Error *error);
