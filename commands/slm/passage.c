#include "commands/slm/passage.h"

#include <stdlib.h>
#include <string.h>

#include "data/text/unknown.h"
#include "data/text/utf8.h"

void passage_encode(const Tokenizer *tokenizer, const char *what, const char *text, bool specials, TokenIds *ids) {
    Unknown missing = {.encode = tokenizer_encode_plain, .tokenizer = tokenizer};
    const TokenIds before = *ids;
    tokenizer_encode(tokenizer, text, strlen(text), specials, ids);
    unknown_add(&missing, text, strlen(text), &before, ids);
    unknown_warn(what, &missing);
    unknown_free(&missing);
}

char *passage_text(const Tokenizer *tokenizer, const int32_t *ids, int64_t n) {
    size_t size;
    OWNED char *bytes = tokenizer_decode(tokenizer, ids, n, &size);
    return utf8_of_bytes(bytes, size);
}

Passage passage_open(const Tokenizer *tokenizer, const int32_t *ids, int64_t n, int64_t more) {
    Passage p = {.tokenizer = tokenizer, .ids = xmalloc((size_t)(n + more + 1) * sizeof(int32_t))};
    int32_t first = tokenizer_end_of_text(tokenizer);
    for (int64_t i = 0; i < n; i++)
        if (i || ids[i] != first) p.ids[p.n++] = ids[i]; /* the token before a text is no part of it */
    return p;
}

void passage_add(Passage *p, int32_t id) { p->ids[p->n++] = id; }

void passage_write(Passage *p, FILE *to) {
    size_t size;
    OWNED char *text = tokenizer_decode(p->tokenizer, p->ids, p->n, &size);
    if (size > p->written) fwrite(text + p->written, 1, size - p->written, to);
    if (size > p->written) p->written = size;
}

void passage_close(Passage *p) {
    free(p->ids);
    *p = (Passage){.n = 0};
}
