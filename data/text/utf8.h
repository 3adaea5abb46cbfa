/* Bytes as text. */
#ifndef DATA_TEXT_UTF8_H
#define DATA_TEXT_UTF8_H

#include "base/base.h"

/* Returns the bytes as UTF-8 text, with U+FFFD in place of each byte that is 0 or belongs to no character; free(). */
char *utf8_of_bytes(const char *bytes, size_t size);

#endif
