#include "data/text/unknown.h"

#include <stdio.h>
#include <stdlib.h>
#include <unictype.h>
#include <unistr.h>

#include "data/text/characters.h"

enum { SHOWN = 10 }; /* characters that a message names */

/* ---- counting ---- */

/* Counts the characters of an unknown piece (TokenIds.missing). */
static void add_missing(void *context, const char *text, size_t size) {
    enum { SPACE = 0x2581 }; /* as SentencePiece writes it */
    Unknown *u = context;
    const uint8_t *classes = character_classes();
    const char *end = text + size;
    bool visible = false;
    uint32_t c;
    if (!u->characters) u->characters = xcalloc(CHARACTER_NONE + 1, sizeof *u->characters);
    for (size_t n; (n = character_at(text, end, &c)); text += n) {
        if (classes[c] & CHARACTER_BLANK || c == SPACE) continue;
        u->characters[c]++;
        visible = true;
    }
    u->white += !visible;
    u->unknown -= !visible;
}

void unknown_add(Unknown *u, const char *text, size_t size, const TokenIds *before, const TokenIds *ids) {
    int64_t dropped = ids->dropped - before->dropped, unknown = ids->unknown - before->unknown + dropped;
    u->pieces += ids->n - before->n + dropped;
    u->unknown += unknown;
    if (!unknown) return;
    u->ids.n = 0;
    u->ids.missing = add_missing;
    u->ids.context = u;
    u->encode(u->tokenizer, text, size, &u->ids);
}

void unknown_move(Unknown *into, Unknown *from) {
    into->pieces += from->pieces;
    into->unknown += from->unknown;
    into->white += from->white;
    if (from->characters && !into->characters) {
        into->characters = from->characters;
        from->characters = NULL;
    }
    for (uint32_t c = 0; from->characters && c <= CHARACTER_NONE; c++) into->characters[c] += from->characters[c];
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
        if (!u->characters[c]) continue;
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

bool unknown_is_many(int64_t unknown, int64_t pieces) {
    return unknown && (double)unknown >= 0.001 * (double)pieces; /* of another language, or other texts */
}

bool unknown_check(const char *what, int64_t unknown, int64_t pieces, const char *characters, double most,
                   Error *error) {
    double share = unknown > 0 ? (double)unknown / (double)pieces : 0;
    bool ok = !unknown || share < most || most >= 1;
    if (ok && !unknown_is_many(unknown, pieces)) return true;
    OWNED char *text =
        xformat("%s: the tokenizer does not know %lld of %lld pieces (%.3g %%)%s%s", what, (long long)unknown,
                (long long)pieces, 100 * share, *characters ? ", because of the characters " : "", characters);
    if (ok)
        warn("%s", text);
    else
        error_set(error, "%s: it was made of other texts; give one that knows these, or raise --max-unknown %g", text,
                  most);
    return ok;
}

void unknown_warn(const char *what, const Unknown *u) {
    OWNED char *characters = unknown_characters(u);
    unknown_check(what, u->unknown, u->pieces, characters, 1, NULL);
}
