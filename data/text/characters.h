/* Characters of UTF-8 texts that may also hold other bytes, and the classes that tokenizers split them by. */
#pragma once

#include "base/base.h"

enum {
    CHARACTER_LETTER = 1,      /* \p{L} */
    CHARACTER_NUMBER = 2,      /* \p{N} */
    CHARACTER_SPACE = 4,       /* \s: the property White_Space */
    CHARACTER_PUNCTUATION = 8, /* ASCII's signs and \p{P}, of an older Unicode than the classes above */
    CHARACTER_MARK = 16,       /* \p{M}, of that Unicode: what is removed with accents */
    CHARACTER_BLANK = 32       /* \s as Python knows it: CHARACTER_SPACE and U+001C .. U+001F */
};

/* A byte that belongs to no character of UTF-8: in no class, and different from every character. */
enum { CHARACTER_NONE = 0x110000, CHARACTER_END };

/* Returns the classes by code point, [CHARACTER_END]. */
const uint8_t *character_classes(void);

/* Adds `class` to the classes of every `step`-th character of the ranges, first and last, from their first on. */
void characters_mark(uint8_t *classes, const uint32_t (*ranges)[2], size_t n, uint32_t step, uint8_t class);
#define CHARACTERS_MARK(classes, ranges, step, class)                                                                  \
    characters_mark(classes, ranges, sizeof(ranges) / sizeof *(ranges), step, class)

/* Decodes the character at `at`, or one byte that begins none, as CHARACTER_NONE. Returns its bytes; 0 at the end. */
static inline size_t character_at(const char *at, const char *end, uint32_t *c) {
    const unsigned char *b = (const unsigned char *)at;
    const size_t left = (size_t)(end - at);
    if (!left) {
        *c = CHARACTER_END;
        return 0;
    }
    *c = b[0];
    if (b[0] < 0x80) return 1;
    const size_t n = b[0] < 0xC2 ? 0 : b[0] < 0xE0 ? 2 : b[0] < 0xF0 ? 3 : b[0] < 0xF5 ? 4 : 0;
    uint32_t value = n == 2 ? b[0] & 31u : n == 3 ? b[0] & 15u : b[0] & 7u;
    bool good = n && n <= left;
    for (size_t i = 1; good && i < n; i++) {
        good = (b[i] & 0xC0) == 0x80;
        value = value << 6 | (b[i] & 63u);
    }
    good = good && (n != 3 || (value >= 0x800 && (value & 0xF800) != 0xD800)) &&
           (n != 4 || (value >= 0x10000 && value < CHARACTER_NONE));
    *c = good ? value : CHARACTER_NONE;
    return good ? n : 1;
}
