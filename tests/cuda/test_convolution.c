/* The cuda device's operations of convolutional networks against the cpu's: windows in rows, batch normalisation,
 * maxima of pairs of frames, leaky ReLU, means of sequences; in f32, bf16 and f16, on a GPU or on the emulator.
 * Overwritten outputs start as NaN, accumulated ones as random numbers; sizes are no multiples of packs and blocks, and
 * arrays are not aligned to packs. */
#include "tests/cuda/schedules.h"

/* Windows. */

static void check_unfold(DType type, int64_t sequences, int64_t c, Window w, bool shift) {
    int64_t rows = sequences * w.length, wide = c * w.taps, tall = sequences * window_positions(w);
    Pair x = shift ? shifted(normal(type, rows * c + 1, 0), rows, c) : normal(type, rows, c);
    Pair y = shift ? shifted(poisoned(type, tall * wide + 1, 0), tall, wide) : poisoned(type, tall, wide);
    unfold_forward(rig.cpu, y.cpu, x.cpu, w);
    unfold_forward(rig.cuda, y.cuda, x.cuda, w);
    check_output("unfold_forward", y, 0);
    Pair dy = shift ? shifted(normal(type, tall * wide + 1, 0), tall, wide) : normal(type, tall, wide);
    Pair dx = shift ? shifted(poisoned(type, rows * c + 1, 0), rows, c) : poisoned(type, rows, c);
    unfold_backward(rig.cpu, dx.cpu, dy.cpu, w);
    unfold_backward(rig.cuda, dx.cuda, dy.cuda, w);
    check_output("unfold_backward", dx, error_in(type, w.taps, 0));
}

static void check_windows(DType type) {
    static const struct {
        int64_t sequences, c;
        Window window;
    } cases[] = {
        {0, 8, {5, 3, 1, 1}},   {1, 1, {1, 1, 1, 0}},   {3, 1, {201, 7, 2, 3}},
        {5, 64, {25, 3, 2, 1}}, {2, 35, {13, 3, 1, 1}}, {3, 40, {26, 1, 2, 0}},
        {2, 24, {9, 2, 3, 0}},  {1, 8, {2, 9, 4, 7}},   {7, 9, {11, 5, 5, 2}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int shift = 0; shift < 2; shift++)
            check_unfold(type, cases[i].sequences, cases[i].c, cases[i].window, shift);
}

/* Batch normalisation. */

/* n rows of normal numbers around `center` with a spread of 1.5. */
static Pair rows_around(DType type, int64_t n, int64_t c, bool shift, float center) {
    Pair x = shift ? shifted(normal(type, n * c + 1, 0), n, c) : normal(type, n, c);
    for (int64_t i = 0; i < n * c; i++) floats(x)[i] = floats(x)[i] * 1.5f + center;
    pair_upload(&rig, x);
    return x;
}

/* The mean is rounded to a float: where it is `center` deviations large, y is wrong by as many roundings. */
static void check_batchnorm_forward(DType type, Pair x, Pair mean, Pair rstd, Pair gain, double center) {
    int64_t n = x.cpu.dims[0], c = x.cpu.dims[1];
    Pair bias = normal(DTYPE_F32, c, 0), running_mean = normal(DTYPE_F32, c, 0);
    Pair running_var = rows_around(DTYPE_F32, c, 1, false, 7), y = poisoned(type, n, c);
    running_var.cpu = tensor_1d(running_var.cpu.data, DTYPE_F32, c);
    running_var.cuda = tensor_1d(running_var.cuda.data, DTYPE_F32, c);
    for (int time = 0; time < 2; time++) {
        Pair m = time ? running_mean : pair_none(), v = time ? running_var : pair_none();
        batchnorm_forward(rig.cpu, y.cpu, (BatchStatistics){mean.cpu, rstd.cpu, m.cpu, v.cpu, 0.1f}, x.cpu, gain.cpu,
                          bias.cpu);
        batchnorm_forward(rig.cuda, y.cuda, (BatchStatistics){mean.cuda, rstd.cuda, m.cuda, v.cuda, 0.1f}, x.cuda,
                          gain.cuda, bias.cuda);
        check_output("batchnorm_forward mean", mean, sum_error(n, 8));
        check_output("batchnorm_forward rstd", rstd, sum_error(n, 8));
        check_output("batchnorm_forward y", y, error_in(type, n, 12 + 2 * center));
    }
    check_output("batchnorm_forward running_mean", running_mean, sum_error(n, 8));
    check_output("batchnorm_forward running_var", running_var, sum_error(n, 16));
    pair_upload(&rig, running_mean);
    pair_upload(&rig, running_var);
    batchnorm_apply(rig.cpu, y.cpu, x.cpu, running_mean.cpu, running_var.cpu, gain.cpu, bias.cpu);
    batchnorm_apply(rig.cuda, y.cuda, x.cuda, running_mean.cuda, running_var.cuda, gain.cuda, bias.cuda);
    check_output("batchnorm_apply y", y, error_in(type, 0, 12 + 2 * center));
}

static void check_batchnorm(DType type, int64_t n, int64_t c, bool shift, float center) {
    Pair x = rows_around(type, n, c, shift, center), gain = normal(DTYPE_F32, c, 0);
    Pair mean = poisoned(DTYPE_F32, c, 0), rstd = poisoned(DTYPE_F32, c, 0);
    check_batchnorm_forward(type, x, mean, rstd, gain, (double)center);
    pair_upload(&rig, mean);
    pair_upload(&rig, rstd);
    Pair dy = shift ? shifted(normal(type, n * c + 1, 0), n, c) : normal(type, n, c), dx = poisoned(type, n, c);
    Pair dgain = normal(DTYPE_F32, c, 0), dbias = normal(DTYPE_F32, c, 0);
    for (int time = 0; time < 2; time++) { /* the second in place */
        Pair to = time ? dy : dx;
        batchnorm_backward(rig.cpu, (NormGradients){.dx = to.cpu, .dgain = dgain.cpu, .dbias = dbias.cpu}, dy.cpu,
                           x.cpu, mean.cpu, rstd.cpu, gain.cpu);
        batchnorm_backward(rig.cuda, (NormGradients){.dx = to.cuda, .dgain = dgain.cuda, .dbias = dbias.cuda}, dy.cuda,
                           x.cuda, mean.cuda, rstd.cuda, gain.cuda);
        /* of two rows nothing is left but roundings */
        if (n > 2) check_output("batchnorm_backward dx", to, error_in(type, n, 32));
        check_output("batchnorm_backward dgain", dgain, sum_error(n, 16));
        check_output("batchnorm_backward dbias", dbias, sum_error(n, 4));
    }
}

static void check_batchnorms(DType type) {
    static const int64_t sizes[][2] = {{2, 9}, {300, 3}, {77, 35}, {650, 64}, {41, 264}, {33, 1280}, {5000, 24}};
    for (int i = 0; i < 7; i++) check_batchnorm(type, sizes[i][0], sizes[i][1], i == 3, 0.5f);
    check_batchnorm(type, 650, 64, false, 0.5f);
    check_batchnorm(type, 900, 32, false, 100);
}

/* Maxima of pairs of frames: the same bits, ties and all; numbers are few, so that there are ties. */

static void check_pool(DType type, int64_t samples, int64_t frames, int64_t plane, int64_t c, bool shift) {
    int64_t rows = samples * frames * plane, tall = samples * (frames / 2) * plane;
    Pair x = shift ? shifted(normal(type, rows * c + 1, 0), rows, c) : normal(type, rows, c);
    for (int64_t i = 0; i < rows * c; i++) floats(x)[i] = roundf(floats(x)[i] * 2);
    pair_upload(&rig, x);
    Pair y = poisoned(type, tall, c), dx = poisoned(type, rows, c);
    Pair dy = shift ? shifted(normal(type, tall * c + 1, 0), tall, c) : normal(type, tall, c);
    max_pool_forward(rig.cpu, y.cpu, x.cpu, frames, plane);
    max_pool_forward(rig.cuda, y.cuda, x.cuda, frames, plane);
    check_output("max_pool_forward", y, 0);
    max_pool_backward(rig.cpu, dx.cpu, dy.cpu, x.cpu, frames, plane);
    max_pool_backward(rig.cuda, dx.cuda, dy.cuda, x.cuda, frames, plane);
    check_output("max_pool_backward", dx, 0);
}

static void check_pools(DType type) {
    static const int64_t sizes[][4] = {{0, 2, 3, 8}, {1, 1, 2, 8}, {3, 6, 9, 64}, {2, 7, 5, 24}, {3, 5, 3, 11}};
    for (int i = 0; i < 5; i++)
        for (int shift = 0; shift < 2; shift++)
            check_pool(type, sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3], shift);
}

/* Leaky ReLU. */

static void check_leaky(DType type) {
    for (int shift = 0; shift < 2; shift++) {
        int64_t n = 77, c = 35;
        Pair x = shift ? shifted(normal(type, n * c + 1, 0), n, c) : normal(type, n, c), dy = normal(type, n, c);
        Pair y = poisoned(type, n, c), dx = poisoned(type, n, c);
        leaky_relu_forward(rig.cpu, y.cpu, x.cpu, 0.01f);
        leaky_relu_forward(rig.cuda, y.cuda, x.cuda, 0.01f);
        check_output("leaky_relu_forward", y, error_in(type, 0, 2));
        leaky_relu_backward(rig.cpu, dx.cpu, dy.cpu, x.cpu, 0.01f);
        leaky_relu_backward(rig.cuda, dx.cuda, dy.cuda, x.cuda, 0.01f);
        check_output("leaky_relu_backward", dx, error_in(type, 0, 2));
    }
}

/* Means of sequences. */

static void check_means(DType type) {
    static const int64_t sizes[][3] = {{0, 3, 8}, {1, 1, 1}, {5, 13, 256}, {3, 101, 35}, {2, 7, 264}};
    for (int i = 0; i < 5; i++)
        for (int shift = 0; shift < 2; shift++) {
            int64_t s = sizes[i][0], length = sizes[i][1], c = sizes[i][2], n = s * length;
            Pair x = shift ? shifted(normal(type, n * c + 1, 0), n, c) : normal(type, n, c);
            Pair y = poisoned(type, s, c), dy = normal(type, s, c);
            Pair dx = shift ? shifted(poisoned(type, n * c + 1, 0), n, c) : poisoned(type, n, c);
            mean_rows_forward(rig.cpu, y.cpu, x.cpu, length);
            mean_rows_forward(rig.cuda, y.cuda, x.cuda, length);
            check_output("mean_rows_forward", y, error_in(type, length, 4));
            mean_rows_backward(rig.cpu, dx.cpu, dy.cpu, length);
            mean_rows_backward(rig.cuda, dx.cuda, dy.cuda, length);
            check_output("mean_rows_backward", dx, error_in(type, 0, 4));
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_in_every_type(windows, check_windows), test_in_every_type(batchnorm, check_batchnorms),
        test_in_every_type(pools, check_pools),     test_in_every_type(leaky, check_leaky),
        test_in_every_type(means, check_means),
    };
    return cmocka_run_group_tests(tests, open_rig, close_rig);
}
