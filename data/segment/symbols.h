/* A line as an array of characters with their classes, and as bytes. */
#pragma once

#include "base/base.h"

/* Unit classes hold no character above U+FFFF: the segmenter was defined on 16-bit units. */
enum {
    UNIT_LETTER = 1,
    UNIT_DIGIT = 2,
    UNIT_UPPER = 4,
    UNIT_LOWER = 8,
    UNIT_ALPHABETIC = 16,
    SYMBOL_LETTER = 32, /* of all characters */
    SYMBOL_CURRENCY = 64
};

/* A code point, and above its 24 bits the classes. A byte that belongs to no character is CHARACTER_NONE. */
typedef uint32_t Symbol;

static inline uint32_t symbol_character(Symbol symbol) { return symbol & 0xFFFFFF; }
static inline bool symbol_is(Symbol symbol, unsigned classes) { return (symbol >> 24 & classes) != 0; }
/* Returns whether it separates tokens: the blank and the characters from tab to carriage return, no others. */
static inline bool symbol_is_space(Symbol symbol) {
    return symbol_character(symbol) == ' ' || symbol_character(symbol) - '\t' < 5;
}

/* Consecutive symbols; begin is NULL: none, such as a match that was not found. */
typedef struct {
    const Symbol *begin, *end;
} SymbolSpan;

/* Removes control characters and blanks, all up to U+0020, from both ends. */
static inline SymbolSpan symbols_trim(SymbolSpan span) {
    while (span.begin < span.end && symbol_character(*span.begin) <= ' ') span.begin++;
    while (span.begin < span.end && symbol_character(span.end[-1]) <= ' ') span.end--;
    return span;
}

typedef struct {
    const char *bytes;
    size_t n;
    Symbol *symbols; /* [n] */
    size_t *offsets; /* [n + 1] of their bytes */
} SymbolText;

/* Decodes a text, which must live as long as the result. Release with symbol_text_free. */
SymbolText symbol_text(const char *bytes, size_t size);
void symbol_text_free(SymbolText *text);
/* Writes the characters of a span in lower case, as far as that makes words of the segmenter: never more bytes than
 * they had. Returns their end. */
char *symbols_to_lower(const SymbolText *text, SymbolSpan span, char *out);
