#include "data/text/character_table.h"

#include <stdlib.h>
#include <string.h>

#include "data/formats/pickle.h"
#include "data/text/added_tokens.h"
#include "data/text/bpe_open.h"
#include "data/text/bpe_word.h"
#include "data/text/characters.h"

/* The entries of "itos". */
typedef struct {
    const Pickle *pickle;
    const PickleNode *itos;
    int n;
} Table;

static const PickleNode *item(const Table *t, int i) { return &t->pickle->nodes[t->itos->as.items[i]]; }

/* Returns entry i, and its id; -1: it is no number. */
static const PickleNode *entry(const Table *t, int i, int64_t *id) {
    *id = i;
    if (t->itos->kind == PICKLE_LIST) return item(t, i);
    *id = item(t, 2 * i)->kind == PICKLE_INTEGER ? item(t, 2 * i)->as.integer : -1;
    return item(t, 2 * i + 1);
}

static bool find_table(const Pickle *pickle, Table *t, Error *error) {
    const PickleNode *itos = pickle_get(pickle, &pickle->nodes[pickle->root], "itos");
    if (!itos || (itos->kind != PICKLE_DICT && itos->kind != PICKLE_LIST) || !itos->count)
        return error_set(error, "has no \"itos\" with the character of each id, as nanoGPT's meta.pkl has it");
    *t = (Table){pickle, itos, itos->kind == PICKLE_DICT ? itos->count / 2 : itos->count};
    return true;
}

/* Sets the vocabulary: "vocab_size", or the largest id + 1 if that is more. */
static bool take_size(Bpe *bpe, const Table *t, Error *error) {
    const PickleNode *size = pickle_get(t->pickle, &t->pickle->nodes[t->pickle->root], "vocab_size");
    int64_t most = size && size->kind == PICKLE_INTEGER ? size->as.integer : 0, id;
    for (int i = 0; i < t->n; i++) {
        entry(t, i, &id);
        if (id < 0) return error_set(error, "\"itos\" has a key that is no id");
        if (id >= most) most = id + 1;
    }
    if (most > VOCABULARY_MAX)
        return error_set(error, "has ids up to %lld, expected %d", (long long)most - 1, VOCABULARY_MAX - 1);
    bpe->vocabulary = (int)most;
    bpe->piece_of = xcalloc((size_t)most, sizeof *bpe->piece_of);
    bpe->ids = xcalloc((size_t)t->n, sizeof *bpe->ids);
    return true;
}

static bool take_character(Bpe *bpe, int64_t id, const PickleNode *text, Error *error) {
    const uint32_t number = bpe->pieces.n;
    uint32_t c = CHARACTER_NONE;
    const size_t size = text->kind == PICKLE_TEXT ? (size_t)text->count : 0;
    if (!size || character_at(text->as.text, text->as.text + size, &c) != size || c >= CHARACTER_NONE)
        return error_set(error, "\"itos\": id %lld is not a single character; tables of words are not read",
                         (long long)id);
    if (bpe->piece_of[id] || strings_add(&bpe->pieces, text->as.text, size) != number)
        return error_set(error, "\"itos\": id %lld or its character is there twice", (long long)id);
    bpe->piece_of[id] = number + 1;
    bpe->ids[number] = (int32_t)id;
    return true;
}

static bool take_table(Bpe *bpe, const Pickle *pickle, Error *error) {
    Table t = {pickle, NULL, 0};
    if (!find_table(pickle, &t, error) || !take_size(bpe, &t, error)) return false;
    for (int i = 0; i < t.n; i++) {
        int64_t id;
        const PickleNode *text = entry(&t, i, &id);
        if (!take_character(bpe, id, text, error)) return false;
    }
    bpe->n_model = bpe->pieces.n;
    bpe->settings.split = WORDS_CHARACTERS;
    bpe->settings.unknown = -1;
    bpe_merges_open(bpe, 0);
    bpe_make_hash(bpe);
    return true;
}

Bpe *character_table_open(const char *bytes, size_t size, Error *error) {
    OWNED_BY(pickle_free) Pickle pickle = {0};
    if (!pickle_parse(bytes, size, &pickle, error)) return NULL;
    Bpe *bpe = xcalloc(1, sizeof *bpe);
    if (take_table(bpe, &pickle, error)) return bpe;
    bpe_close(bpe);
    return NULL;
}
