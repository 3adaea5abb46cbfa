/* A part of a line that has no spaces is a piece. A rule decides whether it is a token or is cut at a token inside;
 * what is left of that and right of it are pieces again. The pieces to do are on a stack, so that their number has no
 * limit.
 *
 * Abbreviations, exceptions and patterns are one list, which is searched in order for the first entry that occurs.
 * Where an entry does not occur, it does not occur in a part either, so a piece remembers where to begin in the list:
 * together all searches take time linear in the line but in odd cases. The URL is the exception: it needs a word
 * boundary at the end of its domain, which a cut can make. */
#include "data/segment/tokens.h"

#include <stdlib.h>
#include <string.h>

#include "data/segment/lists.h"
#include "data/segment/patterns.h"
#include "data/text/characters.h"

enum { ENTRIES = 128, ENTRY_SYMBOLS = 12 };

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
    int from;       /* earlier entries and patterns do not occur, but perhaps a URL */
    bool maybe_url; /* a URL may occur */
    bool is_token;  /* append it as it is */
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

static void push(Work *work, Piece piece) {
    if (piece.span.begin == piece.span.end) return;
    if (work->n == work->capacity) {
        work->capacity = work->capacity ? 2 * work->capacity : 16;
        work->pieces = xrealloc(work->pieces, work->capacity * sizeof *work->pieces);
    }
    work->pieces[work->n++] = piece;
}

static void append(SegmentTokens *tokens, SymbolSpan span) {
    if (tokens->n == tokens->capacity) {
        tokens->capacity = tokens->capacity ? 2 * tokens->capacity : 32;
        tokens->spans = xrealloc(tokens->spans, tokens->capacity * sizeof *tokens->spans);
    }
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

/* Returns the first entry from *from on that occurs, and sets *from to its number; to the number of entries if there is
 * none. */
static SymbolSpan find_entry(SymbolSpan t, int *from) {
    uint64_t mask = 0;
    for (const Symbol *at = t.begin; *from < n_entries && at < t.end; at++) mask |= mask_of(symbol_character(*at));
    for (; *from < n_entries; ++*from) {
        const Entry *entry = &entries[*from];
        if (entry->mask & ~mask) continue;
        for (SymbolSpan rest = t; rest.end - rest.begin >= entry->n; rest.begin++)
            if (begins_with(rest, entry)) return (SymbolSpan){rest.begin, rest.begin + entry->n};
    }
    return (SymbolSpan){NULL, NULL};
}

static bool is_all(SymbolSpan t, unsigned classes) {
    while (t.begin < t.end && symbol_is(*t.begin, classes)) t.begin++;
    return t.begin == t.end;
}

static bool has_letter(const Symbol *begin, const Symbol *end) {
    while (begin < end && !symbol_is(*begin, UNIT_LETTER)) begin++;
    return begin < end;
}

/* Returns whether a URL may be cut out: all is ASCII, and no part between dots is a single capital. */
static bool url_is_allowed(SymbolSpan t) {
    const Symbol *part = t.begin;
    for (const Symbol *at = t.begin; at <= t.end; at++) {
        if (at < t.end && symbol_character(*at) >= 0x80) return false;
        if (at < t.end && symbol_character(*at) != '.') continue;
        if (at - part == 1 && symbol_character(*part) - 'A' < 26) return false;
        part = at + 1;
    }
    return true;
}

/* Finds what is cut out of a piece; sets piece->from and piece->maybe_url to what is known then of its right part.
 * Begin is NULL: nothing, the piece is a token. */
static SymbolSpan find_cut(Piece *piece) {
    const SymbolSpan t = piece->span;
    SymbolSpan match = find_entry(t, &piece->from);
    if (match.begin) return match;
    for (int p = 0; p < PATTERNS; p++)
        if ((p >= piece->from - n_entries || p == PATTERN_URL) && pattern_is_whole((Pattern)p, t)) return match;
    for (int p = 0; p < PATTERNS; p++) {
        if (p == PATTERN_URL ? !piece->maybe_url || !url_is_allowed(t) : p < piece->from - n_entries) continue;
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
    const SymbolSpan left = symbols_trim((SymbolSpan){piece.span.begin, match.begin});
    const SymbolSpan right = symbols_trim((SymbolSpan){match.end, piece.span.end});
    push(work, (Piece){right, piece.from, piece.maybe_url, false});
    push(work, (Piece){.span = match, .is_token = true});
    push(work, (Piece){left, piece.from, true, false});
}

/* Cuts the last sign off. */
static void cut_last(Work *work, Piece piece) {
    const SymbolSpan last = {piece.span.end - 1, piece.span.end};
    piece.maybe_url = true;
    cut(work, piece, last);
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
    if ((n == 1 && symbol_character(*t.begin) <= 0xFFFF) || is_all(t, UNIT_LETTER | UNIT_DIGIT)) {
        append(&work->tokens, t);
    } else if (last == ',') {
        cut_last(work, piece);
    } else if (is_entry(t, piece.from, n_abbreviations)) {
        append(&work->tokens, t);
    } else if (last == '.' && n > 1 && symbol_is(t.end[-2], UNIT_ALPHABETIC)) {
        if (keeps_dot(t))
            append(&work->tokens, t);
        else
            cut_last(work, piece);
    } else if (is_entry(t, n_abbreviations, n_entries)) {
        append(&work->tokens, t);
    } else {
        const SymbolSpan match = find_cut(&piece);
        if (match.begin)
            cut(work, piece, match);
        else
            append(&work->tokens, t);
    }
}

SegmentTokens segment_tokens(const SymbolText *line) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_entries);
    Work work = {0};
    const SymbolSpan all = symbols_trim((SymbolSpan){line->symbols, line->symbols + line->n});
    for (const Symbol *at = all.begin, *end; at < all.end; at = end) {
        while (at < all.end && symbol_is_space(*at)) at++;
        for (end = at; end < all.end && !symbol_is_space(*end);) end++;
        push(&work, (Piece){{at, end}, 0, true, false});
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
