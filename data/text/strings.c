/* A hash table with linear probing, at most half full. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "data/text/strings.h"

static uint32_t hash_of(const char *bytes, size_t size) { return (uint32_t)checksum(0, bytes, size); }

/* Returns the slot that holds the string, or the free one where it belongs. */
static size_t slot_of(const Strings *strings, const char *bytes, size_t size, uint32_t hash) {
    size_t slot = hash & (strings->n_slots - 1);
    for (; strings->slots[slot]; slot = (slot + 1) & (strings->n_slots - 1)) {
        const StringEntry *entry = &strings->entries[strings->slots[slot] - 1];
        if (entry->hash == hash && entry->size == size && !memcmp(strings->bytes + entry->begin, bytes, size)) break;
    }
    return slot;
}

static void grow_slots(Strings *strings) {
    free(strings->slots);
    strings->n_slots = strings->n_slots ? 2 * strings->n_slots : 64;
    strings->slots = xcalloc(strings->n_slots, sizeof *strings->slots);
    for (uint32_t i = 0; i < strings->n; i++) {
        size_t slot = strings->entries[i].hash & (strings->n_slots - 1);
        while (strings->slots[slot]) slot = (slot + 1) & (strings->n_slots - 1);
        strings->slots[slot] = i + 1;
    }
}

static void append(Strings *strings, const char *bytes, size_t size, uint32_t hash) {
    strings->entries = xgrow(strings->entries, (size_t)strings->n, sizeof *strings->entries);
    if (strings->n_bytes + size + 1 > strings->bytes_capacity) {
        strings->bytes_capacity = 2 * strings->bytes_capacity + size + 1;
        strings->bytes = xrealloc(strings->bytes, strings->bytes_capacity);
    }
    strings->entries[strings->n++] = (StringEntry){strings->n_bytes, (uint32_t)size, hash};
    memcpy(strings->bytes + strings->n_bytes, bytes, size);
    strings->n_bytes += size + 1;
    strings->bytes[strings->n_bytes - 1] = 0;
}

uint32_t strings_add(Strings *strings, const char *bytes, size_t size) {
    const uint32_t hash = hash_of(bytes, size);
    if (2 * (size_t)strings->n >= strings->n_slots) grow_slots(strings);
    const size_t slot = slot_of(strings, bytes, size, hash);
    if (!strings->slots[slot]) {
        append(strings, bytes, size, hash);
        strings->slots[slot] = strings->n;
    }
    return strings->slots[slot] - 1;
}

int64_t strings_find(const Strings *strings, const char *bytes, size_t size) {
    if (!strings->n) return -1;
    return (int64_t)strings->slots[slot_of(strings, bytes, size, hash_of(bytes, size))] - 1;
}

void strings_free(Strings *strings) {
    FREE(strings->entries, strings->bytes, strings->slots);
    *strings = (Strings){0};
}
