/* Normalises text bit for bit as the Python code of IndexTTS2's Amharic front end does.
 *
 * All functions work on code points, because Python does: whitespace, digits and letter case are Unicode's, lengths
 * count code points. The punctuation table is applied in one pass from left to right, and its output is not read again.
 * That is why "፤" ends as ";" although ";" itself ends as ",", and "，，，" as ",,," although ",,," ends as "…". */
#include <stdlib.h>
#include <string.h>
#include <unicase.h>
#include <unictype.h>
#include <uninorm.h>
#include <unistr.h>

#include "data/text/characters.h"
#include "data/text/normalize.h"

/* A run of code points. Trimming moves its ends, so `at` need not be the start of the allocation. */
typedef struct {
    uint32_t *at;
    size_t n;
} Points;

/* Returns what Python's str.isspace does, which also defines \s of its regular expressions and strip(). */
static bool is_space(uint32_t c) { return character_classes()[c] & CHARACTER_BLANK; }

static bool is_digit(uint32_t c) { return uc_is_general_category(c, UC_DECIMAL_DIGIT_NUMBER); }

/* Returns whether the reference makes a word of this code point, for Chinese, Japanese and Korean. One of the ranges
 * also covers Ethiopic Extended-A (U+AB00..AB2F); Ethiopic itself (U+1200..139F, U+2D80..2DDF) is in none. */
static bool is_split(uint32_t c) {
    static const uint32_t ranges[][2] = {{0x1100, 0x11FF}, {0x2E80, 0xA4CF}, {0xA840, 0xD7AF},  {0xF900, 0xFAFF},
                                         {0xFE30, 0xFE4F}, {0xFF65, 0xFFDC}, {0x20000, 0x2FFFF}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (c >= ranges[i][0] && c <= ranges[i][1]) return true;
    return false;
}

/* Texts and their replacements. No entry is the beginning of another, so their order is free (the reference also lists
 * "，，，", which never matches after "，"). */
static const char *const replacements[][2] = {
    {"።", "."},  {"፣", ","},   {"፤", ";"},   {"፥", ":"},  {"፦", ":"},  {"፧", "?"},  {"፨", "!"},
    {"፡", " "},  {"：", ","},  {"；", ","},  {";", ","},  {"，", ","}, {"、", ","}, {":", ","},
    {"。", "."}, {"！", "!"},  {"？", "?"},  {"\n", " "}, {"·", "-"},  {"—", "-"},  {"～", "-"},
    {"~", "-"},  {"...", "…"}, {",,,", "…"}, {"……", "…"}, {"“", "'"},  {"”", "'"},  {"\"", "'"},
    {"‘", "'"},  {"’", "'"},   {"（", "'"},  {"）", "'"}, {"(", "'"},  {")", "'"},  {"《", "'"},
    {"》", "'"}, {"【", "'"},  {"】", "'"},  {"[", "'"},  {"]", "'"},  {"「", "'"}, {"」", "'"}};

static void points_free(Points *p) { free(p->at); }

static Points points_trim(Points p) {
    while (p.n && is_space(p.at[0])) p.at++, p.n--;
    while (p.n && is_space(p.at[p.n - 1])) p.n--;
    return p;
}

/* Drops a leading "WORD 12:", in any letter case, also with a full-width colon and with spaces in between. */
static Points points_drop_speaker(Points p, const char *const *words, int n_words) {
    for (int i = 0; i < n_words; i++) {
        size_t at = 0;
        const uint8_t *word = (const uint8_t *)words[i];
        ucs4_t letter;
        while (at < p.n && is_space(p.at[at])) at++;
        while ((word = u8_next(&letter, word)) && at < p.n && uc_tolower(uc_toupper(p.at[at])) == letter) at++;
        if (word) continue;
        while (at < p.n && is_space(p.at[at])) at++;
        size_t digits = at;
        while (at < p.n && is_digit(p.at[at])) at++;
        if (at == digits) continue;
        while (at < p.n && is_space(p.at[at])) at++;
        if (at == p.n || (p.at[at] != ':' && p.at[at] != 0xFF1A)) continue;
        return points_trim((Points){p.at + at + 1, p.n - at - 1});
    }
    return p;
}

/* Returns the length of `key` in code points if `p` begins with it, else 0. */
static size_t points_match(Points p, const char *key) {
    const uint8_t *next = (const uint8_t *)key;
    ucs4_t c;
    size_t n = 0;
    while ((next = u8_next(&c, next))) {
        if (n == p.n || p.at[n] != c) return 0;
        n++;
    }
    return n;
}

/* Replaces runs of whitespace by one space, then applies the table; in place, since nothing grows. */
static Points points_replace(Points p) {
    size_t n = 0;
    for (size_t i = 0; i < p.n; i++) /* writes never overtake reads */
        if (!is_space(p.at[i]) || i == 0 || !is_space(p.at[i - 1])) p.at[n++] = is_space(p.at[i]) ? ' ' : p.at[i];
    Points in = {p.at, n};
    for (n = 0; in.n; n++) {
        uint32_t c = in.at[0];
        size_t taken = 0;
        for (size_t i = 0; i < sizeof replacements / sizeof *replacements && !taken; i++)
            if ((taken = points_match(in, replacements[i][0]))) u8_next(&c, (const uint8_t *)replacements[i][1]);
        if (!taken) taken = 1;
        in.at += taken, in.n -= taken;
        p.at[n] = c;
    }
    return (Points){p.at, n};
}

/* Returns the split characters and the parts between them, trimmed and joined by single spaces; free() `at`. */
static Points points_split(Points p) {
    Points out = {xmalloc((2 * p.n + 1) * sizeof(uint32_t)), 0};
    for (size_t begin = 0, end; begin < p.n; begin = end) {
        for (end = begin + 1; !is_split(p.at[begin]) && end < p.n && !is_split(p.at[end]);) end++;
        Points part = points_trim((Points){p.at + begin, end - begin});
        if (!part.n) continue;
        if (out.n) out.at[out.n++] = ' ';
        memcpy(out.at + out.n, part.at, part.n * sizeof(uint32_t));
        out.n += part.n;
    }
    return out;
}

/* Returns what libunistring has returned; it fails only when memory runs out. */
static Points points_checked(uint32_t *at, const size_t *n) {
    if (!at) die("out of memory while normalising a text");
    return (Points){at, *n};
}

/* Sets *out to the code points of `text`; free() its `at`. Returns false if the text is not UTF-8. */
static bool points_of(const char *text, Points *out, Error *error) {
    const uint8_t *bytes = (const uint8_t *)text, *bad = u8_check(bytes, strlen(text));
    if (bad) return error_set(error, "the text is not UTF-8: byte 0x%02x at offset %td", *bad, bad - bytes);
    size_t n = 0;
    *out = (Points){xmalloc((strlen(text) + 1) * sizeof(uint32_t)), 0};
    while ((bytes = u8_next(&out->at[n], bytes))) n++;
    out->n = n;
    return true;
}

static char *points_text(Points p) {
    char *text = xmalloc(4 * p.n + 1);
    size_t n = 0;
    for (size_t i = 0; i < p.n; i++) n += (size_t)u8_uctomb((uint8_t *)text + n, p.at[i], 4);
    text[n] = 0;
    return text;
}

static Points points_clean(Points p) {
    static const char *const words[] = {"speaker", "spk"};
    p = points_trim(p);
    for (size_t i = 0; i < p.n; i++)
        if (p.at[i] == 0x3000 || p.at[i] == 0xA0) p.at[i] = ' ';
    return points_trim(points_drop_speaker(p, words, 2));
}

char *text_clean(const char *text, Error *error) {
    OWNED_BY(points_free) Points all = {NULL, 0};
    return points_of(text, &all, error) ? points_text(points_clean(all)) : NULL;
}

/* Applies all steps after text_clean, for two characters or more. */
static char *points_normalize(Points p) {
    static const char *const words[] = {"speaker", "spk", "ተናጋሪ"};
    p = points_drop_speaker(points_trim(p), words, 3);
    if (!p.n) return xstrdup("");
    size_t n;
    OWNED_BY(points_free) Points composed = points_checked(u32_normalize(UNINORM_NFC, p.at, p.n, NULL, &n), &n);
    OWNED_BY(points_free) Points split = points_split(points_trim(points_replace(composed)));
    OWNED_BY(points_free) Points upper = points_checked(u32_toupper(split.at, split.n, NULL, NULL, NULL, &n), &n);
    return points_text(upper);
}

char *text_normalize_amharic(const char *text, Error *error) {
    OWNED_BY(points_free) Points all = {NULL, 0};
    if (!points_of(text, &all, error)) return NULL;
    Points clean = points_clean(all);
    return clean.n > 1 ? points_normalize(clean) : points_text(clean);
}
