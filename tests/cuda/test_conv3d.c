/* The cuda device's three-dimensional convolutions against the cpu's, in f32, bf16 and f16, on a GPU or on the
 * emulator. Overwritten outputs start as NaN, accumulated ones as random numbers; sizes are no multiples of tiles and
 * packs, and arrays are not aligned to chunks. */
#include "kernels/cuda/emulate/emulate_control.h"
#include "tests/cuda/schedules.h"

/* Absent in a program for a real GPU. */
#pragma weak emulate_counts

static int64_t volume(int a, int b, int c) { return (int64_t)a * b * c; }

/* The multiplication of f32: exactly, in TF32 of numbers that TF32 can represent, or in TF32 of any numbers. */
static enum { EXACTLY, IN_TF32, ROUNDED_TO_TF32 } way;

static Pair some(DType type, int64_t rows, int64_t columns, bool shift) {
    Pair all = shift ? normal(type, rows * columns + 1, 0) : normal(type, rows, columns);
    if (way == IN_TF32) pair_for_tf32(&rig, all);
    return shift ? shifted(all, rows, columns) : all;
}

/* Returns the error bound of a sum of products of numbers of a type. The tensor cores cut sums off, always to one side:
 * a unit, 2 U, for as many products as they add at once, which is 4 on the oldest cards. Rounding to TF32 costs each
 * factor up to 2^-11, so a product 2^-10, and the square root of that many in a sum of random signs, which is as large
 * as the sum; 4 for how unevenly they fall. */
static double product_error(DType type, DType result, int64_t terms, double roundings) {
    return error_in(result, terms, roundings + (type == DTYPE_F32 && way == EXACTLY ? 0 : (double)terms / 2)) +
           (way == ROUNDED_TO_TF32 ? 4 * 0x1p-10 : 0);
}

/* cuDNN rounds a 16-bit sum before it is added to what was there. */
static bool rounds_sums(DType type) {
    return type != DTYPE_F32 && !strncmp(rig.cuda->convolutions(rig.cuda), "cuDNN ", 6);
}

static Pair none_yet(DType type, int64_t rows, int64_t columns, bool shift) {
    return shift ? shifted(poisoned(type, rows * columns + 1, 0), rows, columns) : poisoned(type, rows, columns);
}

/* `whole`: with all that is optional. Tolerances: products of 16-bit numbers are exact in f32. */
static void check_conv3d(DType type, int64_t samples, int64_t in, int64_t out, bool whole, bool shift, Convolution c) {
    int64_t taps = volume(c.taps[0], c.taps[1], c.taps[2]), rows = samples * volume(c.in[0], c.in[1], c.in[2]);
    int64_t tall =
        samples * volume(convolution_positions(c, 0), convolution_positions(c, 1), convolution_positions(c, 2));
    Pair x = some(type, rows, in, shift), w = some(type, out, in * taps, shift), bias = normal(type, out, 0);
    Pair y = none_yet(type, tall, out, shift), dy = some(type, tall, out, shift);
    Pair dx = none_yet(type, rows, in, shift), sum = some(type, rows, in, shift), none = pair_none();
    Pair dw = normal(DTYPE_F32, out, in * taps), dbias = normal(DTYPE_F32, out, 0);
    Pair b = whole ? bias : none, to = whole ? dx : none, db = whole ? dbias : none;
    conv3d_forward(rig.cpu, y.cpu, x.cpu, w.cpu, b.cpu, c);
    conv3d_forward(rig.cuda, y.cuda, x.cuda, w.cuda, b.cuda, c);
    check_output("conv3d_forward", y, product_error(type, type, in * taps, 1));
    conv3d_backward(rig.cpu, (LayerGradients){.dx = to.cpu, .dw = dw.cpu, .dbias = db.cpu}, dy.cpu, x.cpu, w.cpu, c,
                    false);
    conv3d_backward(rig.cuda, (LayerGradients){.dx = to.cuda, .dw = dw.cuda, .dbias = db.cuda}, dy.cuda, x.cuda, w.cuda,
                    c, false);
    if (whole) check_output("conv3d_backward dx", dx, product_error(type, type, out * taps, 0));
    /* Half a unit of the sum, of the size of the result and of what was there, a normal number, below 5. */
    double rounded = rounds_sums(type) ? 2 * rounding_of(type) : 0;
    check_output_least("conv3d_backward dw", dw, product_error(type, DTYPE_F32, tall, 2) + rounded,
                       rounded > 0 ? 5 : 0);
    if (whole) check_output("conv3d_backward dbias", dbias, sum_error(tall, 2));
    if (!whole) return;
    conv3d_backward(rig.cpu, (LayerGradients){.dx = sum.cpu, .dw = dw.cpu}, dy.cpu, x.cpu, w.cpu, c, true);
    conv3d_backward(rig.cuda, (LayerGradients){.dx = sum.cuda, .dw = dw.cuda}, dy.cuda, x.cuda, w.cuda, c, true);
    check_output_least("conv3d_backward dx, added", sum, product_error(type, type, out * taps, 1) + rounded,
                       rounded > 0 ? 5 : 0);
}

/* The kinds of convolutions of a residual network over time and space, of few positions. */
TEST_IN_EVERY_TYPE(of_the_network) {
    check_conv3d(type, 2, 2, 32, false, false, (Convolution){{21, 3, 4}, {7, 1, 1}, {1, 1, 1}, {3, 0, 0}});
    check_conv3d(type, 2, 32, 32, true, false, (Convolution){{13, 4, 3}, {3, 1, 1}, {2, 1, 1}, {1, 0, 0}});
    check_conv3d(type, 1, 32, 32, true, false, (Convolution){{4, 7, 6}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}});
    check_conv3d(type, 2, 32, 64, true, false, (Convolution){{3, 7, 6}, {3, 3, 3}, {1, 2, 2}, {1, 1, 1}});
    check_conv3d(type, 2, 32, 64, true, false, (Convolution){{3, 7, 6}, {1, 1, 1}, {1, 2, 2}, {0, 0, 0}});
    check_conv3d(type, 1, 64, 128, true, false, (Convolution){{2, 5, 5}, {3, 3, 3}, {1, 2, 2}, {1, 1, 1}});
}

TEST_IN_EVERY_TYPE(of_odd_sizes) {
    for (int shift = 0; shift < 2; shift++) {
        check_conv3d(type, 0, 8, 8, true, shift, (Convolution){{2, 3, 4}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}});
        check_conv3d(type, 1, 1, 1, true, shift, (Convolution){{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}});
        check_conv3d(type, 3, 8, 40, false, shift, (Convolution){{5, 4, 3}, {2, 3, 1}, {1, 1, 1}, {1, 2, 0}});
        check_conv3d(type, 2, 16, 67, true, shift, (Convolution){{6, 5, 9}, {2, 3, 1}, {3, 2, 4}, {0, 1, 0}});
        check_conv3d(type, 2, 9, 5, true, shift, (Convolution){{4, 9, 5}, {1, 4, 2}, {2, 3, 1}, {0, 3, 1}});
        check_conv3d(type, 1, 40, 24, true, shift, (Convolution){{3, 5, 5}, {1, 3, 5}, {2, 1, 3}, {1, 0, 2}});
    }
}

/* Positions enough that blocks share the sums over them. */
TEST_IN_EVERY_TYPE(with_shared_sums) {
    check_conv3d(type, 1, 8, 12, true, false, (Convolution){{31, 9, 7}, {3, 1, 1}, {1, 1, 1}, {1, 0, 0}});
}

/* Taps that share runs of x in shared memory: of several blocks, samples, steps, parts of the channels and of the
 * columns. No two rows that a matrix load reads at once are in the same banks. */
TEST_IN_16_BITS(with_runs) {
    int64_t before = emulate_counts ? emulate_counts().bank_conflicts : 0;
    check_conv3d(type, 2, 32, 32, true, false, (Convolution){{2, 9, 8}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}});
    check_conv3d(type, 1, 64, 40, true, false, (Convolution){{2, 9, 7}, {1, 3, 1}, {1, 1, 1}, {0, 1, 0}});
    check_conv3d(type, 1, 32, 72, true, false, (Convolution){{5, 6, 5}, {2, 1, 3}, {1, 1, 1}, {0, 0, 1}});
    if (emulate_counts) assert_int_equal(emulate_counts().bank_conflicts, before);
}

/* Runs with holes, because lines of the product end before those of x. What no run is for: it does not fit, begins
 * where no chunk may, has windows that reach out further than x, or too many taps. */
TEST_IN_16_BITS(with_odd_runs) {
    check_conv3d(type, 1, 32, 32, true, false, (Convolution){{3, 10, 12}, {1, 2, 3}, {1, 1, 1}, {0, 0, 0}});
    check_conv3d(type, 5, 32, 16, true, false, (Convolution){{9, 2, 3}, {2, 1, 2}, {1, 1, 1}, {0, 0, 0}});
    check_conv3d(type, 1, 32, 32, true, false, (Convolution){{1, 20, 18}, {1, 2, 2}, {1, 1, 1}, {0, 0, 0}});
    check_conv3d(type, 1, 32, 9, true, false, (Convolution){{1, 2, 45}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}});
    check_conv3d(type, 1, 32, 32, true, true, (Convolution){{1, 6, 5}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}});
    check_conv3d(type, 1, 32, 32, true, false, (Convolution){{1, 2, 3}, {3, 3, 3}, {1, 1, 1}, {2, 2, 2}});
    check_conv3d(type, 1, 32, 32, true, false, (Convolution){{2, 3, 3}, {5, 3, 3}, {1, 1, 1}, {2, 1, 1}});
    check_conv3d(type, 1, 32, 32, true, false, (Convolution){{1, 9, 4}, {1, 9, 2}, {1, 1, 1}, {0, 4, 0}});
}

/* Rows enough that blocks share the weights' sums over them, and the last has fewer than a step. */
TEST_IN_16_BITS(with_long_runs) {
    check_conv3d(type, 1, 32, 24, false, false, (Convolution){{11, 11, 10}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}});
}

/* f32 on the tensor cores, which shows in the bits. */
TEST(in_tf32) {
    if (cuda_state(rig.cuda)->capability < 80) skip();
    uint64_t exact = run_check(with_shared_sums_in, DTYPE_F32);
    rig.cuda->tf32 = true, way = ROUNDED_TO_TF32;
    assert_true(run_check(with_shared_sums_in, DTYPE_F32) != exact);
    way = IN_TF32;
    run_check(of_the_network_in, DTYPE_F32);
    run_check(of_odd_sizes_in, DTYPE_F32);
    rig.cuda->tf32 = false, way = EXACTLY;
}

/* A layer that a step records and repeats. */
typedef struct {
    Tensor x, w, y, dx, dw;
    Convolution c;
} Layer;

static void call_layer(void *argument) {
    const Layer *l = argument;
    conv3d_forward(rig.cuda, l->y, l->x, l->w, tensor_none(), l->c);
    conv3d_backward(rig.cuda, (LayerGradients){.dx = l->dx, .dw = l->dw}, l->y, l->x, l->w, l->c, false);
}

static void check_recorded(DType type, int64_t samples, int64_t in, int64_t out, Convolution c) {
    int64_t taps = volume(c.taps[0], c.taps[1], c.taps[2]), rows = samples * volume(c.in[0], c.in[1], c.in[2]);
    int64_t tall =
        samples * volume(convolution_positions(c, 0), convolution_positions(c, 1), convolution_positions(c, 2));
    Pair x = normal(type, rows, in), w = normal(type, out, in * taps), y = poisoned(type, tall, out);
    Pair dx = poisoned(type, rows, in), dw = poisoned(DTYPE_F32, out, in * taps), results[] = {y, dx, dw};
    const char *const names[] = {"y", "dx", "dw"};
    Layer layer = {x.cuda, w.cuda, y.cuda, dx.cuda, dw.cuda, c};
    float *direct[3];
    for (int call = 0; call < 3; call++) { /* directly, recorded, repeated */
        rig.cuda->clear(rig.cuda, dw.cuda.data, tensor_bytes(dw.cuda));
        rig.cuda->repeat(rig.cuda, &layer, sizeof layer, false, call_layer, &layer);
        for (int i = 0; i < 3; i++) {
            float *got = pair_download(&rig, results[i]);
            if (!call)
                direct[i] = got;
            else if (memcmp(got, direct[i], (size_t)tensor_numel(results[i].cuda) * sizeof *got))
                fail_msg("%s in %s of %lld to %lld channels, call %d: other bits than directly", names[i],
                         dtype_name(type), (long long)in, (long long)out, call + 1);
            if (call) free(got);
        }
    }
    for (int i = 0; i < 3; i++) free(direct[i]);
    rig_clear(&rig);
}

TEST(have_the_same_bits_when_they_are_recorded) {
    for (int t = 0; t < TYPES; t++) {
        if (!rig_has(&rig, types[t])) continue;
        rig.cuda->half = types[t] == DTYPE_F32 ? rig_half(&rig) : types[t];
        check_recorded(types[t], 2, 8, 16, (Convolution){{9, 7, 6}, {1, 1, 1}, {1, 2, 2}, {0, 0, 0}});
        if (emulate_set_seed) continue; /* a library may decide otherwise when it is recorded; the emulator has none */
        check_recorded(types[t], 2, 32, 32, (Convolution){{13, 4, 3}, {3, 1, 1}, {2, 1, 1}, {1, 0, 0}});
        check_recorded(types[t], 1, 32, 32, (Convolution){{4, 7, 6}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}});
        check_recorded(types[t], 2, 32, 64, (Convolution){{3, 7, 6}, {3, 3, 3}, {1, 2, 2}, {1, 1, 1}});
    }
}

int main(void) { return tests_run(open_rig, close_rig); }
