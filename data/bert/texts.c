#include "data/bert/texts.h"

#include <stdlib.h>
#include <string.h>
#include <uninorm.h>

#include "base/threads.h"
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
    Strings known = {0};
    int32_t *first = xmalloc((size_t)n * sizeof *first); /* of a string's number */
    for (int64_t i = 0; i < n; i++) {
        size_t size;
        char *normal = texts_normal(texts[i], &size);
        uint32_t before = known.n, number = strings_add(&known, normal, size);
        if (number == before) first[number] = (int32_t)i;
        groups[i] = first[number];
        free(normal);
    }
    free(first);
    strings_free(&known);
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

/* The ids of CHUNK texts. */
typedef struct {
    int32_t *ids, lengths[CHUNK];
    int64_t truncated, cut, unknown, empty, dropped;
} Chunk;

static void tokenize_text(const TextRules *rules, const SpecialIds *specials, const char *text, TokenIds *ids,
                          Chunk *chunk, int32_t *length) {
    size_t size;
    char *prepared = texts_prepare(rules, text, &size);
    int64_t first = ids->n;
    token_ids_add(ids, specials->begin);
    tokenizer_encode(rules->tokenizer, prepared, size, rules->compat, ids);
    free(prepared);
    chunk->empty += ids->n == first + 1;
    if (ids->n - first > rules->max_len - 1) {
        chunk->truncated++;
        chunk->cut += ids->n - first - (rules->max_len - 1);
        ids->n = first + rules->max_len - 1;
    }
    for (int64_t i = first + 1; i < ids->n; i++) chunk->unknown += ids->ids[i] == specials->unknown;
    token_ids_add(ids, specials->end);
    *length = (int32_t)(ids->n - first);
}

static void tokenize_chunk(const TextRules *rules, const SpecialIds *specials, const char *const *texts, int n,
                           TokenIds *ids, Chunk *chunk) {
    int64_t dropped = ids->dropped;
    ids->n = 0;
    for (int i = 0; i < n; i++) tokenize_text(rules, specials, texts[i], ids, chunk, &chunk->lengths[i]);
    size_t bytes = (size_t)ids->n * sizeof *ids->ids;
    chunk->ids = xmalloc(bytes);
    if (ids->ids) memcpy(chunk->ids, ids->ids, bytes);
    chunk->dropped = ids->dropped - dropped;
}

/* Puts the chunks one after the other and frees them. */
static TokenizedTexts join_chunks(Chunk *chunks, int64_t n) {
    TokenizedTexts t = {.n = n, .first = xmalloc((size_t)(n + 1) * sizeof *t.first)};
    t.first[0] = 0;
    for (int64_t i = 0; i < n; i++) t.first[i + 1] = t.first[i] + chunks[i / CHUNK].lengths[i % CHUNK];
    t.ids = xmalloc((size_t)t.first[n] * sizeof *t.ids);
    for (int64_t i = 0; i < n; i += CHUNK) {
        Chunk *c = &chunks[i / CHUNK];
        int64_t end = i + CHUNK < n ? i + CHUNK : n;
        memcpy(t.ids + t.first[i], c->ids, (size_t)(t.first[end] - t.first[i]) * sizeof *t.ids);
        t.truncated += c->truncated;
        t.cut += c->cut;
        t.unknown += c->unknown;
        t.empty += c->empty;
        t.dropped += c->dropped;
        free(c->ids);
    }
    return t;
}

bool texts_tokenize(const char *const *texts, int64_t n, const TextRules *rules, TokenizedTexts *out, Error *error) {
    SpecialIds specials;
    *out = (TokenizedTexts){0};
    if (!texts_specials(rules->tokenizer, &specials, error)) return false;
    if (rules->max_len < 3) return error_set(error, "a text needs 3 tokens or more, not %d", rules->max_len);
    int64_t n_chunks = (n + CHUNK - 1) / CHUNK;
    Chunk *chunks = xcalloc((size_t)n_chunks, sizeof *chunks);
#pragma omp parallel num_threads(rules->n_threads)
    {
        TokenIds ids = {0};
#pragma omp for schedule(dynamic)
        for (int64_t c = 0; c < n_chunks; c++) {
            int64_t left = n - c * CHUNK;
            tokenize_chunk(rules, &specials, texts + c * CHUNK, (int)(left < CHUNK ? left : CHUNK), &ids, &chunks[c]);
        }
        token_ids_free(&ids);
    }
    *out = join_chunks(chunks, n);
    free(chunks);
    return true;
}

TokenizedTexts texts_select(const TokenizedTexts *texts, const int32_t *list, int64_t n, int32_t unknown_id) {
    TokenizedTexts t = {.n = n, .first = xmalloc((size_t)(n + 1) * sizeof *t.first)};
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
    free(texts->first);
    free(texts->ids);
    *texts = (TokenizedTexts){0};
}

void texts_mark_used(const TokenizedTexts *texts, uint8_t *used) {
    for (int64_t i = 0; i < texts->first[texts->n]; i++) used[texts->ids[i]] = 1;
}
