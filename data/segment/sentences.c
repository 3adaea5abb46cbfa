#include "data/segment/sentences.h"

#include <string.h>

typedef struct {
    const SymbolText *line;
    const SegmentTokens *tokens;
} Tokens;

static bool is(const Tokens *t, size_t token, const char *text) {
    const SymbolSpan span = t->tokens->spans[token];
    const size_t begin = t->line->offsets[span.begin - t->line->symbols],
                 size = t->line->offsets[span.end - t->line->symbols] - begin;
    return size == strlen(text) && !memcmp(t->line->bytes + begin, text, size);
}

static bool begins(const Tokens *t, size_t token, unsigned classes) {
    return symbol_is(*t->tokens->spans[token].begin, classes);
}

static bool is_quotation_mark(const Tokens *t, size_t token) { return is(t, token, "\"") || is(t, token, "''"); }

static bool is_end_mark(const Tokens *t, size_t token) {
    SymbolSpan span = t->tokens->spans[token];
    if (is(t, token, "?") || is(t, token, "!") || is(t, token, "…")) return true;
    while (span.begin < span.end && symbol_character(*span.begin) == '.') span.begin++;
    return span.begin == span.end;
}

/* Returns whether a colon ends the sentence: a numbered list follows. */
static bool begins_list(const Tokens *t, size_t colon) {
    return (begins(t, colon + 1, UNIT_DIGIT) && is(t, colon + 2, ".")) || is(t, colon + 2, ",");
}

/* Returns whether a token behind an end mark still belongs to the sentence. */
static bool belongs(const Tokens *t, size_t token) {
    static const char *const marks[] = {"”", "\xEF\xBF\xBD", "'", ")", "}", "]", ","};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        if (is(t, token, marks[i])) return true;
    return begins(t, token, UNIT_LOWER | UNIT_DIGIT);
}

/* Returns whether the sentence is the number of an item, "1 ." or "A ." */
static bool is_ordinal(const Tokens *t, size_t begin, size_t dot) {
    const SymbolSpan first = t->tokens->spans[begin];
    return dot == begin + 1 && is(t, dot, ".") &&
           (begins(t, begin, UNIT_DIGIT | UNIT_LOWER) ||
            (first.end - first.begin == 1 && begins(t, begin, UNIT_UPPER)));
}

static bool has_open_quotation(const Tokens *t, size_t begin, size_t last) {
    bool open = false;
    for (size_t i = begin; i <= last; i++) open ^= is_quotation_mark(t, i);
    return open;
}

size_t sentence_end(const SymbolText *line, const SegmentTokens *tokens, size_t begin) {
    const Tokens t = {line, tokens};
    for (size_t i = begin; i + 1 < tokens->n; i++) {
        if (i + 2 < tokens->n && is(&t, i, ":") && begins_list(&t, i)) return i + 1;
        if (!is_end_mark(&t, i) || belongs(&t, i + 1) || is_ordinal(&t, begin, i)) continue;
        if (!is_quotation_mark(&t, i + 1) || !has_open_quotation(&t, begin, i)) return i + 1;
    }
    return tokens->n;
}
