#include "tests/cuda/schedules.h"

Rig rig;
static uint64_t hash; /* of all outputs of a check */

double error_in(DType type, int64_t terms, double roundings) {
    return sum_error(terms, roundings) + (type == DTYPE_F32 ? 0 : 2 * rounding_of(type));
}

void check_output(const char *what, Pair p, double tolerance) {
    float *got = pair_download(&rig, p);
    for (int64_t i = 0; i < tensor_numel(p.cuda); i++) {
        uint32_t bits;
        memcpy(&bits, &got[i], 4);
        hash = (hash ^ bits) * 0x100000001b3u;
    }
    free(got);
    expect_pair(&rig, what, p, tolerance);
    poison_scratch(&rig);
}

uint64_t run_check(void (*check)(DType), DType type) {
    uint64_t first = 0;
    if (!rig_has(&rig, type)) return 0;
    rig.cuda->half = type == DTYPE_F32 ? rig_half(&rig) : type;
    for (uint64_t seed = 0; seed < 4; seed++) {
        if (emulate_set_seed) emulate_set_seed(seed);
        hash = 0xcbf29ce484222325u;
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
