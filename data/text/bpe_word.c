/* One word to ids: its characters, then merges by rank, the leftmost of equal rank first. What a merge makes may allow
 * one of a smaller rank, since two merges can make the same piece. As the implementations behind the files do, it comes
 * next; with fastBPE it comes when all places of the present merge are done. */
#include <stdlib.h>
#include <string.h>

#include "data/text/bpe_word.h"
#include "data/text/byte_alphabet.h"
#include "data/text/characters.h"

/* A symbol of the word and the merge with its right neighbour. Positions are those of the first symbols. */
typedef struct {
    int32_t id, prev, next; /* positions; -1: none */
    uint32_t rank;          /* of the merge, as in BpeMerge; 0: none */
    int32_t merged;
} Symbol;

enum { SMALL = 64 };

typedef struct {
    const Bpe *bpe;
    Symbol *symbols;
    int32_t n;
    uint64_t *heap; /* rank << 32 | position, the smallest first; entries whose merge has gone stay */
    size_t n_heap, capacity;
    size_t n_later; /* entries to be pushed: the last ones of the capacity */
} Word;

static size_t slot_of(const Bpe *bpe, uint64_t pair) {
    size_t slot = (size_t)((pair * 0x9E3779B97F4A7C15u) >> 20) & (bpe->n_slots - 1);
    while (bpe->merges[slot].rank && bpe->merges[slot].pair != pair) slot = (slot + 1) & (bpe->n_slots - 1);
    return slot;
}

static uint64_t pair_of(int32_t left, int32_t right) { return (uint64_t)(uint32_t)left << 32 | (uint32_t)right; }

void bpe_merges_open(Bpe *bpe, size_t n) {
    for (bpe->n_slots = 2; bpe->n_slots < 2 * n;) bpe->n_slots *= 2;
    bpe->merges = xcalloc(bpe->n_slots, sizeof *bpe->merges);
}

void bpe_merge_add(Bpe *bpe, int32_t left, int32_t right, uint32_t rank, int32_t id) {
    const uint64_t pair = pair_of(left, right);
    bpe->merges[slot_of(bpe, pair)] = (BpeMerge){pair, rank + 1, id};
}

static void heap_push(Word *word, uint64_t value) {
    size_t at = word->n_heap++;
    for (size_t up; at && word->heap[up = (at - 1) / 2] > value; at = up) word->heap[at] = word->heap[up];
    word->heap[at] = value;
}

static uint64_t heap_pop(Word *word) {
    const uint64_t top = word->heap[0], last = word->heap[--word->n_heap];
    size_t at = 0;
    for (size_t down; (down = 2 * at + 1) < word->n_heap; at = down) {
        if (down + 1 < word->n_heap && word->heap[down + 1] < word->heap[down]) down++;
        if (word->heap[down] >= last) break;
        word->heap[at] = word->heap[down];
    }
    word->heap[at] = last;
    return top;
}

/* Finds the merge of the symbol at a position with its neighbour. */
static void find_merge(Word *word, int32_t at) {
    Symbol *symbol = &word->symbols[at];
    symbol->rank = 0;
    if (symbol->next < 0) return;
    const BpeMerge *merge = &word->bpe->merges[slot_of(word->bpe, pair_of(symbol->id, word->symbols[symbol->next].id))];
    symbol->rank = merge->rank;
    symbol->merged = merge->id;
    if (merge->rank) word->heap[word->capacity - ++word->n_later] = (uint64_t)merge->rank << 32 | (uint32_t)at;
}

static void push_found(Word *word) {
    while (word->n_later) heap_push(word, word->heap[word->capacity - word->n_later--]);
}

static void merge_at(Word *word, int32_t at) {
    Symbol *left = &word->symbols[at], *right = &word->symbols[left->next];
    left->id = left->merged;
    left->next = right->next;
    right->rank = 0;
    if (right->next >= 0) word->symbols[right->next].prev = at;
    find_merge(word, at);
    if (left->prev >= 0) find_merge(word, left->prev);
}

static void merge_all(Word *word) {
    const bool rounds = word->bpe->symbol_ids;
    uint64_t rank = 0;
    for (int32_t i = 0; i < word->n; i++) find_merge(word, i);
    for (;;) {
        if (!rounds || !word->n_heap || word->heap[0] >> 32 != rank) push_found(word);
        if (!word->n_heap) return;
        const uint64_t top = heap_pop(word);
        rank = top >> 32;
        if (word->symbols[(uint32_t)top].rank == rank) merge_at(word, (int32_t)(uint32_t)top); /* else it has gone */
    }
}

static void add_symbol(Word *word, int32_t id) {
    const int32_t n = word->n++;
    word->symbols[n] = (Symbol){.id = id, .prev = n - 1, .next = n + 1};
}

/* Returns the id of a character; -1: it has no piece. */
static int32_t character_id(const Bpe *bpe, const char *at, size_t size, bool inside) {
    char text[sizeof bpe->settings.prefix + 4];
    if (bpe->settings.byte_level) return bpe->byte_ids[(unsigned char)*at];
    const size_t prefix = inside ? strlen(bpe->settings.prefix) : 0;
    memcpy(text, bpe->settings.prefix, prefix);
    memcpy(text + prefix, at, size);
    const int64_t piece = strings_find(&bpe->pieces, text, prefix + size);
    return piece < 0 || piece >= bpe->n_model ? -1 : bpe->ids[piece];
}

/* Tells begin .. end of a word, which have no piece, to whoever asks: as whole characters, which bytes may be parts of,
 * and not what has been told, all before `told`. Returns up to where it is told now. */
static const char *tell_missing(const TokenIds *ids, const char *told, const char *begin, const char *end,
                                const char *stop) {
    const char *from = NULL;
    uint32_t c;
    while (ids->missing && told < end) {
        const char *next = told + character_at(told, stop, &c);
        if (!from && next > begin) from = told;
        told = next;
    }
    if (from) ids->missing(ids->context, from, (size_t)(told - from));
    return told;
}

/* Makes symbols of the characters, and counts those that are dropped. */
static void take_characters(Word *word, const char *text, size_t size, TokenIds *ids) {
    const BpeSettings *settings = &word->bpe->settings;
    const bool fused = settings->fuse_unknown && settings->unknown >= 0;
    const char *const end = text + size, *told = text, *missing = NULL; /* where an unknown piece begins, up to `at` */
    size_t step = 1;
    uint32_t c;
    for (const char *at = text;; at += step) {
        if (!settings->byte_level && at < end) step = character_at(at, end, &c);
        const int32_t id = at < end ? character_id(word->bpe, at, step, at > text) : 0;
        if (missing && !(fused && id < 0)) {
            told = tell_missing(ids, told, missing, at, end);
            missing = NULL;
        }
        if (at == end) return;
        if (id >= 0) {
            add_symbol(word, id);
        } else if (!missing) {
            missing = at;
            if (settings->unknown >= 0)
                add_symbol(word, settings->unknown);
            else
                ids->dropped++;
        }
    }
}

size_t fastbpe_symbol_at(const char *at, const char *end, char symbol[FASTBPE_CHARACTER], size_t *size) {
    uint32_t c;
    const size_t step = character_at(at, end, &c);
    memcpy(symbol, at, step);
    memcpy(symbol + step, FASTBPE_END, sizeof FASTBPE_END);
    *size = at + step == end ? step + sizeof FASTBPE_END - 1 : step;
    return step;
}

/* Makes symbols of the characters for fastBPE; -1: a character that no merge knows. */
static void take_symbols(Word *word, const char *text, size_t size) {
    char symbol[FASTBPE_CHARACTER];
    for (const char *const end = text + size; text < end;) {
        text += fastbpe_symbol_at(text, end, symbol, &size);
        add_symbol(word, (int32_t)strings_find(&word->bpe->symbols, symbol, size));
    }
}

/* Tells the text of an unknown symbol of the encoded word, whose characters are numbers first .. next - 1. */
static void tell_symbol(const TokenIds *ids, const char *text, size_t size, int32_t first, int32_t next) {
    const char *end = text + size, *begin = text;
    uint32_t c;
    for (int32_t i = 0; i < next || (next < 0 && text < end); i++) {
        if (i == first) begin = text;
        text += character_at(text, end, &c);
    }
    ids->missing(ids->context, begin, (size_t)(text - begin));
}

/* Returns the id of a symbol of the encoded word. */
static int32_t final_id(const Bpe *bpe, const Symbol *symbol) {
    if (!bpe->symbol_ids) return symbol->id;
    return symbol->id < 0 ? bpe->settings.unknown : bpe->symbol_ids[symbol->id][symbol->next < 0];
}

/* Finds the id of a word that is a piece itself; -1: it is none. */
static int32_t whole_piece(const Bpe *bpe, const char *word, size_t size) {
    char small[2 * SMALL + 1] = "", *text = NULL;
    size_t n = size;
    if (bpe->settings.byte_level) {
        char *end = text = size > SMALL ? xmalloc(2 * size + 1) : small;
        for (size_t i = 0; i < size; i++) end = stpcpy(end, byte_alphabet((unsigned char)word[i]));
        n = (size_t)(end - text);
    }
    const int64_t piece = strings_find(&bpe->pieces, text ? text : word, n);
    if (text != small) free(text);
    return piece < 0 || piece >= bpe->n_model ? -1 : bpe->ids[piece];
}

void bpe_encode_word(const Bpe *bpe, const char *text, size_t size, TokenIds *ids) {
    Symbol symbols[SMALL];
    uint64_t heap[3 * SMALL]; /* a pair of neighbours at first, and two more for each merge */
    Word word = {.bpe = bpe, .symbols = symbols, .heap = heap, .capacity = 3 * SMALL};
    const int32_t whole = bpe->settings.ignore_merges ? whole_piece(bpe, text, size) : -1;
    if (whole >= 0) {
        token_ids_add(ids, whole);
        return;
    }
    if (size > INT32_MAX) die("a word of %zu bytes is too long to encode", size);
    if (size > SMALL) {
        word.symbols = xmalloc(size * sizeof *word.symbols);
        word.capacity = 3 * size;
        word.heap = xmalloc(word.capacity * sizeof *word.heap);
    }
    if (bpe->symbol_ids)
        take_symbols(&word, text, size);
    else
        take_characters(&word, text, size, ids);
    if (word.n) word.symbols[word.n - 1].next = -1;
    merge_all(&word);
    token_ids_reserve(ids, word.n);
    for (int32_t at = word.n ? 0 : -1; at >= 0; at = word.symbols[at].next) {
        const int32_t id = final_id(bpe, &word.symbols[at]);
        ids->unknown += id == bpe->settings.unknown;
        if (ids->missing && bpe->symbol_ids && id == bpe->settings.unknown)
            tell_symbol(ids, text, size, at, word.symbols[at].next);
        ids->ids[ids->n++] = id;
    }
    if (word.symbols != symbols) FREE(word.symbols, word.heap);
}
