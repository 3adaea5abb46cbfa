/* A stack machine for the subset of pickle that a state dict needs (see pickle.h).
 *
 * As in Python, opcodes push nodes on a stack, a mark on the stack begins a group (the items of a tuple, list or dict),
 * and the memo keeps nodes for later use by number. Nodes are stored in one array and refer to each other by index, so
 * that sharing and cycles are free. An opcode makes at most one node, so the size of the pickle, which is limited,
 * bounds the memory. */
#include "data/formats/pickle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODE_LIMIT = 1 << 22, MARK = -1 };

enum { MAKES_DICT, MAKES_TENSOR, MAKES_PARAMETER, MAKES_LEAF, NAMES_TYPE };

static const PickleGlobal allowed[] = {
    {"collections", "OrderedDict", MAKES_DICT, NULL},
    {"torch._utils", "_rebuild_tensor_v2", MAKES_TENSOR, NULL},
    {"torch._utils", "_rebuild_parameter", MAKES_PARAMETER, NULL},
    {"torch", "FloatStorage", NAMES_TYPE, "F32"},
    {"torch", "DoubleStorage", NAMES_TYPE, "F64"},
    {"torch", "HalfStorage", NAMES_TYPE, "F16"},
    {"torch", "BFloat16Storage", NAMES_TYPE, "BF16"},
    {"torch", "LongStorage", NAMES_TYPE, "I64"},
    {"torch", "IntStorage", NAMES_TYPE, "I32"},
    {"torch", "ShortStorage", NAMES_TYPE, "I16"},
    {"torch", "CharStorage", NAMES_TYPE, "I8"},
    {"torch", "ByteStorage", NAMES_TYPE, "U8"},
    {"torch", "BoolStorage", NAMES_TYPE, "BOOL"},
    {"torch", "Size", MAKES_LEAF, NULL},
    {"torch", "device", MAKES_LEAF, NULL},
    {"_codecs", "encode", MAKES_LEAF, NULL}, /* bytes, in protocol 2 */
    {"numpy", "dtype", MAKES_LEAF, NULL},    /* numpy scalars and the state of numpy's generator */
    {"numpy", "ndarray", NAMES_TYPE, NULL},
    {"numpy.core.multiarray", "scalar", MAKES_LEAF, NULL},
    {"numpy.core.multiarray", "_reconstruct", MAKES_LEAF, NULL},
    {"numpy._core.multiarray", "scalar", MAKES_LEAF, NULL},
    {"numpy._core.multiarray", "_reconstruct", MAKES_LEAF, NULL},
};

const char *pickle_storage_class(const char *dtype) {
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
        if (allowed[i].dtype && !strcmp(allowed[i].dtype, dtype)) return allowed[i].name;
    return NULL;
}

typedef struct {
    const uint8_t *bytes;
    size_t size, at, opcode_at;
    Pickle *pickle;
    int *stack; /* node indices, or MARK */
    int depth;
    int *memo; /* node indices, or -1 */
    size_t memo_count, memo_capacity;
    Error *error;
} Machine;

static bool fail(Machine *m, const char *what) {
    error_set(m->error, "pickle, byte %zu: %s", m->opcode_at, what);
    return false;
}

/* ---- bytes ---- */

static bool take(Machine *m, size_t n, const uint8_t **bytes) {
    if (n > m->size - m->at) return fail(m, "the pickle ends in the middle of a value");
    *bytes = m->bytes + m->at;
    m->at += n;
    return true;
}

/* n <= 8 bytes, little-endian, unsigned. */
static bool take_number(Machine *m, size_t n, uint64_t *value) {
    const uint8_t *bytes;
    if (!take(m, n, &bytes)) return false;
    *value = 0;
    for (size_t i = 0; i < n; i++) *value |= (uint64_t)bytes[i] << 8 * i;
    return true;
}

/* n bytes as a signed number. */
static int64_t sign_extended(uint64_t value, size_t n) {
    if (n == 0 || n == 8) return (int64_t)value;
    uint64_t sign = (uint64_t)1 << (8 * n - 1);
    return (int64_t)(value ^ sign) - (int64_t)sign;
}

static bool take_line(Machine *m, const uint8_t **line, size_t *length) {
    const uint8_t *end = memchr(m->bytes + m->at, '\n', m->size - m->at);
    if (!end) return fail(m, "the pickle ends in the middle of a name");
    *line = m->bytes + m->at;
    *length = (size_t)(end - *line);
    m->at += *length + 1;
    return true;
}

/* ---- nodes, stack, memo ---- */

static PickleNode *node_at(const Machine *m, int index) { return &m->pickle->nodes[index]; }

static bool push(Machine *m, int index) {
    m->stack = xgrow(m->stack, (size_t)m->depth, sizeof *m->stack);
    m->stack[m->depth++] = index;
    return true;
}

static bool push_node(Machine *m, PickleNode node) {
    Pickle *pickle = m->pickle;
    if (pickle->count == NODE_LIMIT) return fail(m, "more values than a state dict has");
    pickle->nodes = xgrow(pickle->nodes, (size_t)pickle->count, sizeof *pickle->nodes);
    pickle->nodes[pickle->count] = node;
    return push(m, pickle->count++);
}

static bool push_kind(Machine *m, int kind) { return push_node(m, (PickleNode){.kind = (PickleKind)kind}); }

static bool push_integer(Machine *m, int64_t value) {
    return push_node(m, (PickleNode){.kind = PICKLE_INTEGER, .as.integer = value});
}

static bool pop(Machine *m, int *index) {
    if (!m->depth || m->stack[m->depth - 1] == MARK) return fail(m, "nothing is on the stack");
    *index = m->stack[--m->depth];
    return true;
}

/* Returns the node that an opcode changes: the one below n values, or below the mark. */
static bool target(Machine *m, int below, int kind, PickleNode **node) {
    int at = m->depth - 1 - below;
    if (at < 0 || m->stack[at] == MARK || (int)node_at(m, m->stack[at])->kind != kind)
        return fail(m, kind == PICKLE_DICT ? "items without a dictionary" : "items without a list");
    *node = node_at(m, m->stack[at]);
    return true;
}

static bool above_mark(Machine *m, int *count) {
    for (*count = 0; *count < m->depth; ++*count)
        if (m->stack[m->depth - 1 - *count] == MARK) return true;
    return fail(m, "no mark is on the stack");
}

/* Moves the top `count` values of the stack to the end of a container. */
static bool move_items(Machine *m, PickleNode *node, int count) {
    for (int i = m->depth - count; i < m->depth; i++)
        if (m->stack[i] == MARK) return fail(m, "a mark where a value should be");
    if (node->count + count > node->capacity) {
        node->capacity = node->count + count > 2 * node->capacity ? node->count + count : 2 * node->capacity;
        node->as.items = xrealloc(node->as.items, (size_t)node->capacity * sizeof *node->as.items);
    }
    if (count) memcpy(node->as.items + node->count, m->stack + m->depth - count, (size_t)count * sizeof(int));
    node->count += count;
    m->depth -= count;
    return true;
}

static bool tuple_of(Machine *m, int count, int marks) {
    PickleNode node = {.kind = PICKLE_TUPLE};
    if (count > m->depth) return fail(m, "nothing is on the stack");
    if (!move_items(m, &node, count)) return false;
    m->depth -= marks;
    if (push_node(m, node)) return true;
    free(node.as.items);
    return false;
}

static bool make_tuple(Machine *m, int count) { return tuple_of(m, count, 0); }
static bool make_marked_tuple(Machine *m, int count) { return above_mark(m, &count) && tuple_of(m, count, 1); }

static bool add_item(Machine *m, int kind) {
    int count = kind == PICKLE_DICT ? 2 : 1;
    PickleNode *node;
    return target(m, count, kind, &node) && move_items(m, node, count);
}

static bool add_marked_items(Machine *m, int kind) {
    int count;
    PickleNode *node;
    if (!above_mark(m, &count) || !target(m, count + 1, kind, &node)) return false;
    if (kind == PICKLE_DICT && count % 2) return fail(m, "a key without a value");
    if (!move_items(m, node, count)) return false;
    m->depth--;
    return true;
}

static bool memo_put(Machine *m, uint64_t number) {
    if (!m->depth || m->stack[m->depth - 1] == MARK) return fail(m, "nothing is on the stack");
    if (number >= m->size) return fail(m, "a memo number larger than the pickle");
    if (number >= m->memo_capacity) {
        size_t capacity = 2 * number + 64;
        m->memo = xrealloc(m->memo, capacity * sizeof *m->memo);
        for (size_t i = m->memo_capacity; i < capacity; i++) m->memo[i] = -1;
        m->memo_capacity = capacity;
    }
    if (m->memo[number] < 0) m->memo_count++;
    m->memo[number] = m->stack[m->depth - 1];
    return true;
}

static bool memo_get(Machine *m, uint64_t number) {
    if (number >= m->memo_capacity || m->memo[number] < 0) return fail(m, "a memo number that was never given");
    return push(m, m->memo[number]);
}

/* ---- globals and calls ---- */

/* Refuses a callable and says what the user can do: training checkpoints keep such objects beside the weights. */
static bool refuse_call(Machine *m, const char *module, size_t module_length, const char *name, size_t name_length) {
    return error_set(m->error,
                     "pickle, byte %zu: refuses to call %.*s.%.*s; only tensors, dictionaries, lists, texts and "
                     "numbers are read: save the state dict alone, as by torch.save(x['model'], path)",
                     m->opcode_at, (int)(module_length < 100 ? module_length : 100), module,
                     (int)(name_length < 100 ? name_length : 100), name);
}

static bool push_global(Machine *m, const uint8_t *module, size_t module_length, const uint8_t *name,
                        size_t name_length) {
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) {
        const PickleGlobal *global = &allowed[i];
        if (strlen(global->module) == module_length && !memcmp(global->module, module, module_length) &&
            strlen(global->name) == name_length && !memcmp(global->name, name, name_length))
            return push_node(m, (PickleNode){.kind = PICKLE_GLOBAL, .as.global = global});
    }
    return refuse_call(m, (const char *)module, module_length, (const char *)name, name_length);
}

static bool read_global(Machine *m, int unused) {
    (void)unused;
    const uint8_t *module, *name;
    size_t module_length, name_length;
    return take_line(m, &module, &module_length) && take_line(m, &name, &name_length) &&
           push_global(m, module, module_length, name, name_length);
}

static bool stack_global(Machine *m, int unused) {
    (void)unused;
    int name, module;
    if (!pop(m, &name) || !pop(m, &module)) return false;
    const PickleNode *n = node_at(m, name), *k = node_at(m, module);
    if (n->kind != PICKLE_TEXT || k->kind != PICKLE_TEXT) return fail(m, "a global whose name is no text");
    return push_global(m, (const uint8_t *)k->as.text, (size_t)k->count, (const uint8_t *)n->as.text, (size_t)n->count);
}

static bool reduce(Machine *m, int unused) {
    (void)unused;
    int arguments, function;
    if (!pop(m, &arguments) || !pop(m, &function)) return false;
    const PickleNode *tuple = node_at(m, arguments), *called = node_at(m, function);
    if (called->kind != PICKLE_GLOBAL || tuple->kind != PICKLE_TUPLE) return fail(m, "a call of what is no function");
    const PickleGlobal *global = called->as.global;
    switch (global->role) {
    case MAKES_DICT:
        return tuple->count ? fail(m, "an OrderedDict made from arguments") : push_kind(m, PICKLE_DICT);
    case MAKES_TENSOR:
        return push_node(m, (PickleNode){.kind = PICKLE_TENSOR, .as.integer = arguments});
    case MAKES_PARAMETER:
        if (!tuple->count || node_at(m, tuple->as.items[0])->kind != PICKLE_TENSOR)
            return fail(m, "a parameter that is no tensor");
        return push(m, tuple->as.items[0]);
    case MAKES_LEAF:
        return push_kind(m, PICKLE_LEAF);
    default:
        return refuse_call(m, global->module, strlen(global->module), global->name, strlen(global->name));
    }
}

/* Sets attributes of an object. Those of an OrderedDict (versions of a state dict) and of leaves are ignored. */
static bool build(Machine *m, int unused) {
    (void)unused;
    int state;
    if (!pop(m, &state)) return false;
    if (!m->depth || m->stack[m->depth - 1] == MARK) return fail(m, "nothing is on the stack");
    PickleKind kind = node_at(m, m->stack[m->depth - 1])->kind;
    return kind == PICKLE_DICT || kind == PICKLE_LEAF || fail(m, "attributes of what has none");
}

static bool read_persistent(Machine *m, int unused) {
    (void)unused;
    int tuple;
    if (!pop(m, &tuple)) return false;
    if (node_at(m, tuple)->kind != PICKLE_TUPLE) return fail(m, "a storage that is no tuple");
    return push_node(m, (PickleNode){.kind = PICKLE_STORAGE, .as.integer = tuple});
}

/* ---- opcodes ---- */

static bool read_text(Machine *m, int length_bytes) {
    uint64_t length;
    const uint8_t *text;
    return take_number(m, (size_t)length_bytes, &length) && take(m, length, &text) &&
           push_node(m, (PickleNode){.kind = PICKLE_TEXT, .count = (int)length, .as.text = (const char *)text});
}

static bool skip(Machine *m, int n) {
    const uint8_t *skipped;
    return take(m, (size_t)n, &skipped);
}

static bool skip_leaf(Machine *m, int n) { return skip(m, n) && push_kind(m, PICKLE_LEAF); }

static bool skip_bytes(Machine *m, int length_bytes) {
    uint64_t length;
    const uint8_t *skipped;
    return take_number(m, (size_t)length_bytes, &length) && take(m, length, &skipped) && push_kind(m, PICKLE_LEAF);
}

static bool read_unsigned(Machine *m, int n) {
    uint64_t value;
    return take_number(m, (size_t)n, &value) && push_integer(m, (int64_t)value);
}

static bool read_signed(Machine *m, int n) {
    uint64_t value;
    return take_number(m, (size_t)n, &value) && push_integer(m, sign_extended(value, (size_t)n));
}

/* LONG1: a length byte, then that many bytes. Sizes and offsets have at most 64 bits. */
static bool read_long(Machine *m, int unused) {
    (void)unused;
    uint64_t n;
    return take_number(m, 1, &n) && (n <= 8 ? read_signed(m, (int)n) : skip_leaf(m, (int)n));
}

static bool put_at(Machine *m, int number_bytes) {
    uint64_t number;
    return take_number(m, (size_t)number_bytes, &number) && memo_put(m, number);
}

static bool put_next(Machine *m, int unused) {
    (void)unused;
    return memo_put(m, m->memo_count);
}

static bool get_at(Machine *m, int number_bytes) {
    uint64_t number;
    return take_number(m, (size_t)number_bytes, &number) && memo_get(m, number);
}

static const struct {
    uint8_t code;
    bool (*act)(Machine *m, int argument);
    int argument;
} opcodes[] = {
    {0x80, skip, 1},                      /* PROTO */
    {0x95, skip, 8},                      /* FRAME: a hint for buffering */
    {'(', push, MARK},                    /* MARK */
    {'}', push_kind, PICKLE_DICT},        /* EMPTY_DICT */
    {']', push_kind, PICKLE_LIST},        /* EMPTY_LIST */
    {')', push_kind, PICKLE_TUPLE},       /* EMPTY_TUPLE */
    {0x85, make_tuple, 1},                /* TUPLE1 */
    {0x86, make_tuple, 2},                /* TUPLE2 */
    {0x87, make_tuple, 3},                /* TUPLE3 */
    {'t', make_marked_tuple, 0},          /* TUPLE */
    {'s', add_item, PICKLE_DICT},         /* SETITEM */
    {'u', add_marked_items, PICKLE_DICT}, /* SETITEMS */
    {'a', add_item, PICKLE_LIST},         /* APPEND */
    {'e', add_marked_items, PICKLE_LIST}, /* APPENDS */
    {'X', read_text, 4},                  /* BINUNICODE */
    {0x8c, read_text, 1},                 /* SHORT_BINUNICODE */
    {'B', skip_bytes, 4},                 /* BINBYTES */
    {'C', skip_bytes, 1},                 /* SHORT_BINBYTES */
    {'J', read_signed, 4},                /* BININT */
    {'K', read_unsigned, 1},              /* BININT1 */
    {'M', read_unsigned, 2},              /* BININT2 */
    {0x8a, read_long, 0},                 /* LONG1 */
    {'G', skip_leaf, 8},                  /* BINFLOAT */
    {0x88, skip_leaf, 0},                 /* NEWTRUE */
    {0x89, skip_leaf, 0},                 /* NEWFALSE */
    {'N', skip_leaf, 0},                  /* NONE */
    {'q', put_at, 1},                     /* BINPUT */
    {'r', put_at, 4},                     /* LONG_BINPUT */
    {0x94, put_next, 0},                  /* MEMOIZE */
    {'h', get_at, 1},                     /* BINGET */
    {'j', get_at, 4},                     /* LONG_BINGET */
    {'c', read_global, 0},                /* GLOBAL */
    {0x93, stack_global, 0},              /* STACK_GLOBAL */
    {'Q', read_persistent, 0},            /* BINPERSID */
    {'R', reduce, 0},                     /* REDUCE */
    {'b', build, 0},                      /* BUILD */
};

static bool step(Machine *m, uint8_t code) {
    for (size_t i = 0; i < sizeof opcodes / sizeof *opcodes; i++)
        if (opcodes[i].code == code) return opcodes[i].act(m, opcodes[i].argument);
    char shown[8] = "";
    if (code > ' ' && code < 0x7f) snprintf(shown, sizeof shown, " (%c)", code);
    return error_set(m->error, "pickle: opcode 0x%02x%s at byte %zu is not one that a state dict needs", code, shown,
                     m->opcode_at);
}

static bool machine_run(Machine *m) {
    for (;;) {
        uint64_t opcode;
        m->opcode_at = m->at;
        if (!take_number(m, 1, &opcode)) return false;
        if (opcode == '.') break;
        if (!step(m, (uint8_t)opcode)) return false;
    }
    return pop(m, &m->pickle->root);
}

bool pickle_parse(const void *bytes, size_t size, Pickle *pickle, Error *error) {
    *pickle = (Pickle){0};
    if (size > PICKLE_SIZE_LIMIT)
        return error_set(error, "the pickle has %zu bytes; at most %d are read", size, PICKLE_SIZE_LIMIT);
    Machine machine = {.bytes = bytes, .size = size, .pickle = pickle, .error = error};
    bool ok = machine_run(&machine);
    pickle->size = machine.at;
    FREE(machine.stack, machine.memo);
    if (!ok) pickle_free(pickle);
    return ok;
}

const PickleNode *pickle_get(const Pickle *pickle, const PickleNode *dictionary, const char *key) {
    if (dictionary->kind != PICKLE_DICT) return NULL;
    for (int i = dictionary->count - 2; i >= 0; i -= 2) {
        const PickleNode *name = &pickle->nodes[dictionary->as.items[i]];
        if (name->kind == PICKLE_TEXT && (size_t)name->count == strlen(key) && !memcmp(name->as.text, key, strlen(key)))
            return &pickle->nodes[dictionary->as.items[i + 1]];
    }
    return NULL;
}

void pickle_free(Pickle *pickle) {
    for (int i = 0; i < pickle->count; i++) {
        PickleKind kind = pickle->nodes[i].kind;
        if (kind == PICKLE_TUPLE || kind == PICKLE_LIST || kind == PICKLE_DICT) free(pickle->nodes[i].as.items);
    }
    free(pickle->nodes);
    *pickle = (Pickle){0};
}
