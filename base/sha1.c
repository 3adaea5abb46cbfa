#include "base/sha1.h"

#include <stdint.h>
#include <string.h>

#include "base/base.h"

enum { BLOCK = 64, WORDS = 5 };

static inline uint32_t rotate(uint32_t x, int bits) { return x << bits | x >> (32 - bits); }

/* The five words of the state, while a block is added to it. */
typedef struct {
    uint32_t a, b, c, d, e;
} Round;

static inline void round_with(Round *r, uint32_t mixed) {
    mixed += rotate(r->a, 5) + r->e;
    *r = (Round){mixed, r->a, rotate(r->b, 30), r->c, r->d};
}

/* Returns word t of the schedule. w[16] has the 16 words before it. */
static inline uint32_t scheduled(uint32_t *w, int t) {
    return w[t & 15] = rotate(w[(t - 3) & 15] ^ w[(t - 8) & 15] ^ w[(t - 14) & 15] ^ w[t & 15], 1);
}

static void add_block(uint32_t state[WORDS], const unsigned char *block) {
    uint32_t w[16];
    Round r = {state[0], state[1], state[2], state[3], state[4]};
    int t = 0;
    for (; t < 16; t++, block += 4) {
        w[t] = (uint32_t)block[0] << 24 | (uint32_t)block[1] << 16 | (uint32_t)block[2] << 8 | block[3];
        round_with(&r, (r.d ^ (r.b & (r.c ^ r.d))) + 0x5a827999 + w[t]);
    }
    for (; t < 20; t++) round_with(&r, (r.d ^ (r.b & (r.c ^ r.d))) + 0x5a827999 + scheduled(w, t));
    for (; t < 40; t++) round_with(&r, (r.b ^ r.c ^ r.d) + 0x6ed9eba1 + scheduled(w, t));
    for (; t < 60; t++) round_with(&r, ((r.b & r.c) | (r.d & (r.b | r.c))) + 0x8f1bbcdc + scheduled(w, t));
    for (; t < 80; t++) round_with(&r, (r.b ^ r.c ^ r.d) + 0xca62c1d6 + scheduled(w, t));
    state[0] += r.a, state[1] += r.b, state[2] += r.c, state[3] += r.d, state[4] += r.e;
}

void sha1(const void *bytes, size_t size, unsigned char digest[SHA1_SIZE]) {
    uint32_t state[WORDS] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    const unsigned char *at = bytes;
    size_t left = size;
    for (; left >= BLOCK; left -= BLOCK, at += BLOCK) add_block(state, at);
    /* The rest, a one bit, zeros, and the number of bits at the end of one or two blocks. */
    unsigned char last[2 * BLOCK] = {0};
    size_t end = left < BLOCK - 8 ? BLOCK : 2 * BLOCK;
    if (left) memcpy(last, at, left);
    last[left] = 0x80;
    for (int i = 0; i < 8; i++) last[end - 1 - (size_t)i] = (unsigned char)((uint64_t)size * 8 >> 8 * i);
    add_block(state, last);
    if (end > BLOCK) add_block(state, last + BLOCK);
    for (int i = 0; i < SHA1_SIZE; i++) digest[i] = (unsigned char)(state[i / 4] >> (24 - 8 * (i % 4)));
}

void sha1_text(const void *bytes, size_t size, char text[SHA1_DIGITS + 1]) {
    unsigned char digest[SHA1_SIZE];
    sha1(bytes, size, digest);
    for (int i = 0; i < SHA1_DIGITS; i++) text[i] = "0123456789abcdef"[digest[i / 2] >> (i % 2 ? 0 : 4) & 15];
    text[SHA1_DIGITS] = 0;
}

void sha1_hmac(const void *key, size_t key_size, const void *text, size_t size, uint8_t code[SHA1_SIZE]) {
    uint8_t short_key[BLOCK] = {0}, outer[BLOCK + SHA1_SIZE];
    OWNED uint8_t *inner = xmalloc(BLOCK + size);
    if (key_size > BLOCK)
        sha1(key, key_size, short_key);
    else if (key_size)
        memcpy(short_key, key, key_size);
    for (int i = 0; i < BLOCK; i++) {
        inner[i] = short_key[i] ^ 0x36;
        outer[i] = short_key[i] ^ 0x5c;
    }
    if (size) memcpy(inner + BLOCK, text, size);
    sha1(inner, BLOCK + size, outer + BLOCK);
    sha1(outer, sizeof outer, code);
}
