#include "tests/cuda/schedules.h"

Rig rig;
static const uint64_t HASH_BEGIN = 0xcbf29ce484222325u;
static uint64_t hash; /* of all outputs of a check */
static bool logs_bits;

double error_in(DType type, int64_t terms, double roundings) {
    return sum_error(terms, roundings) + (type == DTYPE_F32 ? 0 : 2 * rounding_of(type));
}

/* Writes the hash of an output to the file OUTPUT_BITS, for compare_bits.sh. */
static void log_bits(const char *what, DType type, uint64_t bits) {
    static FILE *file;
    const char *name = getenv("OUTPUT_BITS");
    if (!name || !logs_bits) return;
    if (!file) file = fopen(name, "w");
    if (!file) fail_msg("cannot write %s", name);
    fprintf(file, "%s in %s: %016llx\n", what, dtype_name(type), (unsigned long long)bits);
    fflush(file);
}

void check_output(const char *what, Pair p, double tolerance) { check_output_least(what, p, tolerance, 0); }

void check_output_least(const char *what, Pair p, double tolerance, double least) {
    float *got = pair_download(&rig, p);
    uint64_t mine = HASH_BEGIN;
    for (int64_t i = 0; i < tensor_numel(p.cuda); i++) {
        uint32_t bits;
        memcpy(&bits, &got[i], 4);
        mine = (mine ^ bits) * 0x100000001b3u;
    }
    free(got);
    hash = (hash ^ mine) * 0x100000001b3u;
    log_bits(what, p.cuda.dtype, mine);
    expect_pair_least(&rig, what, p, tolerance, least);
    poison_scratch(&rig);
}

/* OpCall.make: a pair, whose numbers do not begin at a pack if the call is shifted. */
static void make_pair(OpCall *call, OpArgument *a, const void *numbers) {
    int64_t n = a->rows * (a->columns ? a->columns : 1),
            shift = a->columns || call->size.shift > 1 ? call->size.shift > 0 : 0;
    bool is_float = a->type <= DTYPE_F16;
    Pair p = is_float ? poisoned(a->type, n + shift, 0) : pair_integers(&rig, numbers, n);
    if (is_float && shift) p = shifted(p, n, 0);
    if (is_float) memcpy(p.cpu.data, numbers, (size_t)n * 4);
    if (is_float) pair_upload(&rig, p);
    a->on[0] = rig_shaped(p.cpu.data, is_float ? DTYPE_F32 : a->type, a->rows, a->columns);
    a->on[1] = rig_shaped(p.cuda.data, a->type, a->rows, a->columns);
}

void op_on_card(int op, DType type, const char *changes) {
    OpCall call = {.device = rig.cuda, .side = 1, .type = type, .changes = changes, .make = make_pair};
    op_call(op, &call);
}

typedef struct {
    int op;
    const char *changes;
} WrongCall;

static void call_wrongly(void *argument) {
    const WrongCall *wrong = argument;
    op_on_card(wrong->op, DTYPE_F32, wrong->changes);
    rig.cuda->synchronize(rig.cuda);
}

void op_must_die(int op, const char *changes, const char *message) {
    char output[4096];
    if (!emulate_set_seed) skip();
    assert_int_not_equal(run_function(output, sizeof output, call_wrongly, &(WrongCall){op, changes}), 0);
    assert_contains(output, "CUDA: "); /* the kernel's message, printed by the host */
    assert_contains(output, message);
}

static void op_on_both(int op, DType type, const char *changes) {
    OpCall call = {.device = rig.cpu, .type = type, .changes = changes, .make = make_pair};
    op_call(op, &call);
    call.device = rig.cuda, call.side = 1;
    op_call(op, &call);
    for (int i = 0; i < call.n_arguments; i++) {
        const OpArgument *a = &call.arguments[i];
        char what[64];
        if (a->role == OP_INPUT) continue;
        snprintf(what, sizeof what, "%s %s", op_names[op], a->name);
        Tensor cpu = a->on[0], cuda = a->on[1];
        int64_t n = tensor_numel(cpu), rows = a->by == OP_BY_ROW ? a->rows : n;
        int64_t columns = a->by == OP_BY_ROW ? a->columns : a->by == OP_BY_ITSELF;
        DType type_of_bits =
            cuda.dtype == DTYPE_I32 ? DTYPE_F32 : cuda.dtype; /* indices are equal, and so their bits */
        Pair p = {rig_shaped(cpu.data, DTYPE_F32, rows, columns), rig_shaped(cuda.data, type_of_bits, rows, columns)};
        check_output(what, p, a->tolerance > 0 ? a->tolerance + error_in(a->type, 0, 0) : 0);
    }
    rig_clear(&rig);
}

/* Copies the alternative that a text begins with; returns the next one, NULL if it is the last. */
static const char *take_alternative(const char *text, char *to, size_t size) {
    size_t length = strcspn(text, "|");
    snprintf(to, size, "%.*s", (int)length, text);
    return text[length] ? text + length + 1 : NULL;
}

void ops_on_both(DType type, const char *operations, const char *changes, const char *with) {
    char first[256], second[256], both[512];
    for (const char *next = changes; next;) {
        next = take_alternative(next, first, sizeof first);
        for (const char *other = with; other;) {
            other = take_alternative(other, second, sizeof second);
            snprintf(both, sizeof both, "%s %s", second, first);
            for (const char *name = operations; *name; name += strspn(name, " ")) {
                size_t length = strcspn(name, " ");
                op_on_both(op_of_name(name, length), type, both);
                name += length;
            }
        }
    }
}

uint64_t run_check(void (*check)(DType), DType type) {
    const char *schedules = getenv("CHECK_SCHEDULES");
    uint64_t first = 0, count = schedules ? strtoull(schedules, NULL, 10) : 4;
    assert_true(count > 0);
    if (!rig_has(&rig, type)) return 0;
    rig.cuda->half = type == DTYPE_F32 ? rig_half(&rig) : type;
    for (uint64_t seed = 0; seed < count; seed++) {
        if (emulate_set_seed) emulate_set_seed(seed);
        hash = HASH_BEGIN;
        logs_bits = seed == 0;
        rig.draws = 0;
        check(type);
        rig_clear(&rig);
        if (seed && hash != first) fail_msg("in %s, seed %d gives other bits", dtype_name(type), (int)seed);
        first = hash;
    }
    return hash;
}

float *floats(Pair p) { return p.cpu.data; }

Pair shifted(Pair p, int64_t rows, int64_t columns) {
    return (Pair){rig_shaped((char *)p.cpu.data + 4, p.cpu.dtype, rows, columns),
                  rig_shaped((char *)p.cuda.data + dtype_size(p.cuda.dtype), p.cuda.dtype, rows, columns)};
}

int open_rig(void **state) {
    (void)state;
    rig = rig_open(DTYPE_BF16);
    return 0;
}

int close_rig(void **state) {
    (void)state;
    rig_close(&rig);
    return 0;
}
