/* A set of byte strings, numbered in the order of their arrival. */
#pragma once

#include "base/base.h"

typedef struct {
    size_t begin; /* in bytes */
    uint32_t size, hash;
} StringEntry;

/* Begin with {0}. */
typedef struct {
    StringEntry *entries; /* [n] */
    uint32_t n;
    char *bytes; /* of all strings, each with a zero byte behind it */
    size_t n_bytes, bytes_capacity;
    uint32_t *slots; /* [n_slots] number of a string + 1; 0: free */
    size_t n_slots;
} Strings;

/* Returns the number of a string, new or not. At most 2^31 strings, each of less than 2^32 bytes. */
uint32_t strings_add(Strings *strings, const char *bytes, size_t size);
/* Returns the number of a string; -1: it is not there. */
int64_t strings_find(const Strings *strings, const char *bytes, size_t size);
/* Returns a string by its number; valid until the next one is added. */
static inline const char *strings_text(const Strings *strings, uint32_t number) {
    return strings->bytes + strings->entries[number].begin;
}
void strings_free(Strings *strings);
