#include "data/segment/symbols.h"

#include <stdlib.h>
#include <string.h>
#include <unistr.h>

#include "data/segment/class_ranges.h"
#include "data/text/characters.h"

static uint8_t classes[CHARACTER_END];

static void make_classes(void) {
    const uint8_t *newest = character_classes();
    CHARACTERS_MARK(classes, later_letters, 1, SYMBOL_LETTER);
    for (uint32_t c = 0; c < CHARACTER_NONE; c++) {
        const bool letter = newest[c] & CHARACTER_LETTER && !classes[c];
        classes[c] = !letter ? 0 : c <= 0xFFFF ? SYMBOL_LETTER | UNIT_LETTER | UNIT_ALPHABETIC : SYMBOL_LETTER;
    }
    CHARACTERS_MARK(classes, other_alphabetic, 1, UNIT_ALPHABETIC);
    CHARACTERS_MARK(classes, digit, 1, UNIT_DIGIT);
    CHARACTERS_MARK(classes, upper, 1, UNIT_UPPER);
    CHARACTERS_MARK(classes, alternating_upper, 2, UNIT_UPPER);
    CHARACTERS_MARK(classes, lower, 1, UNIT_LOWER);
    CHARACTERS_MARK(classes, alternating_lower, 2, UNIT_LOWER);
    CHARACTERS_MARK(classes, currency, 1, SYMBOL_CURRENCY);
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
    FREE(text->symbols, text->offsets);
    *text = (SymbolText){0};
}

/* Returns the lower case of an upper case that words have, or the character itself. */
static uint32_t lower_of(Symbol symbol) {
    const uint32_t c = symbol_character(symbol);
    for (size_t i = 0; symbol_is(symbol, UNIT_UPPER) && i < sizeof lower_case / sizeof *lower_case; i++)
        if (c >= lower_case[i].first && c <= lower_case[i].last) return c + (uint32_t)lower_case[i].distance;
    return c;
}

char *symbols_to_lower(const SymbolText *text, SymbolSpan span, char *out) {
    for (const Symbol *at = span.begin; at < span.end; at++) {
        const size_t i = (size_t)(at - text->symbols), size = text->offsets[i + 1] - text->offsets[i];
        const uint32_t small = lower_of(*at);
        if (small != symbol_character(*at)) {
            out += u8_uctomb((uint8_t *)out, small, 3);
        } else {
            memcpy(out, text->bytes + text->offsets[i], size);
            out += size;
        }
    }
    return out;
}
