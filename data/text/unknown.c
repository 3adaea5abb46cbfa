#include "data/text/unknown.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unictype.h>
#include <unistr.h>

#include "data/text/characters.h"

enum { SHOWN = 10 }; /* characters that a message names */
static const double WORTH_A_WARNING = 0.001;

/* ---- counting ---- */

/* Returns how many unknown pieces, and characters that are left out, a text becomes. */
static int64_t count_unknown(Unknown *u, const char *text, size_t size) {
    u->ids.n = u->ids.unknown = u->ids.dropped = 0;
    u->encode(u->tokenizer, text, size, &u->ids);
    return u->ids.unknown + u->ids.dropped;
}

/* Returns whether a character has no piece, at the beginning of a word or inside it, and counts it then. */
static bool is_missing(Unknown *u, uint32_t c, const char *character, size_t size) {
    int64_t *count = &u->characters[c];
    if (!*count) {
        char twice[8];
        memcpy(twice, character, size);
        memcpy(twice + size, character, size);
        if (!count_unknown(u, twice, 2 * size)) *count = -1;
    }
    *count += *count >= 0;
    return *count > 0;
}

/* Counts the characters of a text that are missing. Returns how many unknown pieces are white space alone. */
static int64_t add_characters(Unknown *u, const char *text, size_t size) {
    const uint8_t *classes = character_classes();
    const char *end = text + size;
    int64_t white = 0;
    uint32_t c;
    if (!u->characters) u->characters = xcalloc(CHARACTER_NONE + 1, sizeof *u->characters);
    for (size_t n; text < end; text += n) {
        const char *begin = text; /* of missing characters, which are perhaps one piece */
        bool visible = false;
        for (; (n = character_at(text, end, &c)) && is_missing(u, c, text, n); text += n)
            visible = visible || !(classes[c] & CHARACTER_BLANK);
        if (!visible && text > begin) white += count_unknown(u, begin, (size_t)(text - begin));
    }
    return white;
}

void unknown_add(Unknown *u, const char *text, size_t size, const TokenIds *before, const TokenIds *ids) {
    int64_t dropped = ids->dropped - before->dropped, unknown = ids->unknown - before->unknown + dropped;
    u->pieces += ids->n - before->n + dropped;
    if (!unknown) return;
    int64_t white = add_characters(u, text, size);
    if (white > unknown) white = unknown;
    u->white += white;
    u->unknown += unknown - white;
}

void unknown_move(Unknown *into, Unknown *from) {
    into->pieces += from->pieces;
    into->unknown += from->unknown;
    into->white += from->white;
    if (from->characters && !into->characters) {
        into->characters = from->characters;
        from->characters = NULL;
    }
    for (uint32_t c = 0; from->characters && c <= CHARACTER_NONE; c++)
        if (from->characters[c] > 0)
            into->characters[c] = from->characters[c] + (into->characters[c] > 0 ? into->characters[c] : 0);
    unknown_free(from);
}

void unknown_free(Unknown *u) {
    free(u->characters);
    token_ids_free(&u->ids);
    *u = (Unknown){.encode = u->encode, .tokenizer = u->tokenizer};
}

/* ---- messages ---- */

/* Writes a character, or its number if it cannot be seen by itself; out: at least 12 bytes. */
static void name_of(uint32_t c, char *out) {
    uint8_t bytes[4];
    int n = c < CHARACTER_NONE && !uc_is_general_category(c, UC_CATEGORY_C) &&
                    !uc_is_general_category(c, UC_CATEGORY_Z) && !uc_is_general_category(c, UC_CATEGORY_M)
                ? u8_uctomb(bytes, c, sizeof bytes)
                : 0;
    if (n > 0)
        snprintf(out, 12, "%.*s", n, (const char *)bytes);
    else if (c < CHARACTER_NONE)
        snprintf(out, 12, "U+%04X", c);
    else
        snprintf(out, 12, "no UTF-8");
}

char *unknown_characters(const Unknown *u) {
    uint32_t most[SHOWN], n = 0, all = 0;
    for (uint32_t c = 0; u->characters && c <= CHARACTER_NONE; c++) {
        if (u->characters[c] <= 0 || character_classes()[c] & CHARACTER_BLANK) continue;
        all++;
        uint32_t at = n < SHOWN ? n++ : SHOWN;
        for (; at && u->characters[most[at - 1]] < u->characters[c]; at--)
            if (at < SHOWN) most[at] = most[at - 1];
        if (at < SHOWN) most[at] = c;
    }
    char text[SHOWN * 40 + 40] = "", *end = text;
    for (uint32_t i = 0; i < n; i++) {
        char name[12];
        name_of(most[i], name);
        end += sprintf(end, "%s%s %lld", i ? ", " : "", name, (long long)u->characters[most[i]]);
    }
    if (all > n) sprintf(end, " and %u others", all - n);
    return xstrdup(text);
}

bool unknown_check(const char *what, int64_t unknown, int64_t pieces, const char *characters, double most,
                   Error *error) {
    double share = unknown > 0 ? (double)unknown / (double)pieces : 0;
    bool ok = !unknown || share < most || most >= 1;
    if (ok && share < WORTH_A_WARNING) return true;
    char *text = xformat("%s: the tokenizer does not know %lld of %lld pieces (%.3g %%)%s%s", what, (long long)unknown,
                         (long long)pieces, 100 * share, *characters ? ", because of the characters " : "", characters);
    if (ok)
        warn("%s", text);
    else
        error_set(error, "%s: it was made of other texts; give one that knows these, or raise --max-unknown %g", text,
                  most);
    free(text);
    return ok;
}

void unknown_warn(const char *what, const Unknown *u) {
    char *characters = unknown_characters(u);
    unknown_check(what, u->unknown, u->pieces, characters, 1, NULL);
    free(characters);
}
