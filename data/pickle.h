/* The part of Python's pickle format that torch.save of (nested) state dicts writes, read as data.
 *
 * Nothing is ever called, imported or executed: a tensor becomes a node that keeps its arguments, a call that only
 * makes a number (numpy scalars, generator states) becomes a leaf, and every other opcode or callable is refused by
 * name. */
#ifndef DATA_PICKLE_H
#define DATA_PICKLE_H

#include "base/base.h"

typedef enum {
    PICKLE_LEAF, /* None, bool, float, bytes, a number or object without tensors */
    PICKLE_INTEGER,
    PICKLE_TEXT,
    PICKLE_TUPLE,
    PICKLE_LIST,
    PICKLE_DICT,    /* items: key, value, key, value, ... */
    PICKLE_GLOBAL,  /* a class or function of the allow-list */
    PICKLE_STORAGE, /* integer: the tuple ("storage", class, key, location, number of elements) */
    PICKLE_TENSOR   /* integer: the tuple (storage, offset, size, stride, ...) */
} PickleKind;

typedef struct {
    const char *module, *name;
    int role;
    const char *dtype; /* of a storage class: safetensors' name; otherwise NULL */
} PickleGlobal;

typedef struct {
    PickleKind kind;
    int count, room; /* items; bytes of text */
    union {
        int64_t integer;
        const char *text; /* in the pickle's own bytes, not ended by zero */
        int *items;       /* indices of nodes; a container may be shared, or hold itself */
        const PickleGlobal *global;
    } as;
} PickleNode;

typedef struct {
    PickleNode *nodes;
    int count, room, root;
} Pickle;

bool pickle_parse(const void *bytes, size_t size, Pickle *pickle, Error *error); /* keeps pointers into bytes */
void pickle_free(Pickle *pickle);
/* torch's storage class of a safetensors dtype: "FloatStorage" of "F32"; NULL: there is none. */
const char *pickle_storage_class(const char *dtype);

#endif
