/* The SHA-1 digest (FIPS 180-4), for names of contents and for divisions of data. Not for security. */
#ifndef DATA_SHA1_H
#define DATA_SHA1_H

#include <stddef.h>

enum { SHA1_SIZE = 20 };

/* Computes the digest of these bytes. */
void sha1(const void *bytes, size_t size, unsigned char digest[SHA1_SIZE]);

#endif
