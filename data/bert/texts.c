#include "data/bert/texts.h"

#include <stdlib.h>
#include <string.h>
#include <uninorm.h>

#include "data/segment/segmenter.h"
#include "data/text/characters.h"
#include "data/text/strings.h"

enum { CHUNK = 256 }; /* texts that a thread takes at once */

static int32_t first_id(const Tokenizer *tokenizer, const char *name, const char *other) {
    int32_t id = tokenizer_id(tokenizer, name);
    return id >= 0 ? id : tokenizer_id(tokenizer, other);
}

bool texts_specials(const Tokenizer *tokenizer, SpecialIds *out, Error *error) {
    *out = (SpecialIds){.begin = first_id(tokenizer, "<s>", "[CLS]"),
                        .end = first_id(tokenizer, "</s>", "[SEP]"),
                        .pad = first_id(tokenizer, "<pad>", "[PAD]"),
                        .mask = first_id(tokenizer, "<mask>", "[MASK]"),
                        .unknown = tokenizer_unknown_id(tokenizer)};
    if (out->begin >= 0 && out->end >= 0) return true;
    return error_set(error, "%s: has no token %s, which every text %s with", tokenizer_file(tokenizer),
                     out->begin < 0 ? "<s> or [CLS]" : "</s> or [SEP]", out->begin < 0 ? "begins" : "ends");
}

/* ---- normalisation ---- */

/* Returns the text in normal form C, with a zero byte behind it; free(). */
static char *compose(const char *text, size_t *size) {
    size_t n;
    uint8_t *composed = u8_normalize(UNINORM_NFC, (const uint8_t *)text, *size, NULL, &n);
    if (!composed) die("out of memory while normalising a text");
    composed = xrealloc(composed, n + 1);
    composed[n] = 0;
    *size = n;
    return (char *)composed;
}

/* Makes one blank of each run of white space, and removes it at both ends; in place. */
static void set_blanks(char *text, size_t *size) {
    const uint8_t *classes = character_classes();
    const char *end = text + *size;
    char *to = text;
    uint32_t c;
    bool blank = false;
    for (size_t i = 0, n; (n = character_at(text + i, end, &c)); i += n) {
        if (classes[c] & CHARACTER_BLANK) {
            blank = to > text;
            continue;
        }
        if (blank) *to++ = ' ';
        blank = false;
        memmove(to, text + i, n);
        to += n;
    }
    *to = 0;
    *size = (size_t)(to - text);
}

char *texts_normal(const char *text, size_t *size) {
    size_t n = strlen(text);
    char *normal = compose(text, &n);
    set_blanks(normal, &n);
    if (size) *size = n;
    return normal;
}

void texts_groups(const char *const *texts, int64_t n, int32_t *groups) {
    OWNED_BY(strings_free) Strings known = {0};
    OWNED int32_t *first = xmalloc((size_t)n * sizeof *first); /* of a string's number */
    for (int64_t i = 0; i < n; i++) {
        size_t size;
        OWNED char *normal = texts_normal(texts[i], &size);
        uint32_t before = known.n, number = strings_add(&known, normal, size);
        if (number == before) first[number] = (int32_t)i;
        groups[i] = first[number];
    }
}

char *texts_prepare(const TextRules *rules, const char *text, size_t *size) {
    *size = strlen(text);
    char *out = rules->nfc ? compose(text, size) : memcpy(xmalloc(*size + 1), text, *size + 1);
    if (!rules->compat || rules->segmenter) set_blanks(out, size);
    if (!rules->segmenter) return out;
    char *segmented = segmenter_run(rules->segmenter, SEGMENT_SENTENCES, out, *size, size);
    free(out);
    for (char *at = segmented; (at = strchr(at, '\n'));) *at = ' '; /* between sentences */
    return segmented;
}

/* ---- tokens ---- */

/* The result of CHUNK texts. */
typedef struct {
    TokenIds ids;
    int64_t n;
    int32_t *lengths; /* [n] */
    int64_t divided, truncated, cut, unknown, empty, dropped;
} Chunk;

/* Returns how many of the n pieces go into one text. */
static int64_t fitting(const TextRules *rules, const int32_t *pieces, int64_t n) {
    const int64_t room = rules->max_len - 2;
    int64_t fit = room;
    if (n <= room) return n;
    if (rules->divide)
        while (fit && tokenizer_continues(rules->tokenizer, pieces[fit - 1])) fit--;
    return fit ? fit : room; /* a word that is longer is cut */
}

static void add_text(Chunk *chunk, const SpecialIds *specials, const int32_t *pieces, int64_t n) {
    TokenIds *ids = &chunk->ids;
    chunk->lengths = xgrow(chunk->lengths, (size_t)chunk->n, sizeof *chunk->lengths);
    token_ids_add(ids, specials->begin);
    for (int64_t i = 0; i < n; i++) {
        token_ids_add(ids, pieces[i]);
        chunk->unknown += pieces[i] == specials->unknown;
    }
    token_ids_add(ids, specials->end);
    chunk->lengths[chunk->n++] = (int32_t)n + 2;
}

static void tokenize_text(const TextRules *rules, const SpecialIds *specials, const char *text, TokenIds *pieces,
                          Unknown *missing, Chunk *chunk) {
    size_t size;
    OWNED char *prepared = texts_prepare(rules, text, &size);
    int64_t at = 0, n;
    pieces->n = 0;
    token_ids_reserve(pieces, 1); /* an empty text has a list, too */
    TokenIds before = *pieces;
    tokenizer_encode(rules->tokenizer, prepared, size, rules->compat, pieces);
    unknown_add(missing, prepared, size, &before, pieces);
    do {
        n = fitting(rules, pieces->ids + at, pieces->n - at);
        add_text(chunk, specials, pieces->ids + at, n);
        at += n;
    } while (rules->divide && at < pieces->n);
    chunk->empty += !pieces->n;
    chunk->divided += rules->divide && n < pieces->n;
    chunk->truncated += at < pieces->n;
    chunk->cut += pieces->n - at;
}

static void tokenize_chunk(const TextRules *rules, const SpecialIds *specials, const char *const *texts, int n,
                           TokenIds *pieces, Unknown *missing, Chunk *chunk) {
    int64_t dropped = pieces->dropped;
    for (int i = 0; i < n; i++) tokenize_text(rules, specials, texts[i], pieces, missing, chunk);
    chunk->dropped = pieces->dropped - dropped;
}

static void chunk_free(Chunk *chunk) {
    token_ids_free(&chunk->ids);
    free(chunk->lengths);
}

/* Puts the chunks one after the other. */
static TokenizedTexts join_chunks(const Chunk *chunks, int64_t n_chunks) {
    TokenizedTexts t = {.n = 0};
    for (int64_t i = 0; i < n_chunks; i++) t.n += chunks[i].n;
    t.first = xmalloc((size_t)(t.n + 1) * sizeof *t.first);
    t.first[0] = 0;
    int64_t *end = t.first;
    for (int64_t i = 0; i < n_chunks; i++)
        for (int64_t k = 0; k < chunks[i].n; k++, end++) end[1] = end[0] + chunks[i].lengths[k];
    t.ids = xmalloc((size_t)*end * sizeof *t.ids);
    int32_t *ids = t.ids;
    for (const Chunk *c = chunks; c < chunks + n_chunks; ids += c++->ids.n) {
        memcpy(ids, c->ids.ids, (size_t)c->ids.n * sizeof *ids);
        t.divided += c->divided;
        t.truncated += c->truncated;
        t.cut += c->cut;
        t.unknown += c->unknown;
        t.empty += c->empty;
        t.dropped += c->dropped;
    }
    return t;
}

bool texts_tokenize(const char *const *texts, int64_t n, const TextRules *rules, TokenizedTexts *out, Error *error) {
    SpecialIds specials;
    *out = (TokenizedTexts){0};
    if (!texts_specials(rules->tokenizer, &specials, error)) return false;
    if (rules->max_len < 3) return error_set(error, "a text needs 3 tokens or more, not %d", rules->max_len);
    int64_t n_chunks = (n + CHUNK - 1) / CHUNK;
    OWNED Chunk *chunks = xcalloc((size_t)n_chunks, sizeof *chunks);
    Unknown all = {.encode = tokenizer_encode_plain, .tokenizer = rules->tokenizer};
#pragma omp parallel num_threads(rules->n_threads)
    {
        OWNED_BY(token_ids_free) TokenIds pieces = {0}; /* of a text */
        Unknown missing = {.encode = tokenizer_encode_plain, .tokenizer = rules->tokenizer};
#pragma omp for schedule(dynamic)
        for (int64_t c = 0; c < n_chunks; c++) {
            int64_t left = n - c * CHUNK;
            tokenize_chunk(rules, &specials, texts + c * CHUNK, (int)(left < CHUNK ? left : CHUNK), &pieces, &missing,
                           &chunks[c]);
        }
#pragma omp critical
        unknown_move(&all, &missing);
    }
    *out = join_chunks(chunks, n_chunks);
    out->padding = rules->padding;
    out->missing = all;
    for (int64_t c = 0; c < n_chunks; c++) chunk_free(&chunks[c]);
    if (out->n <= INT32_MAX) return true;
    texts_free(out);
    return error_set(error, "more than 2^31 - 1 texts and parts of texts");
}

TokenizedTexts texts_select(const TokenizedTexts *texts, const int32_t *list, int64_t n, int32_t unknown_id) {
    TokenizedTexts t = {.padding = texts->padding, .n = n, .first = xmalloc((size_t)(n + 1) * sizeof *t.first)};
    t.first[0] = 0;
    for (int64_t i = 0; i < n; i++) t.first[i + 1] = t.first[i] + texts->first[list[i] + 1] - texts->first[list[i]];
    t.ids = xmalloc((size_t)t.first[n] * sizeof *t.ids);
    for (int64_t i = 0; i < n; i++) {
        int64_t length = t.first[i + 1] - t.first[i];
        memcpy(t.ids + t.first[i], texts->ids + texts->first[list[i]], (size_t)length * sizeof *t.ids);
        t.empty += length == 2;
    }
    for (int64_t i = 0; i < t.first[n]; i++) t.unknown += t.ids[i] == unknown_id;
    return t;
}

void texts_free(TokenizedTexts *texts) {
    FREE(texts->first, texts->ids);
    unknown_free(&texts->missing);
    *texts = (TokenizedTexts){0};
}

void texts_mark_used(const TokenizedTexts *texts, uint8_t *used) {
    for (int64_t i = 0; i < texts->first[texts->n]; i++) used[texts->ids[i]] = 1;
}
