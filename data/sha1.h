/* The SHA-1 digest (FIPS 180-4), for names of contents and for divisions of data. Not for security. */
#pragma once

#include <stddef.h>

enum { SHA1_SIZE = 20, SHA1_DIGITS = 2 * SHA1_SIZE };

/* Computes the digest of these bytes. */
void sha1(const void *bytes, size_t size, unsigned char digest[SHA1_SIZE]);
/* Writes the digest in hexadecimal digits, with a zero behind them. */
void sha1_text(const void *bytes, size_t size, char text[SHA1_DIGITS + 1]);
