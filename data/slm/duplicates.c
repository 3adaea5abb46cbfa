#include "data/slm/duplicates.h"

#include <stdlib.h>
#include <string.h>
#include <unicase.h>
#include <unictype.h>
#include <unistr.h>

#include "base/file.h"

enum {
    SHINGLE = 24, /* letters */
    ROWS = 4,     /* minima per band */
    BANDS = SIGNATURE_MINIMA / ROWS,
    ALIKE = 52,         /* equal minima of near-identical documents */
    MAX_CANDIDATES = 32 /* documents that are kept per band, so that boilerplate does not make it slow */
};

/* ---- signatures ---- */

static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 33) * 0xff51afd7ed558ccdu;
    x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53u;
    return x ^ x >> 33;
}

/* Returns the next letter or digit in lower case; 0 at the end. */
static ucs4_t next_letter(const uint8_t **at, const uint8_t *end) {
    while (*at < end) {
        ucs4_t c = **at;
        if (c < 0x80) {
            ++*at;
            if (c - 'A' < 26u) return c | 0x20;
            if (c - 'a' < 26u || c - '0' < 10u) return c;
        } else {
            *at += u8_mbtouc_unsafe(&c, *at, (size_t)(end - *at));
            if (uc_is_alnum(c)) return uc_tolower(c);
        }
    }
    return 0;
}

/* Puts a shingle into its bin: the upper bits of its hash choose the bin, which keeps the least of the lower bits. */
static void add_shingle(uint32_t *minima, uint64_t hash) {
    hash = mix(hash);
    uint32_t *bin = &minima[hash >> 58], value = (uint32_t)hash >> 1;
    if (value < *bin) *bin = value;
}

/* Gives each empty bin the value of the next one that is not, changed by the distance. */
static void fill_empty(uint32_t *minima) {
    uint32_t filled[SIGNATURE_MINIMA];
    for (int i = 0; i < SIGNATURE_MINIMA; i++) {
        int distance = 0;
        while (minima[(i + distance) % SIGNATURE_MINIMA] == UINT32_MAX) distance++;
        filled[i] = minima[(i + distance) % SIGNATURE_MINIMA] + 0x9e3779b9u * (uint32_t)distance;
    }
    memcpy(minima, filled, sizeof filled);
}

void signature_compute(const char *text, size_t size, bool near, Signature *s) {
    const uint64_t base = 0x9e3779b97f4a7c15u; /* of the polynomial in the letters that is a shingle's hash */
    const uint8_t *at = (const uint8_t *)text, *end = at + size;
    ucs4_t ring[SHINGLE] = {0};
    uint64_t hash = 0, power = 1, n = 0;
    s->hash = checksum(0, text, size);
    if (!near) return;
    for (int i = 0; i < SHINGLE; i++) power *= base;
    memset(s->minima, 0xff, sizeof s->minima);
    for (ucs4_t c; (c = next_letter(&at, end)); n++) {
        hash = hash * base + c - ring[n % SHINGLE] * power;
        ring[n % SHINGLE] = c;
        if (n + 1 >= SHINGLE) add_shingle(s->minima, hash);
    }
    if (n < SHINGLE) add_shingle(s->minima, n ? hash : s->hash); /* a short text is one shingle */
    fill_empty(s->minima);
}

/* ---- documents seen ---- */

/* A hash table with open addressing whose entries are numbers above 0. */
typedef struct {
    uint64_t *slots;
    size_t capacity, n; /* capacity: a power of two */
} Hashes;

typedef struct {
    uint32_t *slots; /* document + 1 */
    size_t capacity, n;
} Bands;

struct SeenDocuments {
    Duplicates duplicates;
    Hashes hashes;
    Bands bands;
    uint32_t (*minima)[SIGNATURE_MINIMA];
    size_t n; /* documents with minima */
};

SeenDocuments *seen_open(Duplicates duplicates) {
    SeenDocuments *seen = xcalloc(1, sizeof *seen);
    seen->duplicates = duplicates;
    return seen;
}

void seen_close(SeenDocuments *seen) {
    if (!seen) return;
    free(seen->hashes.slots);
    free(seen->bands.slots);
    free(seen->minima);
    free(seen);
}

/* Adds a number above 0. Returns whether it is new. */
static bool hashes_put(Hashes *h, uint64_t hash) {
    size_t at = hash & (h->capacity - 1);
    for (; h->slots[at]; at = (at + 1) & (h->capacity - 1))
        if (h->slots[at] == hash) return false;
    h->slots[at] = hash;
    h->n++;
    return true;
}

static bool hashes_add(Hashes *h, uint64_t hash) {
    if (2 * h->n >= h->capacity) {
        Hashes larger = {.capacity = h->capacity ? 2 * h->capacity : 1024};
        larger.slots = xcalloc(larger.capacity, sizeof *larger.slots);
        for (size_t i = 0; i < h->capacity; i++)
            if (h->slots[i]) hashes_put(&larger, h->slots[i]);
        free(h->slots);
        *h = larger;
    }
    return hashes_put(h, hash ? hash : 1);
}

static size_t band_slot(const Bands *b, const uint32_t *minima, int band) {
    uint64_t hash = (uint64_t)band;
    for (int i = 0; i < ROWS; i++) hash = mix(hash ^ minima[band * ROWS + i]);
    return hash & (b->capacity - 1);
}

/* Returns the next document with this band, beginning with slot *at, and moves behind it; NULL: *at is a free slot. */
static const uint32_t *next_candidate(const SeenDocuments *seen, const uint32_t *minima, int band, size_t *at) {
    const Bands *b = &seen->bands;
    for (uint32_t number; (number = b->slots[*at]);) {
        const uint32_t *other = seen->minima[number - 1];
        *at = (*at + 1) & (b->capacity - 1);
        if (!memcmp(other + band * ROWS, minima + band * ROWS, ROWS * sizeof *minima)) return other;
    }
    return NULL;
}

/* A band that as many documents have as are ever compared is left out. */
static void bands_put(SeenDocuments *seen, uint32_t document) {
    Bands *b = &seen->bands;
    const uint32_t *minima = seen->minima[document];
    for (int band = 0; band < BANDS; band++) {
        int candidates = 0;
        size_t at = band_slot(b, minima, band);
        while (candidates < MAX_CANDIDATES && next_candidate(seen, minima, band, &at)) candidates++;
        if (candidates == MAX_CANDIDATES) continue;
        b->slots[at] = document + 1;
        b->n++;
    }
}

static void bands_grow(SeenDocuments *seen) {
    Bands *b = &seen->bands;
    if (2 * (b->n + BANDS) < b->capacity) return;
    free(b->slots);
    *b = (Bands){.capacity = b->capacity ? 2 * b->capacity : 4096};
    b->slots = xcalloc(b->capacity, sizeof *b->slots);
    for (size_t d = 0; d < seen->n; d++) bands_put(seen, (uint32_t)d);
}

static bool alike(const uint32_t *a, const uint32_t *b) {
    int equal = 0;
    for (int i = 0; i < SIGNATURE_MINIMA; i++) equal += a[i] == b[i];
    return equal >= ALIKE;
}

static bool find_alike(const SeenDocuments *seen, const uint32_t *minima) {
    for (int band = 0; band < BANDS; band++) {
        size_t at = band_slot(&seen->bands, minima, band);
        for (const uint32_t *other; (other = next_candidate(seen, minima, band, &at));)
            if (alike(other, minima)) return true;
    }
    return false;
}

Seen seen_add(SeenDocuments *seen, const Signature *s) {
    if (seen->duplicates == DUPLICATES_KEEP) return SEEN_NEW;
    if (!hashes_add(&seen->hashes, s->hash)) return SEEN_EXACT;
    if (seen->duplicates == DUPLICATES_EXACT) return SEEN_NEW;
    bands_grow(seen);
    if (find_alike(seen, s->minima)) return SEEN_NEAR;
    seen->minima = xgrow(seen->minima, (size_t)seen->n, sizeof *seen->minima);
    if (seen->n == UINT32_MAX)
        die("more than %u documents: near-identical ones cannot be found among so many", UINT32_MAX);
    memcpy(seen->minima[seen->n], s->minima, sizeof s->minima);
    bands_put(seen, (uint32_t)seen->n++);
    return SEEN_NEW;
}
