/* Texts to ids and back: added tokens, normaliser, words, the cache of words. */
#include <stdlib.h>
#include <string.h>
#include <unictype.h>

#include "data/text/bpe.h"
#include "data/text/bpe_normalize.h"
#include "data/text/bpe_word.h"
#include "data/text/characters.h"

/* ---- the words that a thread has encoded ---- */

/* A word and its ids, in one line of a processor's cache. The last word with its hash stays. */
enum { SLOT_BYTES = 28, SLOT_IDS = 8, CACHE_SLOTS = 1 << 15 };
typedef struct {
    uint8_t size, n, unknown, dropped;
    char word[SLOT_BYTES];
    int32_t ids[SLOT_IDS];
} Slot;

typedef struct {
    Slot slots[CACHE_SLOTS];
    uint64_t tokenizer; /* its hash */
} Cache;

static Cache *cache_of(const Bpe *bpe, TokenIds *ids) {
    Cache *cache = ids->cache;
    if (!cache) cache = ids->cache = xaligned(sizeof *cache);
    if (cache->tokenizer != bpe->hash) {
        memset(cache->slots, 0, sizeof cache->slots);
        cache->tokenizer = bpe->hash;
    }
    return cache;
}

/* Takes at least one byte. */
static size_t slot_of(const char *word, size_t size) {
    uint64_t hash = size, part;
    for (; size > 8; word += 8, size -= 8) {
        memcpy(&part, word, 8);
        hash = (hash ^ part) * 0x9E3779B97F4A7C15u;
        hash ^= hash >> 32;
    }
    part = 0;
    memcpy(&part, word, size);
    hash = (hash ^ part) * 0x9E3779B97F4A7C15u;
    return hash >> (64 - 15);
}

static void remember(Slot *slot, const char *word, size_t size, const TokenIds *before, const TokenIds *ids) {
    const int64_t n = ids->n - before->n;
    if (n > SLOT_IDS) return;
    slot->size = (uint8_t)size;
    slot->n = (uint8_t)n;
    slot->unknown = (uint8_t)(ids->unknown - before->unknown);
    slot->dropped = (uint8_t)(ids->dropped - before->dropped);
    memcpy(slot->word, word, size);
    if (n) memcpy(slot->ids, ids->ids + before->n, (size_t)n * sizeof *slot->ids);
}

static void encode_words(const Bpe *bpe, const char *begin, const char *end, TokenIds *ids) {
    Cache *cache = cache_of(bpe, ids);
    for (const char *stop; (stop = words_next((WordSplit)bpe->settings.split, &begin, end)); begin = stop) {
        const size_t size = (size_t)(stop - begin);
        if (size > SLOT_BYTES) {
            bpe_encode_word(bpe, begin, size, ids);
            continue;
        }
        Slot *slot = &cache->slots[slot_of(begin, size)];
        const bool told = ids->missing && (slot->unknown || slot->dropped);
        if (told || slot->size != size || memcmp(slot->word, begin, size) != 0) {
            const TokenIds before = *ids;
            bpe_encode_word(bpe, begin, size, ids);
            remember(slot, begin, size, &before, ids);
            continue;
        }
        token_ids_reserve(ids, SLOT_IDS);
        memcpy(ids->ids + ids->n, slot->ids, sizeof slot->ids);
        ids->n += slot->n;
        ids->unknown += slot->unknown;
        ids->dropped += slot->dropped;
    }
}

/* ---- a text ---- */

static void encode_plain(const Bpe *bpe, const char *text, size_t size, TokenIds *ids) {
    OWNED char *normal = bpe_normalize(bpe, text, &size);
    char *spaced = NULL;
    if (normal) text = normal;
    if (bpe->settings.prefix_space && size && *text != ' ') {
        spaced = xmalloc(size + 1);
        *spaced = ' ';
        memcpy(spaced + 1, text, size++);
        text = spaced;
    }
    encode_words(bpe, text, text + size, ids);
    free(spaced);
}

/* Returns the longest added token that the text begins with. */
static const BpeAdded *added_at(const Bpe *bpe, const char *at, const char *end, bool late, bool specials) {
    for (size_t i = 0; i < bpe->n_added; i++) {
        const BpeAdded *added = &bpe->added[i];
        if (added->late == late && (specials || !added->special) && added->size <= (size_t)(end - at) &&
            !memcmp(strings_text(&bpe->pieces, added->piece), at, added->size))
            return added;
    }
    return NULL;
}

/* Returns where the last character before `at` begins. */
static const char *character_before(const char *begin, const char *at) {
    do at--;
    while (at > begin && ((unsigned char)*at & 0xC0) == 0x80);
    return at;
}

/* Returns whether a character is \w, as regular expressions of Unicode know it. */
static bool is_word(uint32_t c) {
    return c < CHARACTER_NONE && (uc_is_property_alphabetic(c) || uc_is_general_category(c, UC_CATEGORY_M) ||
                                  uc_is_general_category(c, UC_CATEGORY_Nd) ||
                                  uc_is_general_category(c, UC_CATEGORY_Pc) || uc_is_property_join_control(c));
}

/* Returns whether no character of a word stands before `at` or at `stop` in the text begin .. end - 1. */
static bool stands_alone(const char *begin, const char *at, const char *stop, const char *end) {
    uint32_t before = 0, behind = 0;
    if (at > begin) character_at(character_before(begin, at), at, &before);
    if (stop < end) character_at(stop, end, &behind);
    return !is_word(before) && !is_word(behind);
}

/* Returns where the white space begins that ends at `at`. */
static const char *space_begin(const char *begin, const char *at) {
    for (uint32_t c; at > begin; at = character_before(begin, at)) {
        character_at(character_before(begin, at), at, &c);
        if (!(character_classes()[c] & CHARACTER_SPACE)) break;
    }
    return at;
}

/* Returns where the white space ends that begins at `at`. */
static const char *space_end(const char *at, const char *end) {
    uint32_t c;
    for (size_t size; (size = character_at(at, end, &c)) && character_classes()[c] & CHARACTER_SPACE;) at += size;
    return at;
}

/* Encodes the text between added tokens, first between those that are not late, then between the others. */
static void encode_between(const Bpe *bpe, const char *begin, const char *end, int late, bool specials, TokenIds *ids) {
    if (late == 2) {
        if (begin < end) encode_plain(bpe, begin, (size_t)(end - begin), ids);
        return;
    }
    const bool *starts = bpe->starts[late];
    const char *const whole = begin;
    for (const char *at = bpe->any[late] ? begin : end, *stop; at < end; at = stop) {
        const BpeAdded *added = starts[(unsigned char)*at] ? added_at(bpe, at, end, late, specials) : NULL;
        stop = at + (added ? added->size : 1);
        if (!added || (added->single_word && !stands_alone(whole, at, stop, end))) continue;
        const char *left = added->lstrip ? space_begin(whole, at) : at;
        encode_between(bpe, begin, left, late + 1, specials, ids);
        token_ids_add(ids, added->id);
        ids->unknown += added->id == bpe->settings.unknown;
        begin = added->rstrip ? space_end(stop, end) : stop; /* the next token may still begin in that space */
    }
    encode_between(bpe, begin, end, late + 1, specials, ids);
}

void bpe_encode(const Bpe *bpe, const char *text, size_t size, bool specials, TokenIds *ids) {
    encode_between(bpe, text, text + size, 0, specials, ids);
}

/* ---- ids to text ---- */

bool bpe_continues(const Bpe *bpe, int32_t id) {
    return bpe->symbol_ids && ends_with(strings_text(&bpe->pieces, bpe->piece_of[id] - 1), FASTBPE_CONTINUES);
}

/* Writes a piece of fastBPE and what is between it and the next; returns its bytes. */
static size_t put_fastbpe(const Bpe *bpe, int32_t id, bool last, char *out) {
    const uint32_t number = bpe->piece_of[id] - 1;
    size_t size = bpe->pieces.entries[number].size;
    memcpy(out, strings_text(&bpe->pieces, number), size);
    if (last) return size;
    if (bpe_continues(bpe, id)) return size - strlen(FASTBPE_CONTINUES);
    out[size] = ' ';
    return size + 1;
}

/* Writes what an id adds to a text, with a space before it if it begins a word that is no single character; returns its
 * bytes. */
static size_t put_piece(const Bpe *bpe, int32_t id, bool first, char *out) {
    const uint32_t piece = bpe->piece_of[id];
    if (!piece) return 0;
    if (bpe->settings.byte_level) {
        const size_t size = bpe->bytes_at[id + 1] - bpe->bytes_at[id];
        memcpy(out, bpe->bytes + bpe->bytes_at[id], size);
        return size;
    }
    const char *text = strings_text(&bpe->pieces, piece - 1);
    size_t size = bpe->pieces.entries[piece - 1].size, prefix = strlen(bpe->settings.prefix);
    const bool inside = prefix && piece <= bpe->n_model && size > prefix && !memcmp(text, bpe->settings.prefix, prefix);
    const bool apart = !inside && !first && bpe->settings.split != WORDS_CHARACTERS;
    if (apart) *out++ = ' ';
    if (inside) text += prefix, size -= prefix;
    memcpy(out, text, size);
    return size + apart;
}

char *bpe_decode(const Bpe *bpe, const int32_t *ids, int64_t n, size_t *size) {
    size_t total = 1;
    for (int64_t i = 0; i < n; i++) {
        const uint32_t piece = bpe->piece_of[ids[i]];
        if (piece) total += bpe->pieces.entries[piece - 1].size + 1;
    }
    char *text = xmalloc(total);
    *size = 0;
    for (int64_t i = 0; i < n; i++)
        *size += bpe->symbol_ids ? put_fastbpe(bpe, ids[i], i + 1 == n, text + *size)
                                 : put_piece(bpe, ids[i], i == 0, text + *size);
    text[*size] = 0;
    return text;
}
