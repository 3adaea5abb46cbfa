/* The Java object stream of VnVocab. Integers are big-endian.
 *
 *   0   AC ED 00 05, 73 72, 00 11 "java.util.HashSet", serialVersionUID, 03, 00 00, 78 70, 77 0C
 *   40  int32 capacity of the table, not negative; float32 load factor, greater than 0
 *   48  int32 number of strings
 *   52  of each string: 74, uint16 length, bytes of Java's UTF-8
 *       78, and the file ends */
#include <math.h>
#include <string.h>
#include <unistr.h>

#include "data/segment/lexicon.h"

static const char head[40] =
    "\xAC\xED\0\5\x73\x72\0\x11java.util.HashSet\xBA\x44\x85\x95\x96\xB8\xB7\x34\3\0\0\x78\x70\x77\x0C";
enum { COUNT_AT = 48, WORDS_AT = 52, STRING = 0x74, END = 0x78 };

typedef struct {
    const unsigned char *bytes;
    size_t size, at;
} Stream;

static uint32_t big_endian(const unsigned char *bytes, int n) {
    uint32_t value = 0;
    for (int i = 0; i < n; i++) value = value << 8 | bytes[i];
    return value;
}

static bool read_head(const Stream *s, uint32_t *n, Error *error) {
    for (size_t i = 0; i < sizeof head && i < s->size; i++)
        if (s->bytes[i] != (unsigned char)head[i])
            return error_set(
                error,
                "offset %zu: byte 0x%02x instead of 0x%02x: this is not the HashSet of strings that Java has "
                "written (VnVocab, vi-vocab)",
                i, s->bytes[i], (unsigned char)head[i]);
    if (s->size < WORDS_AT) return error_set(error, "offset %zu: the file is cut short in its head", s->size);
    float load;
    const uint32_t bits = big_endian(s->bytes + 44, 4);
    memcpy(&load, &bits, sizeof load);
    if (big_endian(s->bytes + 40, 4) >> 31) return error_set(error, "offset 40: the capacity of the table is negative");
    if (!(load > 0) || isinf(load)) return error_set(error, "offset 44: the load factor of the table is not positive");
    *n = big_endian(s->bytes + COUNT_AT, 4);
    if (*n >> 31 || 3 * (uint64_t)*n > s->size - WORDS_AT)
        return error_set(error, "offset %d: %d strings do not fit into the %zu bytes that follow", COUNT_AT, (int)*n,
                         s->size - WORDS_AT);
    return true;
}

/* Returns the first byte that is no strict UTF-8 of up to three bytes per character, or a NUL; NULL: there is none. */
static const unsigned char *bad_character(const unsigned char *word, size_t size) {
    const unsigned char *bad = u8_check(word, size), *end = bad ? bad : word + size;
    for (; word < end; word++)
        if (!*word || *word >= 0xF0) return word;
    return bad;
}

static bool read_word(Stream *s, uint32_t number, Lexicon *lexicon, Error *error) {
    if (s->at == s->size) return error_set(error, "offset %zu: the file is cut short at string %u", s->at, number);
    if (s->bytes[s->at] != STRING)
        return error_set(error, "offset %zu: byte 0x%02x instead of 0x%02x, which begins a string", s->at,
                         s->bytes[s->at], STRING);
    const size_t left = s->size - s->at, size = left < 3 ? 0 : big_endian(s->bytes + s->at + 1, 2);
    if (left < 3 || size > left - 3)
        return error_set(error, "offset %zu: the file is cut short in string %u", s->at, number);
    const unsigned char *word = s->bytes + s->at + 3, *bad = bad_character(word, size);
    if (bad)
        return error_set(error,
                         "offset %td: byte 0x%02x in string %u, which must be UTF-8 of at most three bytes per "
                         "character",
                         bad - s->bytes, *bad, number);
    const int64_t known = strings_find(&lexicon->words, (const char *)word, size);
    if (lexicon_lists(lexicon, known) & LEXICON_VOCABULARY)
        return error_set(error, "offset %zu: \"%.*s\" is there twice", s->at, (int)size, (const char *)word);
    lexicon_add(lexicon, (const char *)word, size, LEXICON_VOCABULARY);
    s->at += 3 + size;
    return true;
}

bool vocabulary_read(const char *bytes, size_t size, Lexicon *lexicon, Error *error) {
    Stream s = {(const unsigned char *)bytes, size, WORDS_AT};
    uint32_t n = 0;
    if (!read_head(&s, &n, error)) return false;
    for (uint32_t i = 0; i < n; i++)
        if (!read_word(&s, i + 1, lexicon, error)) return false;
    if (s.at == size) return error_set(error, "offset %zu: the file is cut short behind its last string", s.at);
    if (s.bytes[s.at] != END)
        return error_set(error,
                         "offset %zu: byte 0x%02x instead of 0x%02x, the end: there are more than the %u strings "
                         "that the file announces",
                         s.at, s.bytes[s.at], END, n);
    if (s.at + 1 != size)
        return error_set(error, "offset %zu: %zu more bytes behind the end", s.at + 1, size - s.at - 1);
    return true;
}
