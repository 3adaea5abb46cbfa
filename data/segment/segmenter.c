#include "data/segment/segmenter.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "data/segment/lists.h"
#include "data/segment/sentences.h"
#include "data/segment/words.h"

struct Segmenter {
    Lexicon lexicon;
    Rules *rules;
    int n_words;
    uint64_t hash;
};

/* Reads a file of the model and adds it to the hash. */
static char *read_model_file(Segmenter *s, const char *path, size_t *size, Error *error) {
    char *bytes;
    Error found;
    if (!read_file(path, &bytes, size, &found)) {
        error_set(error, "%s: %s", path, found.text);
        return NULL;
    }
    s->hash = checksum(s->hash, bytes, *size);
    return bytes;
}

static bool read_rules(Segmenter *s, const char *path, Error *error) {
    size_t size;
    Error found;
    char *bytes = read_model_file(s, path, &size, error);
    if (!bytes) return false;
    s->rules = rules_read(bytes, size, &s->lexicon, &found);
    free(bytes);
    return s->rules || error_set(error, "%s: %s", path, found.text);
}

static bool read_vocabulary(Segmenter *s, const char *path, Error *error) {
    size_t size;
    Error found;
    char *bytes = read_model_file(s, path, &size, error);
    if (!bytes) return false;
    const bool ok = vocabulary_read(bytes, size, &s->lexicon, &found);
    free(bytes);
    return ok || error_set(error, "%s: %s", path, found.text);
}

Segmenter *segmenter_open(const char *directory, Error *error) {
    Segmenter *s = xcalloc(1, sizeof *s);
    char *rules = path_join(directory, "Model.RDR"), *vocabulary = path_join(directory, "VnVocab");
    const bool ok = read_rules(s, rules, error) && read_vocabulary(s, vocabulary, error);
    free(rules);
    free(vocabulary);
    if (!ok) {
        segmenter_close(s);
        return NULL;
    }
    for (uint32_t i = 0; i < s->lexicon.words.n; i++) s->n_words += s->lexicon.lists[i] != 0;
    lexicon_add_names(&s->lexicon);
    return s;
}

void segmenter_close(Segmenter *segmenter) {
    if (!segmenter) return;
    rules_free(segmenter->rules);
    lexicon_free(&segmenter->lexicon);
    free(segmenter);
}

uint64_t segmenter_hash(const Segmenter *segmenter) { return segmenter->hash; }

bool segmenter_is_published(const Segmenter *segmenter) { return segmenter->hash == 0x76f3e3ca129fb296; }

int segmenter_size(const Segmenter *segmenter, int *words) {
    *words = segmenter->n_words;
    return rules_count(segmenter->rules);
}

/* ---- texts ---- */

typedef struct {
    char *bytes;
    size_t n, capacity;
} Output;

static void put(Output *out, const char *bytes, size_t n) {
    if (out->n + n + 1 > out->capacity) {
        out->capacity = 2 * out->capacity + n + 64;
        out->bytes = xrealloc(out->bytes, out->capacity);
    }
    memcpy(out->bytes + out->n, bytes, n);
    out->n += n;
    out->bytes[out->n] = 0;
}

static void put_span(Output *out, const SymbolText *text, SymbolSpan span) {
    const size_t begin = text->offsets[span.begin - text->symbols], end = text->offsets[span.end - text->symbols];
    put(out, text->bytes + begin, end - begin);
}

/* Puts tokens from number `begin` to before `end`, a blank between any two. */
static void put_tokens(Output *out, const SymbolText *line, const SegmentTokens *tokens, size_t begin, size_t end) {
    for (size_t i = begin; i < end; i++) {
        if (i > begin) put(out, " ", 1);
        put_span(out, line, tokens->spans[i]);
    }
}

/* Copies a text and moves its tone marks (segment_tones). The copy has room for two bytes for each; returns its size.
 */
static size_t normalize_tones(const char *text, size_t size, char *copy) {
    size_t n = 0;
    for (size_t at = 0; at < size; at++) {
        const char c = copy[n++] = text[at];
        if ((c != 'a' && c != 'e' && c != 'y') || n < 3 || (unsigned char)copy[n - 2] < 0x80) continue;
        for (int i = 0; i < SEGMENT_TONES; i++) {
            const char *const *pair = segment_tones[i];
            const size_t before = strlen(pair[0]), after = strlen(pair[1]);
            if (n < before || memcmp(copy + n - before, pair[0], before) != 0) continue;
            memcpy(copy + n - before, pair[1], after);
            n += after - before;
            break;
        }
    }
    return n;
}

/* Segments a text of tokens. */
static void segment(const Segmenter *segmenter, const char *text, size_t size, Output *out) {
    while (size && (unsigned char)*text <= ' ') text++, size--;
    while (size && (unsigned char)text[size - 1] <= ' ') size--;
    char *copy = xmalloc(2 * size + 1);
    Sentence s = sentence_tag(&segmenter->lexicon, copy, normalize_tones(text, size, copy));
    for (size_t i = 0; i < s.n; i++) {
        const SegmentTag tag = rules_apply(segmenter->rules, s.numbers + i, s.tags + i);
        if (tag == TAG_I)
            put(out, "_", 1);
        else if (i)
            put(out, " ", 1);
        put_span(out, &s.text, s.words[i].span);
    }
    sentence_free(&s);
    free(copy);
}

static void segment_line(const Segmenter *segmenter, bool sentences, const char *text, size_t size, Output *out) {
    SymbolText line = symbol_text(text, size);
    SegmentTokens tokens = segment_tokens(&line);
    Output joined = {0};
    for (size_t begin = 0, end; begin < tokens.n; begin = end) {
        end = sentences ? sentence_end(&line, &tokens, begin) : tokens.n;
        joined.n = 0;
        put_tokens(&joined, &line, &tokens, begin, end);
        if (begin) put(out, "\n", 1);
        segment(segmenter, joined.bytes, joined.n, out);
    }
    free(joined.bytes);
    free(tokens.spans);
    symbol_text_free(&line);
}

char *segmenter_run(const Segmenter *segmenter, SegmentMode mode, const char *text, size_t size, size_t *out_size) {
    Output out = {0};
    put(&out, "", 0);
    if (mode == SEGMENT_TOKENIZED)
        segment(segmenter, text, size, &out);
    else
        segment_line(segmenter, mode == SEGMENT_SENTENCES, text, size, &out);
    *out_size = out.n;
    return out.bytes;
}

char *segmenter_tokens(const Segmenter *segmenter, const char *text, size_t size, size_t *out_size) {
    (void)segmenter; /* the lists of tokens belong to the program */
    Output out = {0};
    SymbolText line = symbol_text(text, size);
    SegmentTokens tokens = segment_tokens(&line);
    put(&out, "", 0);
    put_tokens(&out, &line, &tokens, 0, tokens.n);
    free(tokens.spans);
    symbol_text_free(&line);
    *out_size = out.n;
    return out.bytes;
}
