/* The SHA-1 digest (FIPS 180-4), for names of contents and for divisions of data. Not for security, but for the
 * proof that a process knows a secret (RFC 2104), which collisions do not help to forge. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { SHA1_SIZE = 20, SHA1_DIGITS = 2 * SHA1_SIZE };

/* Computes the digest of these bytes. */
void sha1(const void *bytes, size_t size, unsigned char digest[SHA1_SIZE]);
/* Writes the digest in hexadecimal digits, with a zero behind them. */
void sha1_text(const void *bytes, size_t size, char text[SHA1_DIGITS + 1]);
/* Computes the HMAC of a text with a key. */
void sha1_hmac(const void *key, size_t key_size, const void *text, size_t size, uint8_t code[SHA1_SIZE]);
