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

void run_in_types(void **state) {
    const TypedCheck *c = *state;
    for (int t = c->from; t < c->to; t++) run_check(c->check, types[t]);
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
