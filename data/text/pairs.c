/* Each pair has a count and a list of the words that it was seen in; a merge changes these words only. The heap holds
 * pairs with the counts that they had when they were pushed. A count rises only when a merge makes the pair anew, and
 * then the pair is pushed again; so one whose count at the top is out of date need only be pushed with its present
 * count. */
#include "data/text/pairs.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    Pair pair;
    bool touched;    /* by the present merge */
    uint32_t *words; /* [n_words] a word may be there twice, or have lost the pair */
    uint32_t n_words;
} PairPlace;

typedef struct {
    int64_t count;
    uint32_t place;
} Candidate;

struct Pairs {
    const WordCounts *counts;
    int32_t *symbols;  /* of all words */
    size_t *begins;    /* [words] first symbol of a word */
    uint32_t *sizes;   /* [words] its symbols */
    PairPlace *places; /* [n] */
    uint32_t n;
    uint32_t *slots; /* [n_slots] hash table by pair: number of the place + 1, half full */
    size_t n_slots;
    Candidate *heap;
    size_t n_heap;
    uint32_t *touched; /* [n_touched] places of pairs that the present merge makes */
    size_t n_touched, touched_capacity;
    uint32_t taken; /* place of the pair that was taken out last */
};

/* ---- the table of pairs ---- */

static size_t slot_of(const Pairs *pairs, int32_t left, int32_t right) {
    const uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    size_t slot = (size_t)((key * 0x9E3779B97F4A7C15u) >> 20) & (pairs->n_slots - 1);
    for (; pairs->slots[slot]; slot = (slot + 1) & (pairs->n_slots - 1)) {
        const Pair *pair = &pairs->places[pairs->slots[slot] - 1].pair;
        if (pair->left == left && pair->right == right) break;
    }
    return slot;
}

static void grow_slots(Pairs *pairs) {
    free(pairs->slots);
    pairs->n_slots = pairs->n_slots ? 2 * pairs->n_slots : 1 << 16;
    pairs->slots = xcalloc(pairs->n_slots, sizeof *pairs->slots);
    for (uint32_t i = 0; i < pairs->n; i++)
        pairs->slots[slot_of(pairs, pairs->places[i].pair.left, pairs->places[i].pair.right)] = i + 1;
}

static uint32_t place_of(Pairs *pairs, int32_t left, int32_t right) {
    if (2 * (size_t)pairs->n >= pairs->n_slots) grow_slots(pairs);
    const size_t slot = slot_of(pairs, left, right);
    if (pairs->slots[slot]) return pairs->slots[slot] - 1;
    pairs->places = xgrow(pairs->places, (size_t)pairs->n, sizeof *pairs->places);
    pairs->places[pairs->n] = (PairPlace){.pair = {.left = left, .right = right}};
    pairs->slots[slot] = ++pairs->n;
    return pairs->n - 1;
}

/* Counts a pair of a word; returns its place. */
static uint32_t add_pair(Pairs *pairs, int32_t left, int32_t right, uint32_t word) {
    const uint32_t number = place_of(pairs, left, right);
    PairPlace *place = &pairs->places[number];
    place->pair.count += pairs->counts->counts[word];
    if (place->n_words && place->words[place->n_words - 1] == word) return number;
    place->words = xgrow(place->words, (size_t)place->n_words, sizeof *place->words);
    place->words[place->n_words++] = word;
    return number;
}

/* ---- the heap ---- */

/* Returns whether candidate a comes before b. */
static bool is_before(const Pairs *pairs, Candidate a, Candidate b) {
    const Pair *x = &pairs->places[a.place].pair, *y = &pairs->places[b.place].pair;
    if (a.count != b.count) return a.count > b.count;
    return x->left != y->left ? x->left < y->left : x->right < y->right;
}

/* Pushes a pair with its present count, if it has one. */
static void push(Pairs *pairs, uint32_t place) {
    const Candidate new = {pairs->places[place].pair.count, place};
    size_t at = pairs->n_heap;
    if (!new.count) return;
    pairs->heap = xgrow(pairs->heap, pairs->n_heap++, sizeof *pairs->heap);
    for (size_t up; at && is_before(pairs, new, pairs->heap[up = (at - 1) / 2]); at = up)
        pairs->heap[at] = pairs->heap[up];
    pairs->heap[at] = new;
}

static Candidate pop(Pairs *pairs) {
    Candidate *heap = pairs->heap;
    const Candidate top = heap[0], last = heap[--pairs->n_heap];
    size_t at = 0;
    for (size_t down; (down = 2 * at + 1) < pairs->n_heap; at = down) {
        if (down + 1 < pairs->n_heap && is_before(pairs, heap[down + 1], heap[down])) down++;
        if (!is_before(pairs, heap[down], last)) break;
        heap[at] = heap[down];
    }
    heap[at] = last;
    return top;
}

bool pairs_next(Pairs *pairs, Pair *next) {
    while (pairs->n_heap) {
        const Candidate top = pop(pairs);
        *next = pairs->places[top.place].pair;
        pairs->taken = top.place;
        if (next->count == top.count) return true;
        push(pairs, top.place);
    }
    return false;
}

/* ---- words ---- */

Pairs *pairs_open(const WordCounts *counts, FirstPieces *first_pieces, const void *context) {
    const Strings *words = &counts->words;
    Pairs *pairs = xcalloc(1, sizeof *pairs);
    pairs->counts = counts;
    pairs->symbols = xmalloc(words->n_bytes * sizeof *pairs->symbols + 1);
    pairs->begins = xmalloc(words->n * sizeof *pairs->begins + 1);
    pairs->sizes = xmalloc(words->n * sizeof *pairs->sizes + 1);
    for (uint32_t w = 0; w < words->n; w++) {
        int32_t *symbols = pairs->symbols + words->entries[w].begin;
        pairs->begins[w] = words->entries[w].begin;
        pairs->sizes[w] = first_pieces(context, strings_text(words, w), words->entries[w].size, symbols);
        for (uint32_t i = 1; i < pairs->sizes[w]; i++) add_pair(pairs, symbols[i - 1], symbols[i], w);
    }
    for (uint32_t i = 0; i < pairs->n; i++) push(pairs, i);
    return pairs;
}

static void lose_pair(Pairs *pairs, int32_t left, int32_t right, uint32_t word) {
    pairs->places[place_of(pairs, left, right)].pair.count -= pairs->counts->counts[word];
}

/* Counts a pair that a merge makes, to be pushed when the merge is done. */
static void make_pair(Pairs *pairs, int32_t left, int32_t right, uint32_t word) {
    const uint32_t place = add_pair(pairs, left, right, word);
    if (pairs->places[place].touched) return;
    pairs->places[place].touched = true;
    if (pairs->n_touched == pairs->touched_capacity) {
        pairs->touched_capacity = 2 * pairs->touched_capacity + 64;
        pairs->touched = xrealloc(pairs->touched, pairs->touched_capacity * sizeof *pairs->touched);
    }
    pairs->touched[pairs->n_touched++] = place;
}

static void merge_in_word(Pairs *pairs, Pair pair, int32_t id, uint32_t word) {
    int32_t *symbols = pairs->symbols + pairs->begins[word];
    const uint32_t size = pairs->sizes[word];
    uint32_t n = 0;
    for (uint32_t i = 0; i < size; i++) {
        if (symbols[i] != pair.left || i + 1 == size || symbols[i + 1] != pair.right) {
            symbols[n++] = symbols[i];
            continue;
        }
        if (n) {
            lose_pair(pairs, symbols[n - 1], pair.left, word);
            make_pair(pairs, symbols[n - 1], id, word);
        }
        if (++i + 1 < size) {
            lose_pair(pairs, pair.right, symbols[i + 1], word);
            make_pair(pairs, id, symbols[i + 1], word);
        }
        symbols[n++] = id;
    }
    pairs->sizes[word] = n;
}

void pairs_merge(Pairs *pairs, int32_t id) {
    const PairPlace taken = pairs->places[pairs->taken];
    for (uint32_t i = 0; i < taken.n_words; i++) merge_in_word(pairs, taken.pair, id, taken.words[i]);
    free(taken.words);
    pairs->places[pairs->taken] =
        (PairPlace){.pair = {.left = taken.pair.left, .right = taken.pair.right, .merged = true}};
    for (size_t i = 0; i < pairs->n_touched; i++) {
        pairs->places[pairs->touched[i]].touched = false;
        push(pairs, pairs->touched[i]);
    }
    pairs->n_touched = 0;
}

void pairs_close(Pairs *pairs) {
    for (uint32_t i = 0; i < pairs->n; i++) free(pairs->places[i].words);
    FREE(pairs->symbols, pairs->begins, pairs->sizes, pairs->places, pairs->slots, pairs->heap, pairs->touched, pairs);
}
