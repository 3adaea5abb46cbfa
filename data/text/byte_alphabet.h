/* The printable characters that byte-level vocabularies write for bytes: ASCII's and Latin-1's printable ones stand for
 * themselves, and the other 68 bytes, in their order, are U+0100 .. U+0143. */
#pragma once

#include "base/base.h"

/* Returns the character of a byte as UTF-8 of one or two bytes. */
const char *byte_alphabet(unsigned char byte);
/* Writes the bytes that the characters of `piece` stand for; there are at most `size`. Returns their number; -1: a
 * character stands for none. */
int64_t byte_alphabet_decode(const char *piece, size_t size, char *bytes);
