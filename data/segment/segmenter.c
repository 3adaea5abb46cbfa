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

/* Reads the rules or the vocabulary and adds the file to the hash. */
static bool read_part(Segmenter *s, const char *path, bool is_rules, Error *error) {
    size_t size;
    OWNED char *bytes = NULL;
    if (!read_file(path, &bytes, &size, error)) return error_before(error, "%s: ", path);
    s->hash = checksum(s->hash, bytes, size);
    return (is_rules ? (s->rules = rules_read(bytes, size, &s->lexicon, error)) != NULL
                     : vocabulary_read(bytes, size, &s->lexicon, error)) ||
           error_before(error, "%s: ", path);
}

Segmenter *segmenter_open(const char *directory, Error *error) {
    Segmenter *s = xcalloc(1, sizeof *s);
    OWNED char *rules = path_join(directory, "Model.RDR");
    OWNED char *vocabulary = path_join(directory, "VnVocab");
    if (!read_part(s, rules, true, error) || !read_part(s, vocabulary, false, error)) {
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

static void put_span(Bytes *out, const SymbolText *text, SymbolSpan span) {
    const size_t begin = text->offsets[span.begin - text->symbols], end = text->offsets[span.end - text->symbols];
    bytes_add(out, text->bytes + begin, end - begin);
}

/* Puts tokens from number `begin` to before `end`, a blank between any two. */
static void put_tokens(Bytes *out, const SymbolText *line, const SegmentTokens *tokens, size_t begin, size_t end) {
    for (size_t i = begin; i < end; i++) {
        if (i > begin) bytes_add(out, " ", 1);
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
static void segment(const Segmenter *segmenter, const char *text, size_t size, Bytes *out) {
    while (size && (unsigned char)*text <= ' ') text++, size--;
    while (size && (unsigned char)text[size - 1] <= ' ') size--;
    OWNED char *copy = xmalloc(2 * size + 1);
    OWNED_BY(sentence_free) Sentence s = sentence_tag(&segmenter->lexicon, copy, normalize_tones(text, size, copy));
    for (size_t i = 0; i < s.n; i++) {
        const SegmentTag tag = rules_apply(segmenter->rules, s.numbers + i, s.tags + i);
        if (tag == TAG_I)
            bytes_add(out, "_", 1);
        else if (i)
            bytes_add(out, " ", 1);
        put_span(out, &s.text, s.words[i].span);
    }
}

static void segment_line(const Segmenter *segmenter, bool sentences, const char *text, size_t size, Bytes *out) {
    OWNED_BY(symbol_text_free) SymbolText line = symbol_text(text, size);
    SegmentTokens tokens = segment_tokens(&line);
    Bytes joined = {0};
    for (size_t begin = 0, end; begin < tokens.n; begin = end) {
        end = sentences ? sentence_end(&line, &tokens, begin) : tokens.n;
        joined.n = 0;
        put_tokens(&joined, &line, &tokens, begin, end);
        if (begin) bytes_add(out, "\n", 1);
        segment(segmenter, joined.at, joined.n, out);
    }
    FREE(joined.at, tokens.spans);
}

static char *finish(Bytes *out, size_t *size) {
    *size = out->n;
    bytes_add(out, "", 1);
    return out->at;
}

char *segmenter_run(const Segmenter *segmenter, SegmentMode mode, const char *text, size_t size, size_t *out_size) {
    Bytes out = {0};
    if (mode == SEGMENT_TOKENIZED)
        segment(segmenter, text, size, &out);
    else
        segment_line(segmenter, mode == SEGMENT_SENTENCES, text, size, &out);
    return finish(&out, out_size);
}

char *segmenter_tokens(const Segmenter *segmenter, const char *text, size_t size, size_t *out_size) {
    (void)segmenter; /* the lists of tokens belong to the program */
    Bytes out = {0};
    OWNED_BY(symbol_text_free) SymbolText line = symbol_text(text, size);
    SegmentTokens tokens = segment_tokens(&line);
    put_tokens(&out, &line, &tokens, 0, tokens.n);
    free(tokens.spans);
    return finish(&out, out_size);
}
