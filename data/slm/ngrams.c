#include "data/slm/ngrams.h"

#include <math.h>
#include <stdlib.h>

#include "base/base.h"

enum { HISTORY = NGRAM_ORDERS - 1, ID_BITS = 21, READ = 65536 };

/* How often a sequence of tokens occurred, and, as a history, what followed. */
typedef struct {
    uint64_t key; /* 0: a free place */
    uint32_t count, followed, types;
} Entry;

/* A hash table with open addressing, at most half full. */
typedef struct {
    Entry *entries;
    uint64_t mask;
    int64_t used;
} Table;

struct Ngrams {
    Table tables[NGRAM_ORDERS]; /* by length; [0] also holds the empty history */
    int vocabulary;
};

/* The last HISTORY tokens, oldest first, behind `length` of them. */
typedef struct {
    int32_t ids[HISTORY];
    int length;
} History;

/* Returns the key of n tokens, never 0. Ids have fewer than ID_BITS bits. */
static uint64_t key_of(const int32_t *ids, int n) {
    uint64_t key = 0;
    for (int i = 0; i < n; i++) key = key << ID_BITS | (uint64_t)(ids[i] + 1);
    return key + 1;
}

static uint64_t place_of(const Table *table, uint64_t key) {
    uint64_t hash = key * 0x9E3779B97F4A7C15u;
    for (uint64_t at = (hash ^ hash >> 29) & table->mask;; at = (at + 1) & table->mask)
        if (!table->entries[at].key || table->entries[at].key == key) return at;
}

static Table table_open(uint64_t places) {
    return (Table){.entries = xcalloc(places, sizeof(Entry)), .mask = places - 1};
}

static void table_grow(Table *table) {
    Table larger = table_open(2 * (table->mask + 1));
    for (uint64_t i = 0; i <= table->mask; i++)
        if (table->entries[i].key) larger.entries[place_of(&larger, table->entries[i].key)] = table->entries[i];
    larger.used = table->used;
    free(table->entries);
    *table = larger;
}

/* Returns the entry of a key; the pointer lives until the next call for this table. */
static Entry *entry_of(Table *table, uint64_t key) {
    if (2 * (uint64_t)table->used > table->mask) table_grow(table);
    Entry *entry = &table->entries[place_of(table, key)];
    table->used += !entry->key;
    entry->key = key;
    return entry;
}

static void history_push(History *history, int32_t id) {
    if (history->length == HISTORY) history->ids[0] = history->ids[1];
    history->ids[history->length < HISTORY ? history->length++ : HISTORY - 1] = id;
}

/* Calls f(context, the n latest tokens and the next) for every target of the stream's first max_tokens. */
static void for_targets(const SlmStream *stream, int64_t max_tokens,
                        void (*f)(void *context, const History *history, int32_t target), void *context) {
    int64_t n = stream->n_tokens < max_tokens ? stream->n_tokens : max_tokens;
    OWNED int32_t *ids = xmalloc(READ * sizeof *ids);
    History history = {.length = 0};
    for (int64_t at = 0; at < n; at += READ) {
        int64_t count = n - at < READ ? n - at : READ;
        slm_stream_read(stream, at, count, ids);
        for (int64_t i = 0; i < count; i++) {
            if (history.length) f(context, &history, ids[i]);
            history_push(&history, ids[i]);
        }
    }
}

/* Counts the target behind each of its histories, the empty one included. */
static void count_target(void *context, const History *history, int32_t target) {
    Ngrams *ngrams = context;
    for (int n = 0; n <= history->length; n++) {
        int32_t sequence[NGRAM_ORDERS];
        for (int i = 0; i < n; i++) sequence[i] = history->ids[history->length - n + i];
        sequence[n] = target;
        bool is_new = !entry_of(&ngrams->tables[n], key_of(sequence, n + 1))->count++;
        Entry *before = entry_of(&ngrams->tables[n ? n - 1 : 0], key_of(sequence, n));
        before->followed++;
        before->types += is_new;
    }
}

Ngrams *ngrams_count(const SlmStream *stream, int64_t max_tokens) {
    Ngrams *ngrams = xcalloc(1, sizeof *ngrams);
    if (stream->vocabulary >= 1 << ID_BITS)
        die("n-grams: a vocabulary of %d; at most %d", stream->vocabulary, (1 << ID_BITS) - 1);
    ngrams->vocabulary = stream->vocabulary;
    for (int i = 0; i < NGRAM_ORDERS; i++) ngrams->tables[i] = table_open(1024);
    for_targets(stream, max_tokens, count_target, ngrams);
    return ngrams;
}

void ngrams_free(Ngrams *ngrams) {
    if (!ngrams) return;
    for (int i = 0; i < NGRAM_ORDERS; i++) free(ngrams->tables[i].entries);
    free(ngrams);
}

typedef struct {
    const Ngrams *ngrams;
    double *nats;
} Measurement;

static const Entry *find(const Table *table, uint64_t key) { return &table->entries[place_of(table, key)]; }

static void measure_target(void *context, const History *history, int32_t target) {
    const Measurement *m = context;
    double p = 1.0 / m->ngrams->vocabulary;
    for (int n = 0; n < NGRAM_ORDERS; n++) {
        int32_t sequence[NGRAM_ORDERS];
        for (int i = 0; i < n && n <= history->length; i++) sequence[i] = history->ids[history->length - n + i];
        sequence[n] = target;
        if (n <= history->length) {
            const Entry *before = find(&m->ngrams->tables[n ? n - 1 : 0], key_of(sequence, n));
            double count = find(&m->ngrams->tables[n], key_of(sequence, n + 1))->count, types = before->types;
            if (before->followed) p = (count + types * p) / (before->followed + types);
        }
        m->nats[n] -= log(p);
    }
}

void ngrams_measure(const Ngrams *ngrams, const SlmStream *stream, double nats[NGRAM_ORDERS]) {
    for (int i = 0; i < NGRAM_ORDERS; i++) nats[i] = 0;
    for_targets(stream, stream->n_tokens, measure_target, &(Measurement){ngrams, nats});
}
