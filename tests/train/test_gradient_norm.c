/* The norm of gradients that is summed while a pass finishes them: the bits of a norm that is summed at once. */
#include "train/gradient_norm.h"

#include "kernels/ops_table.h"
#include "kernels/philox.h"
#include "tests/cpu_devices.h"
#include "tests/norm.h"
#include "tests/test.h"

enum { ALL = 9000000, SEGMENTS_OF_TEST = 4 };

static const Segment segments[SEGMENTS_OF_TEST] = {{.begin = 5, .end = 2500000},
                                                   {.begin = 2500016, .end = 7000001},
                                                   {.begin = 8999990, .end = ALL},
                                                   {.begin = 7000016, .end = 8999000}};

/* The ranges that a pass tells of, each of which it has just finished. */
typedef struct {
    const char *what;
    int64_t ranges[8][2];
    int n, early; /* ranges; calls of sum_squares before the pass has returned */
} Told;

static const Told told[] = {
    {"nothing", {{0}}, 0, 0},
    {"all, in large pieces", {{6000000, ALL}, {3000000, 6000000}, {0, 3000000}}, 3, 3},
    {"small pieces, which are summed together", {{8000000, ALL}, {7000000, 8000000}, {5900000, 7000000}}, 3, 1},
    {"too little", {{8000000, ALL}}, 1, 0},
    {"two stacks with a gap", {{5000000, 8000000}, {100, 4000000}}, 2, 2},
    {"less than a part, and much below", {{8999000, ALL}, {2000, 8999000}}, 2, 1},
    {"more stacks than are remembered",
     {{8900000, ALL}, {8800000, 8890000}, {8700000, 8790000}, {8600000, 8690000}, {10, 8590000}},
     5,
     0},
};

/* Gradients are NaN until the pass finishes them; those whose squares must have been summed become NaN again. */
static void check(Device *device, const Told *t, const float *final) {
    float *flat = xaligned(ALL * sizeof *flat), norm, want;
    Tensor gradients = tensor_1d(flat, DTYPE_F32, ALL), none = tensor_none();
    memcpy(flat, final, ALL * sizeof *flat);
    global_norm(device, tensor_1d(&want, DTYPE_F32, 1), gradients, none, segments, SEGMENTS_OF_TEST);
    GradientNorm g = gradient_norm_open(device, gradients, segments, SEGMENTS_OF_TEST);
    for (int step = 0; step < 2; step++) { /* the second begins anew */
        for (int64_t i = 0; i < ALL; i++) flat[i] = NAN;
        device_reset_counters(device);
        gradient_norm_begin(&g);
        for (int i = 0; i < t->n; i++) {
            const int64_t *range = t->ranges[i];
            memcpy(flat + range[0], final + range[0], (size_t)(range[1] - range[0]) * sizeof *flat);
            int64_t before = device->counters[OP_sum_squares].calls;
            gradient_norm_finished(&g, range[0], range[1]);
            if (device->counters[OP_sum_squares].calls == before) continue;
            int64_t end = range[1] - 2 * NORM_PIECE;
            for (int64_t e = range[0] + NORM_PIECE; e < end; e++) flat[e] = NAN;
        }
        if (device->counters[OP_sum_squares].calls != t->early)
            fail_msg("%s: %lld early sums", t->what, (long long)device->counters[OP_sum_squares].calls);
        for (int64_t e = 0, i; e < ALL; e++) { /* what was never told of is final now */
            for (i = 0; i < t->n && !(e >= t->ranges[i][0] && e < t->ranges[i][1]); i++) continue;
            if (i == t->n) flat[e] = final[e];
        }
        gradient_norm_finish(&g, tensor_1d(&norm, DTYPE_F32, 1), none);
        if (!t->early) assert_int_equal(device->counters[OP_sum_squares].calls, 1);
        if (memcmp(&norm, &want, sizeof norm)) fail_msg("%s: %.9g, want %.9g", t->what, (double)norm, (double)want);
        assert_true(device->counters[OP_sum_squares].bytes == 4.0 * (2499995 + 4499985 + 10 + 1998984));
    }
    gradient_norm_close(&g);
    free(flat);
}

TEST(a_norm_has_the_same_bits_whenever_it_is_summed) {
    float *final = xaligned(ALL * sizeof *final);
    for (int64_t i = 0; i < ALL; i++) final[i] = philox_normal(5, PURPOSE_TEST, 0, (uint64_t)i % 99991);
    for (size_t i = 0; i < sizeof told / sizeof *told; i++) check(devices[0], &told[i], final);
    free(final);
}

int main(void) { return tests_run(open_devices, close_devices); }
