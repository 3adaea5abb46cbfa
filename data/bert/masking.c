#include "data/bert/masking.h"

#include <math.h>
#include <stdlib.h>

#include "data/bert/lengths.h"
#include "kernels/philox.h"

enum {
    PURPOSE_ORDER = PURPOSE_MASK | 1 << 8,
    PURPOSE_KIND = PURPOSE_MASK | 2 << 8,
    PURPOSE_REPLACE = PURPOSE_MASK | 3 << 8
};

static bool is_special(const SpecialIds *s, int32_t id) {
    return id == s->begin || id == s->end || id == s->pad || id == s->mask || id == s->unknown;
}

bool bert_masking_open(const Tokenizer *tokenizer, double share, bool whole_words, uint64_t seed, BertMasking *out,
                       Error *error) {
    BertMasking m = {.share = share, .whole_words = whole_words, .seed = seed};
    *out = m;
    if (!texts_specials(tokenizer, &m.specials, error)) return false;
    if (m.specials.mask < 0)
        return error_set(error, "%s: has no token <mask> or [MASK], which masked words need",
                         tokenizer_file(tokenizer));
    m.vocabulary = tokenizer_vocabulary(tokenizer);
    m.ordinary = xmalloc((size_t)m.vocabulary * sizeof *m.ordinary);
    m.continues = xcalloc((size_t)m.vocabulary, 1);
    bool any = false;
    for (int32_t id = 0; id < m.vocabulary; id++) {
        m.continues[id] = tokenizer_continues(tokenizer, id);
        any = any || m.continues[id];
        if (*tokenizer_piece(tokenizer, id) && !is_special(&m.specials, id)) m.ordinary[m.n_ordinary++] = id;
    }
    *out = m;
    if (any || !whole_words) return true;
    bert_masking_close(out);
    return error_set(error, "%s: its pieces do not say which belong to one word, so that words cannot be masked whole",
                     tokenizer_file(tokenizer));
}

BertMasking bert_masking_synthetic(double share, int vocabulary) {
    BertMasking m = {.share = share, .specials = bert_synthetic_specials(vocabulary), .vocabulary = vocabulary};
    m.ordinary = xmalloc((size_t)vocabulary * sizeof *m.ordinary);
    for (int32_t id = 0; id < vocabulary; id++)
        if (!is_special(&m.specials, id)) m.ordinary[m.n_ordinary++] = id;
    return m;
}

void bert_masking_close(BertMasking *masking) {
    FREE(masking->ordinary, masking->continues);
    *masking = (BertMasking){0};
}

int bert_masking_count(const BertMasking *m, const int32_t *ids, int n) {
    int pieces = 0;
    for (int i = 0; i < n; i++) pieces += !is_special(&m->specials, ids[i]);
    int chosen = (int)lround(m->share * pieces);
    return pieces && !chosen ? 1 : chosen;
}

/* Lists where the words begin, or the pieces if words are not kept together. Returns their number. */
static int list_units(const BertMasking *m, const int32_t *ids, int n, int32_t *units) {
    int count = 0;
    for (int i = 0; i < n; i++)
        if (!i || !m->whole_words || !m->continues[ids[i - 1]]) units[count++] = i;
    return count;
}

/* Inserts a place into an ascending list of n. */
static void insert(int32_t *rows, int n, int32_t row) {
    for (; n > 0 && rows[n - 1] > row; n--) rows[n] = rows[n - 1];
    rows[n] = row;
}

int bert_masking_apply(const BertMasking *m, int64_t epoch, int64_t sample, int32_t *ids, int n, int32_t *scratch,
                       int32_t *rows, int32_t *labels) {
    const uint64_t first = (uint64_t)sample << 24; /* of the draws of this sample */
    const uint32_t step = (uint32_t)epoch;
    int wanted = bert_masking_count(m, ids, n), chosen = 0, units = list_units(m, ids, n, scratch);
    for (int u = 0; chosen < wanted && u < units; u++) {
        int64_t other = u + philox_below(m->seed, PURPOSE_ORDER, step, first + (uint64_t)u, units - u);
        int32_t i = scratch[other];
        scratch[other] = scratch[u];
        do {
            if (!is_special(&m->specials, ids[i])) insert(rows, chosen++, i);
        } while (m->whole_words && m->continues[ids[i]] && ++i < n && chosen < wanted);
    }
    for (int k = 0; k < chosen; k++) {
        const uint64_t place = first + (uint64_t)rows[k];
        const float kind = philox_uniform(m->seed, PURPOSE_KIND, step, place);
        labels[k] = ids[rows[k]];
        if (kind < 0.8f)
            ids[rows[k]] = m->specials.mask;
        else if (kind < 0.9f && m->n_ordinary)
            ids[rows[k]] = m->ordinary[philox_below(m->seed, PURPOSE_REPLACE, step, place, m->n_ordinary)];
    }
    return chosen;
}
