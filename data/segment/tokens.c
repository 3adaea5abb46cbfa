/* A part of a line that has no spaces is a piece. A rule decides whether it is a token or is cut at a token inside;
 * what is left of that and right of it are pieces again. The pieces to do are on a stack, so that their number has no
 * limit.
 *
 * Abbreviations, exceptions and patterns are one list, which is searched in order for the first entry that occurs.
 * Where an entry does not occur, it does not occur in a part either, so a piece remembers where to begin in the list.
 * It also keeps what is known of its end, which the piece right of a cut inherits. So a token of a hundred thousand
 * signs takes a fraction of a second. The URL is an exception: it needs a word boundary at the end of its domain, which
 * a cut can make. */
#include "data/segment/tokens.h"

#include <stdlib.h>
#include <string.h>

#include "data/segment/lists.h"
#include "data/segment/patterns.h"
#include "data/text/characters.h"

enum { ENTRIES = 128, ENTRY_SYMBOLS = 12 }; /* in the lists of data/segment/lists.c, at most */

/* An abbreviation or an exception. `mask` has a bit for each of its characters; where one is missing, it is not. */
typedef struct {
    uint64_t mask;
    uint32_t characters[ENTRY_SYMBOLS];
    int n;
} Entry;

static Entry entries[ENTRIES];
static int n_abbreviations, n_entries;

typedef struct {
    SymbolSpan span;
    uint64_t mask;  /* of the characters, perhaps with bits of others */
    ptrdiff_t sign; /* how far before the end the last symbol is that is neither letter nor digit; 0: there is none */
    ptrdiff_t foreign; /* the same of the last symbol that forbids a URL to be cut out */
    int from;          /* earlier entries and patterns do not occur, but perhaps a URL */
    bool maybe_url;    /* a URL may occur */
    bool is_token;     /* append it as it is */
} Piece;

typedef struct {
    Piece *pieces; /* the next one last */
    size_t n, capacity;
    SegmentTokens tokens;
} Work;

static uint64_t mask_of(uint32_t character) { return (uint64_t)1 << (character & 63); }

static void add_entries(const SegmentList *list) {
    for (int i = 0; i < list->n; i++) {
        Entry *entry = &entries[n_entries++];
        const char *at = list->entries[i], *end = at + strlen(at);
        while (at < end) {
            at += character_at(at, end, &entry->characters[entry->n]);
            entry->mask |= mask_of(entry->characters[entry->n++]);
        }
    }
}

static void make_entries(void) {
    add_entries(&segment_abbreviations);
    n_abbreviations = n_entries;
    add_entries(&segment_exceptions);
}

/* Returns whether a symbol forbids a URL to be cut out of its piece: all must be ASCII, and no part between dots a
 * single capital. */
static bool forbids_url(SymbolSpan t, const Symbol *at) {
    const uint32_t c = symbol_character(*at);
    return c >= 0x80 || (c - 'A' < 26 && (at == t.begin || symbol_character(at[-1]) == '.') &&
                         (at + 1 == t.end || symbol_character(at[1]) == '.'));
}

static Piece new_piece(SymbolSpan t, int from) {
    Piece piece = {.span = t, .from = from, .maybe_url = true};
    for (const Symbol *at = t.begin; at < t.end; at++) {
        piece.mask |= mask_of(symbol_character(*at));
        if (!symbol_is(*at, UNIT_LETTER | UNIT_DIGIT)) piece.sign = t.end - at;
        if (forbids_url(t, at)) piece.foreign = t.end - at;
    }
    return piece;
}

/* Returns whether a symbol so far before the end, 0: none, is in the span. */
static bool is_inside(ptrdiff_t before_end, SymbolSpan t) { return before_end && before_end <= t.end - t.begin; }

/* Returns a piece without what is before `begin`. */
static Piece right_piece(Piece piece, const Symbol *begin) {
    const SymbolSpan t = symbols_trim((SymbolSpan){begin, piece.span.end});
    if (t.end != piece.span.end) return new_piece(t, piece.from);
    piece.span = t;
    return piece;
}

static void push(Work *work, Piece piece) {
    if (piece.span.begin == piece.span.end) return;
    if (work->n == work->capacity) {
        work->capacity = work->capacity ? 2 * work->capacity : 16;
        work->pieces = xrealloc(work->pieces, work->capacity * sizeof *work->pieces);
    }
    work->pieces[work->n++] = piece;
}

static void append(SegmentTokens *tokens, SymbolSpan span) {
    tokens->spans = xgrow(tokens->spans, tokens->n, sizeof *tokens->spans);
    tokens->spans[tokens->n++] = span;
}

/* Returns whether a span begins with an entry. */
static bool begins_with(SymbolSpan t, const Entry *entry) {
    if (t.end - t.begin < entry->n) return false;
    for (int i = 0; i < entry->n; i++)
        if (symbol_character(t.begin[i]) != entry->characters[i]) return false;
    return true;
}

static bool is_entry(SymbolSpan t, int from, int to) {
    if (t.end - t.begin > ENTRY_SYMBOLS) return false;
    for (int i = from; i < to; i++)
        if (t.end - t.begin == entries[i].n && begins_with(t, &entries[i])) return true;
    return false;
}

/* Returns the first entry from piece->from on that occurs, and sets piece->from to its number; to the number of entries
 * if there is none. */
static SymbolSpan find_entry(Piece *piece) {
    const SymbolSpan t = piece->span;
    for (; piece->from < n_entries; piece->from++) {
        const Entry *entry = &entries[piece->from];
        if (entry->mask & ~piece->mask) continue;
        for (SymbolSpan rest = t; rest.end - rest.begin >= entry->n; rest.begin++)
            if (begins_with(rest, entry)) return (SymbolSpan){rest.begin, rest.begin + entry->n};
    }
    return (SymbolSpan){NULL, NULL};
}

static bool has_letter(const Symbol *begin, const Symbol *end) {
    while (begin < end && !symbol_is(*begin, UNIT_LETTER)) begin++;
    return begin < end;
}

static bool url_is_allowed(const Piece *piece) {
    const SymbolSpan t = piece->span;
    return piece->maybe_url && !is_inside(piece->foreign, t) && !forbids_url(t, t.begin);
}

/* Finds what is cut out of a piece; sets piece->from and piece->maybe_url to what is known then of its right part.
 * Begin is NULL: nothing, the piece is a token. */
static SymbolSpan find_cut(Piece *piece) {
    const SymbolSpan t = piece->span;
    SymbolSpan match = find_entry(piece);
    if (match.begin) return match;
    for (int p = 0; p < PATTERNS; p++)
        if ((p >= piece->from - n_entries || p == PATTERN_URL) && pattern_is_whole((Pattern)p, t)) return match;
    for (int p = 0; p < PATTERNS; p++) {
        if (p == PATTERN_URL ? !url_is_allowed(piece) : p < piece->from - n_entries) continue;
        match = pattern_find((Pattern)p, t);
        if (match.begin) {
            if (p > piece->from - n_entries) piece->from = n_entries + p;
            if (p == PATTERN_MONTH && !has_letter(t.begin, match.begin)) match.begin = NULL;
            return match;
        }
        if (p == PATTERN_URL) piece->maybe_url = false;
    }
    return match;
}

static void cut(Work *work, Piece piece, SymbolSpan match) {
    push(work, right_piece(piece, match.end));
    push(work, (Piece){.span = match, .is_token = true});
    push(work, new_piece(symbols_trim((SymbolSpan){piece.span.begin, match.begin}), piece.from));
}

/* Cuts off all of these signs at the end, but for one that is alone. */
static void cut_last(Work *work, Piece piece, uint32_t sign) {
    SymbolSpan t = piece.span;
    while (t.end - t.begin > 1 && symbol_character(t.end[-1]) == sign) {
        push(work, (Piece){.span = {t.end - 1, t.end}, .is_token = true});
        t.end--;
        t = symbols_trim(t);
    }
    push(work, new_piece(t, piece.from));
}

/* Returns whether the final dot of a piece belongs to it: one capital, or a short name somewhere. */
static bool keeps_dot(SymbolSpan t) {
    const ptrdiff_t n = t.end - t.begin;
    return (n == 2 && symbol_is(*t.begin, UNIT_UPPER)) || pattern_find(PATTERN_SHORT_NAME, t).begin;
}

static void divide(Work *work, Piece piece) {
    const SymbolSpan t = piece.span;
    const ptrdiff_t n = t.end - t.begin;
    const uint32_t last = symbol_character(t.end[-1]);
    bool is_token = (n == 1 && symbol_character(*t.begin) <= 0xFFFF) || !is_inside(piece.sign, t);
    bool cuts_last = !is_token && last == ',';
    is_token = is_token || (!cuts_last && is_entry(t, piece.from, n_abbreviations));
    if (!is_token && last == '.' && n > 1 && symbol_is(t.end[-2], UNIT_ALPHABETIC)) {
        is_token = keeps_dot(t);
        cuts_last = !is_token;
    }
    if (cuts_last) {
        cut_last(work, piece, last);
        return;
    }
    SymbolSpan match = {NULL, NULL};
    if (!is_token && !is_entry(t, n_abbreviations, n_entries)) match = find_cut(&piece);
    if (match.begin)
        cut(work, piece, match);
    else
        append(&work->tokens, t);
}

SegmentTokens segment_tokens(const SymbolText *line) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_entries);
    Work work = {0};
    const SymbolSpan all = symbols_trim((SymbolSpan){line->symbols, line->symbols + line->n});
    for (const Symbol *at = all.begin, *end; at < all.end; at = end) {
        while (at < all.end && symbol_is_space(*at)) at++;
        for (end = at; end < all.end && !symbol_is_space(*end);) end++;
        push(&work, new_piece((SymbolSpan){at, end}, 0));
        while (work.n) {
            const Piece piece = work.pieces[--work.n];
            if (piece.is_token)
                append(&work.tokens, piece.span);
            else
                divide(&work, piece);
        }
    }
    free(work.pieces);
    return work.tokens;
}
