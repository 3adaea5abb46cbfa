/* The splits, written out as loops over classes of characters. A regular expression takes the first alternative that
 * matches; within one, + and ? take as much as they can. */
#include <string.h>

#include "data/text/characters.h"
#include "data/text/words.h"

#define CL100K(number)                                                                                                 \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" number "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"            \
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

const char *words_pattern(WordSplit split) {
    static const char *const patterns[] = {
        [WORDS_GPT2] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
        [WORDS_CL100K] = CL100K("\\p{N}{1,3}"),
        [WORDS_CL100K_DIGITS] = CL100K("\\p{N}"),
        [WORDS_CHARACTERS] = NULL};
    return patterns[split];
}

/* The classes of the expressions, of which the characters of a word have one. */
enum { KIND = CHARACTER_LETTER | CHARACTER_NUMBER | CHARACTER_SPACE, OTHER = 0 };

typedef struct {
    const uint8_t *classes;
    const char *end;
} Text;

static inline int kind_at(const Text *text, const char *at, size_t *size) {
    const unsigned char first = at < text->end ? (unsigned char)*at : 0x80;
    uint32_t c = first;
    *size = 1;
    if (first >= 0x80) *size = character_at(at, text->end, &c);
    return *size ? text->classes[c] & KIND : -1;
}

/* Returns the end of at most `limit` characters of a kind. */
static inline const char *run_end(const Text *text, const char *at, int kind, int limit) {
    size_t size;
    for (; limit > 0 && kind_at(text, at, &size) == kind; limit--) at += size;
    return at;
}

/* Returns the bytes of a contraction, 's 't 'm 'd 're 've 'll; 0: there is none. The long s counts as an s if letter
 * case does not. */
static size_t contraction(const char *at, const char *end, bool any_case) {
    const char fold = any_case ? 0x20 : 0;
    const size_t left = (size_t)(end - at);
    if (left < 2 || at[0] != '\'') return 0;
    const char a = (char)(at[1] | fold);
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    if (left < 3) return 0;
    if (any_case && !memcmp(at + 1, "\u017f", 2)) return 3;
    const char b = (char)(at[2] | fold);
    return (b == 'e' && (a == 'r' || a == 'v')) || (a == 'l' && b == 'l') ? 3 : 0;
}

static bool is_line_end(const Text *text, const char *at) { return at < text->end && (*at == '\r' || *at == '\n'); }

/* Takes a run of white space, but leaves the last character to a word that follows. */
static const char *space_end(const Text *text, const char *at, bool stop_at_lines) {
    const char *last = at, *after_line = NULL, *begin = at;
    size_t size;
    while (kind_at(text, at, &size) == CHARACTER_SPACE) {
        last = at;
        at += size;
        if (is_line_end(text, last)) after_line = at;
    }
    if (stop_at_lines && after_line) return after_line;
    return at < text->end && last > begin ? last : at;
}

static const char *gpt2_end(const Text *text, const char *at) {
    size_t size = contraction(at, text->end, false);
    if (size) return at + size;
    const char *body = at + (*at == ' ');
    const int kind = kind_at(text, body, &size);
    if (kind == CHARACTER_LETTER || kind == CHARACTER_NUMBER || kind == OTHER)
        return run_end(text, body + size, kind, INT32_MAX);
    return space_end(text, at, false);
}

static const char *cl100k_end(const Text *text, const char *at, int digits) {
    size_t size = contraction(at, text->end, true), next;
    if (size) return at + size;
    int kind = kind_at(text, at, &size);
    if (kind == CHARACTER_NUMBER) return run_end(text, at, kind, digits);
    if (kind == CHARACTER_LETTER || (!is_line_end(text, at) && kind_at(text, at + size, &next) == CHARACTER_LETTER))
        return run_end(text, at + size, CHARACTER_LETTER, INT32_MAX);
    const char *body = at + (*at == ' ');
    if (kind_at(text, body, &size) != OTHER) return space_end(text, at, true);
    for (at = run_end(text, body, OTHER, INT32_MAX); is_line_end(text, at);) at++;
    return at;
}

/* Words between characters of the class `space`; each character of the class `sign` is a word. */
static const char *plain_next(const Text *text, const char **begin, int space, int sign) {
    const char *at = *begin;
    uint32_t c;
    size_t size;
    while ((size = character_at(at, text->end, &c)) && text->classes[c] & space) at += size;
    *begin = at;
    if (!size) return NULL;
    if (text->classes[c] & sign) return at + size;
    while ((size = character_at(at, text->end, &c)) && !(text->classes[c] & (space | sign))) at += size;
    return at;
}

static const char *blanks_next(const Text *text, const char **begin) {
    const char *at = plain_next(text, begin, CHARACTER_BLANK, 0);
    return at && at < text->end && *at == '\n' ? at + 1 : at;
}

const char *words_next(WordSplit split, const char **begin, const char *end) {
    const Text text = {character_classes(), end};
    if (*begin == end) return NULL;
    switch (split) {
    case WORDS_WHOLE:
        return end;
    case WORDS_SPACES:
        return plain_next(&text, begin, CHARACTER_SPACE, 0);
    case WORDS_PUNCTUATION:
        return plain_next(&text, begin, CHARACTER_SPACE, CHARACTER_PUNCTUATION);
    case WORDS_BLANKS:
        return blanks_next(&text, begin);
    case WORDS_CHARACTERS:
        return *begin + character_at(*begin, end, &(uint32_t){0});
    case WORDS_GPT2:
        return gpt2_end(&text, *begin);
    case WORDS_CL100K:
        return cl100k_end(&text, *begin, 3);
    default:
        return cl100k_end(&text, *begin, 1);
    }
}
