#include "data/segment/symbols.h"

#include <stdlib.h>
#include <string.h>
#include <unistr.h>

#include "data/segment/class_ranges.h"
#include "data/text/characters.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static uint8_t classes[CHARACTER_END];

static void mark_ranges(const uint32_t (*ranges)[2], size_t n, uint8_t class) {
    for (size_t i = 0; i < n; i++)
        for (uint32_t c = ranges[i][0]; c <= ranges[i][1]; c++) classes[c] |= class;
}

static void make_classes(void) {
    mark_ranges(letter, COUNT(letter), SYMBOL_LETTER);
    mark_ranges(digit, COUNT(digit), UNIT_DIGIT);
    mark_ranges(upper, COUNT(upper), UNIT_UPPER);
    mark_ranges(lower, COUNT(lower), UNIT_LOWER);
    mark_ranges(alphabetic, COUNT(alphabetic), UNIT_ALPHABETIC);
    mark_ranges(currency, COUNT(currency), SYMBOL_CURRENCY);
    for (uint32_t c = 0; c <= 0xFFFF; c++)
        if (classes[c] & SYMBOL_LETTER) classes[c] |= UNIT_LETTER;
}

SymbolText symbol_text(const char *bytes, size_t size) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_classes);
    SymbolText text = {bytes, 0, xmalloc((size + 1) * sizeof(Symbol)), xmalloc((size + 1) * sizeof(size_t))};
    for (const char *at = bytes, *end = bytes + size; at < end;) {
        uint32_t c;
        text.offsets[text.n] = (size_t)(at - bytes);
        at += character_at(at, end, &c);
        text.symbols[text.n++] = c | (Symbol)classes[c] << 24;
    }
    text.offsets[text.n] = size;
    return text;
}

void symbol_text_free(SymbolText *text) {
    free(text->symbols);
    free(text->offsets);
    *text = (SymbolText){0};
}

static int compare_letters(const void *key, const void *row) {
    const uint16_t *a = key, *b = row;
    return *a - *b;
}

char *symbols_to_lower(const SymbolText *text, SymbolSpan span, char *out) {
    for (const Symbol *at = span.begin; at < span.end; at++) {
        const size_t i = (size_t)(at - text->symbols), size = text->offsets[i + 1] - text->offsets[i];
        const uint16_t key = (uint16_t)symbol_character(*at); /* upper: at most U+FFFF */
        const uint16_t(*row)[2] = symbol_is(*at, UNIT_UPPER) ? bsearch(&key, lower_case, COUNT(lower_case),
                                                                       sizeof *lower_case, compare_letters)
                                                             : NULL;
        if (!row) {
            memcpy(out, text->bytes + text->offsets[i], size);
            out += size;
            continue;
        }
        out += u8_uctomb((uint8_t *)out, row[0][1], 3);
    }
    return out;
}
