/* Reads the part of Python's pickle format that torch.save writes for (nested) state dicts, as data.
 *
 * Nothing is called, imported or executed. A tensor becomes a node with its arguments; a call that only makes a number
 * (numpy scalars, generator states) becomes a leaf; every other opcode or callable is refused with an error
 * that names it. */
#pragma once

#include "base/base.h"

typedef enum {
    PICKLE_LEAF, /* None, bool, float, bytes, an object without tensors */
    PICKLE_INTEGER,
    PICKLE_TEXT,
    PICKLE_TUPLE,
    PICKLE_LIST,
    PICKLE_DICT,    /* items: key, value, key, value, ... */
    PICKLE_GLOBAL,  /* a class or function on the allow list */
    PICKLE_STORAGE, /* integer: node of the tuple ("storage", class, key, location, number of elements, ...) */
    PICKLE_TENSOR   /* integer: node of the tuple (storage, offset, size, stride, ...) */
} PickleKind;

typedef struct {
    const char *module, *name;
    int role;          /* what a call of it makes; pickle.c */
    const char *dtype; /* safetensors' name, for a storage class; otherwise NULL */
} PickleGlobal;

typedef struct {
    PickleKind kind;
    int count, capacity; /* in items, or in bytes of text */
    union {
        int64_t integer;
        const char *text; /* points into the pickle; not zero-terminated */
        int *items;       /* indices of nodes; containers may be shared or contain themselves */
        const PickleGlobal *global;
    } as;
} PickleNode;

typedef struct {
    PickleNode *nodes;
    int count, root;
    size_t size; /* bytes, up to its end */
} Pickle;

enum { PICKLE_SIZE_LIMIT = 1 << 24 };

/* Parses a pickle of at most PICKLE_SIZE_LIMIT bytes; others may stand behind it. The nodes point into `bytes`. */
bool pickle_parse(const void *bytes, size_t size, Pickle *pickle, Error *error);
void pickle_free(Pickle *pickle);
/* Returns the value of a dictionary's key, the last one if it is there twice; NULL: it has no such key, or is no
 * dictionary. */
const PickleNode *pickle_get(const Pickle *pickle, const PickleNode *dictionary, const char *key);
/* Returns torch's storage class for a safetensors dtype ("FloatStorage" for "F32"), or NULL. */
const char *pickle_storage_class(const char *dtype);
