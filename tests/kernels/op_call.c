/* Makes the calls of the table: sizes, changes, and the numbers of arguments. */
#include "tests/kernels/op_cases.h"

#include "kernels/augment.h"
#include "kernels/philox.h"
#include "tests/helpers.h"

int op_of_name(const char *name, size_t length) {
    for (int op = 0; op < OP_COUNT; op++)
        if (!strncmp(op_names[op], name, length) && !op_names[op][length]) return op;
    die("op_cases: there is no operation %.*s", (int)length, name);
    return -1;
}

/* Returns what stands behind the key and the mark in the first change of the key, NULL if there is none. */
static const char *change_of(const OpCall *call, const char *key, size_t length, char mark) {
    for (const char *at = call->changes; at && *at; at += strcspn(at, " "), at += strspn(at, " "))
        if (!strncmp(at, key, length) && at[length] == mark) return at + length + 1;
    return NULL;
}

static bool is_none(const OpCall *call, const char *name, size_t length) {
    const char *change = change_of(call, name, length, ':');
    return change && !strncmp(change, "none", 4);
}

void op_set_sizes(OpCall *call) {
    const char *found;
#define SET_SIZE(name, value)                                                                                          \
    found = change_of(call, #name, strlen(#name), '=');                                                                \
    call->size.name = found ? strtoll(found, NULL, 10) : value;
#define SET_NUMBER(name, value)                                                                                        \
    found = change_of(call, #name, strlen(#name), '=');                                                                \
    call->size.name = found ? strtof(found, NULL) : (float)value;
    FOR_EACH_OP_SIZE(SET_SIZE)
    FOR_EACH_OP_NUMBER(SET_NUMBER)
}

static OpArgument *find(OpCall *call, const char *name) {
    for (int i = 0; i < call->n_arguments; i++)
        if (!strcmp(call->arguments[i].name, name)) return &call->arguments[i];
    return NULL;
}

OpArgument *op_argument_of(OpCall *call, const char *name) {
    OpArgument *argument = find(call, name);
    if (!argument) die("op_cases: the call has no argument %s", name);
    return argument;
}

static void change_shape(OpArgument *a, const char *change) {
    char *end;
    for (DType type = 0; type < DTYPE_COUNT; type++)
        if (!strncmp(change, dtype_name(type), strlen(dtype_name(type)))) a->type = type;
    int64_t rows = strtoll(change, &end, 10);
    if (end == change) return;
    a->rows = rows;
    a->columns = *end == 'x' ? strtoll(end + 1, NULL, 10) : 0;
    if (*end == 'x' && !a->columns) a->columns = -1;
}

static int32_t index_of(const OpCall *call, uint64_t seed, int64_t i, int64_t limit) {
    if (!call->size.random) return (int32_t)(i % limit);
    return (int32_t)(philox_bits(seed, PURPOSE_TEST, 1, (uint64_t)i) % (uint32_t)limit);
}

/* Labels of odd rows: every fifth has none, every third is one of two largest logits. */
static int32_t target_of(const OpCall *call, int32_t id, int64_t i, int64_t classes) {
    if (!call->size.odd) return id;
    if (i % 5 == 1) return -1 - (int32_t)i;
    if (i % 3 == 2) id = (int32_t)(i % 2 ? classes / 3 : classes - 1);
    return i % 4 == 3 && id < classes / 2 ? (int32_t)(classes - 1) : id;
}

static int32_t draw_of(const OpCall *call, int64_t i) {
    AugmentDraws draws = {.scale = 1};
    int32_t words[AUGMENT_DRAW_WORDS];
    uint32_t sample = (uint32_t)(i / AUGMENT_DRAW_WORDS);
    if (call->size.augment)
        draws = (AugmentDraws){3, 0.9f, 1, AUGMENT_FLIP_X, 1, 23, 1, 0.5f, {9, sample}, {8, 2}, 1, {0}};
    memcpy(words, &draws, sizeof words);
    return words[i % AUGMENT_DRAW_WORDS];
}

static int32_t integer_of(const OpCall *call, const OpArgument *a, uint64_t seed, int64_t i, OpContent content,
                          double limit) {
    int64_t most = limit < 1 ? 1 : (int64_t)limit;
    const OpSize *s = &call->size;
    if (a->role == OP_OUTPUT) return -1; /* the bits of a NaN */
    switch (content) {
    case OP_CONSTANT:
        return (int32_t)limit;
    case OP_TARGETS:
        return target_of(call, index_of(call, seed, i, most), i, most);
    case OP_ROWS:
        if (s->odd && i % 7 == 6) return -1; /* no row */
        return (int32_t)(s->odd ? (a->rows - 1 - i) * s->skip + s->skip - 1 : i * s->skip);
    case OP_SHUFFLED:
        return (int32_t)((7 + 31 * i) % most);
    case OP_OFFSETS:
        return call->offsets[i];
    case OP_COUNTS:
        return (int32_t)((1 + i * 65540) % (1 << 23));
    case OP_DRAWS:
        return draw_of(call, i);
    default:
        return index_of(call, seed, i, most);
    }
}

static bool is_masked(int64_t i, int64_t classes) { return i / classes % 4 == 3 && i % classes < classes / 2; }

/* Logits of odd rows: every third has its largest twice, every fourth begins with as many of -infinity as whole threads
 * see. */
static float logit_of(const OpCall *call, float x, int64_t i, int64_t classes) {
    int64_t row = i / classes, column = i % classes;
    x *= call->size.spread;
    if (!call->size.odd) return x;
    if (is_masked(i, classes)) return -INFINITY;
    return row % 3 == 2 && (column == classes / 3 || column == classes - 1) ? 5 * call->size.spread : x;
}

static float number_of(const OpCall *call, const OpArgument *a, uint64_t seed, int64_t i, OpContent content,
                       double limit) {
    if (a->role == OP_OUTPUT || a->role == OP_FLAG) return NAN;
    if (content == OP_CONSTANT) return (float)limit;
    if (content == OP_TRUTH) return i % 3 == 0;
    if (content == OP_FRACTION) return (float)(philox_bits(seed, PURPOSE_TEST, 0, (uint64_t)i) >> 8) * 0x1p-24f;
    float x = philox_normal(seed, PURPOSE_TEST, 0, (uint64_t)i);
    if (content == OP_HALVES) return roundf(2 * x) / 2;
    if (content == OP_AROUND) return call->size.spread * x + call->size.center;
    if (content == OP_BINARY && call->size.odd && i % 7 == 6) return i % 2 ? 65504 : -80;
    if (content == OP_BINARY) return call->size.spread * x;
    if (content == OP_SHARES)
        return call->size.odd && (is_masked(i, a->columns) || i / a->columns % 7 == 6) ? 0 : fabsf(x);
    if (content == OP_POSITIVE) return fabsf(x) + 0x1p-8f;
    return content == OP_LOGITS ? logit_of(call, x, i, a->columns) : x;
}

/* Fills 4 bytes of each number, as its content says and then as the changes do. Valid until the next call. */
static const void *numbers_of(const OpCall *call, const OpArgument *a, OpContent content, double limit) {
    static union {
        float f;
        int32_t i;
    } * numbers;
    static int64_t most;
    int64_t n = a->rows * (a->columns < 0 ? 0 : a->columns ? a->columns : 1);
    uint64_t seed = hash_bytes(HASH_START, a->name, strlen(a->name));
    bool is_float = a->type <= DTYPE_F16;
    if (n >= most) numbers = xrealloc(numbers, (size_t)(most = n + 1024) * sizeof *numbers);
    for (int64_t i = 0; i < n; i++)
        if (is_float)
            numbers[i].f = number_of(call, a, seed, i, content, limit);
        else
            numbers[i].i = integer_of(call, a, seed, i, content, limit);
    char *end;
    const char *change = change_of(call, a->name, strlen(a->name), '[');
    int64_t at = change ? strtoll(change, &end, 10) : n;
    if (at < n && is_float) numbers[at].f = strtof(end + 2, NULL);
    if (at < n && !is_float) numbers[at].i = (int32_t)strtol(end + 2, NULL, 10);
    return numbers;
}

OpArgument *op_argument(OpCall *call, const char *name, OpArgument like, OpContent content, double limit) {
    const char *dot = strchr(name, '.'), *change = change_of(call, name, strlen(name), ':');
    char other[sizeof like.name];
    if (is_none(call, name, strlen(name)) || (dot && is_none(call, name, (size_t)(dot - name)))) return NULL;
    if (change && sscanf(change, "@%23s", other) == 1) {
        name = other, content = OP_NORMAL, change = NULL;
        if (like.role != OP_INPUT) like.role = OP_CHANGED;
    }
    OpArgument *a = find(call, name);
    if (a && a->role == OP_INPUT && like.role != OP_INPUT) a->role = OP_CHANGED, a->tolerance = like.tolerance;
    if (a) return a;
    if (call->n_arguments == OP_MAX_ARGUMENTS) die("op_cases: more than %d arguments", OP_MAX_ARGUMENTS);
    a = &call->arguments[call->n_arguments++];
    *a = like;
    snprintf(a->name, sizeof a->name, "%s", name);
    if (change) change_shape(a, change);
    call->make(call, a, call->is_blank ? NULL : numbers_of(call, a, content, limit));
    return a;
}

void op_call(int op, OpCall *call) {
    op_set_sizes(call);
    op_cases[op]->call(call);
}

bool op_has_16_bits(int op) {
    Device *dry = dry_device_open();
    OpCall call = {.device = dry, .type = DTYPE_BF16, .make = op_make_in_arena};
    Arena arena = arena_open(dry, 0, "test");
    bool has = false;
    dry->half = DTYPE_BF16;
    call.owner = &arena;
    op_call(op, &call);
    for (int i = 0; i < call.n_arguments; i++) has |= call.arguments[i].type == DTYPE_BF16;
    arena_close(&arena);
    device_close(dry);
    return has;
}

void op_make_in_arena(OpCall *call, OpArgument *a, const void *numbers) {
    Arena *arena = call->owner;
    Tensor t = a->columns ? arena_2d(arena, a->type, a->rows, a->columns) : arena_1d(arena, a->type, a->rows);
    call->device->upload(call->device, t.data, numbers, tensor_bytes(t));
    call->device->synchronize(call->device);
    a->on[0] = a->on[1] = t;
}
