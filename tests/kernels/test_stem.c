/* The temporal stem on every instruction set of the processor and with 1, 2 and 3 threads. It is compared with a
 * reference in double, written layer by layer, whose gradients are checked by central differences; and with the
 * separate operations. */
#include "tests/cpu_devices.h"
#include "tests/tolerance.h"

#include "kernels/ops_table.h"
#include "kernels/philox.h"

static const float slope = 0.01f;

typedef struct {
    int64_t samples, frames, plane, c, o;
} Sizes;

/* The numbers of one tensor: as floats for the devices, and in double. */
typedef struct {
    int64_t rows, columns, n;
    float *f;
    double *d;
} Numbers;

static Tensor tensor_of(Numbers t) {
    return t.columns ? tensor_2d(t.f, DTYPE_F32, t.rows, t.columns) : tensor_1d(t.f, DTYPE_F32, t.rows);
}

static Numbers numbers(int64_t rows, int64_t columns) {
    int64_t n = rows * (columns ? columns : 1);
    Numbers t = {rows, columns, n, xcalloc((size_t)n + 2, sizeof(float)), xcalloc((size_t)n + 1, sizeof(double))};
    return t;
}

static uint64_t draws;
static Numbers normal(int64_t rows, int64_t columns) {
    Numbers t = numbers(rows, columns);
    draws++;
    for (int64_t i = 0; i < t.n; i++) t.d[i] = (double)(t.f[i] = philox_normal(draws, PURPOSE_TEST, 0, (uint64_t)i));
    return t;
}

static Numbers poisoned(int64_t rows, int64_t columns) {
    Numbers t = numbers(rows, columns);
    for (int64_t i = 0; i < t.n; i++) t.f[i] = NAN;
    return t;
}

/* All tensors of a problem, inputs and outputs. */
typedef struct {
    Sizes size;
    Numbers x, w, gain, bias, w2, dy, y, mean, rstd, moments, dw, dgain, dbias, dw2;
    double *s, *v, *a, *variance; /* intermediate values of the reference */
} Problem;

static int64_t halved(Sizes z) { return stem_frames((Stem){z.frames, z.plane, slope}); }

/* Makes a problem. The second input channel is 0 or 1 and the same in all frames. Its weights for the first output
 * channel add up to 0, so that the variance there comes almost only from the first input channel. */
static Problem problem_of(Sizes z) {
    int64_t n = z.samples * z.frames * z.plane, m = z.samples * halved(z) * z.plane;
    Problem p = {.size = z, .x = normal(n, 2), .w = normal(z.c, 14), .gain = normal(z.c, 0), .bias = normal(z.c, 0)};
    p.w2 = normal(z.o, z.c * 3), p.dy = normal(m, z.o), p.y = poisoned(m, z.o);
    p.mean = poisoned(z.c, 0), p.rstd = poisoned(z.c, 0), p.moments = poisoned(STEM_MOMENTS, 0);
    p.dw = normal(z.c, 14), p.dgain = normal(z.c, 0), p.dbias = normal(z.c, 0), p.dw2 = normal(z.o, z.c * 3);
    for (int64_t i = 0; i < n; i++) {
        int64_t column = i / (z.frames * z.plane) * z.plane + i % z.plane;
        p.x.d[2 * i + 1] = (double)(p.x.f[2 * i + 1] = column % 3 ? 1 : 0);
    }
    for (int k = 7; k < 14; k++) p.w.d[k] = (double)(p.w.f[k] = k < 13 ? (k % 2 ? 1 : -1) : 0);
    p.s = xcalloc((size_t)(n * z.c) + 1, sizeof(double)), p.v = xcalloc((size_t)(n * z.c) + 1, sizeof(double));
    p.a = xcalloc((size_t)(n * z.c) + 1, sizeof(double)), p.variance = xcalloc((size_t)z.c, sizeof(double));
    return p;
}

static void close_problem(Problem *p) {
    Numbers *all[] = {&p->x,    &p->w,    &p->gain,    &p->bias, &p->w2,    &p->dy,    &p->y,
                      &p->mean, &p->rstd, &p->moments, &p->dw,   &p->dgain, &p->dbias, &p->dw2};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]->f), free(all[i]->d);
    free(p->s), free(p->v), free(p->a), free(p->variance);
}

/* Returns the row of x or s at (sample, frame, position); -1 if there is no such frame. */
static int64_t row_at(Sizes z, int64_t sample, int64_t frame, int64_t position) {
    return frame < 0 || frame >= z.frames ? -1 : (sample * z.frames + frame) * z.plane + position;
}

static void split_row(int64_t row, int64_t frames, int64_t plane, int64_t *sample, int64_t *frame, int64_t *position) {
    *position = row % plane, *frame = row / plane % frames, *sample = row / plane / frames;
}

/* Computes y, mean and variance from x, w, gain, bias and w2 in double. */
static void reference_forward(Problem *p) {
    Sizes z = p->size;
    int64_t n = z.samples * z.frames * z.plane, sample, frame, position;
    memset(p->s, 0, (size_t)(n * z.c) * sizeof(double));
    memset(p->y.d, 0, (size_t)p->y.n * sizeof(double));
    for (int64_t row = 0; row < n; row++) {
        split_row(row, z.frames, z.plane, &sample, &frame, &position);
        for (int64_t c = 0; c < z.c; c++)
            for (int64_t k = 0; k < 14; k++) {
                int64_t seen = row_at(z, sample, frame - 3 + k % 7, position);
                if (seen >= 0) p->s[row * z.c + c] += p->w.d[c * 14 + k] * p->x.d[2 * seen + k / 7];
            }
    }
    for (int64_t c = 0; c < z.c; c++) {
        double mean = 0, variance = 0;
        for (int64_t row = 0; row < n; row++) mean += p->s[row * z.c + c] / (double)n;
        for (int64_t row = 0; row < n; row++) variance += pow(p->s[row * z.c + c] - mean, 2) / (double)n;
        p->mean.d[c] = mean, p->variance[c] = variance, p->rstd.d[c] = 1 / sqrt(variance + 1e-5);
        for (int64_t row = 0; row < n; row++) {
            double v = (p->s[row * z.c + c] - mean) * p->rstd.d[c] * p->gain.d[c] + p->bias.d[c];
            p->v[row * z.c + c] = v;
            p->a[row * z.c + c] = v > 0 ? v : (double)slope * v;
        }
    }
    for (int64_t row = 0; row < p->y.rows; row++) {
        split_row(row, halved(z), z.plane, &sample, &frame, &position);
        for (int64_t k = 0; k < 3; k++) {
            int64_t seen = row_at(z, sample, 2 * frame - 1 + k, position);
            for (int64_t i = 0; i < z.o * z.c && seen >= 0; i++)
                p->y.d[row * z.o + i / z.c] += p->w2.d[i * 3 + k] * p->a[seen * z.c + i % z.c];
        }
    }
}

/* Adds the gradients of the sum of dy y to dw, dgain, dbias and dw2, from the values that the forward has left. */
static void reference_backward(Problem *p) {
    Sizes z = p->size;
    int64_t n = z.samples * z.frames * z.plane, sample, frame, position;
    double *g = xcalloc((size_t)(n * z.c) + 1, sizeof *g);
    for (int64_t row = 0; row < p->dy.rows; row++) {
        split_row(row, halved(z), z.plane, &sample, &frame, &position);
        for (int64_t k = 0; k < 3; k++) {
            int64_t seen = row_at(z, sample, 2 * frame - 1 + k, position);
            for (int64_t i = 0; i < z.o * z.c && seen >= 0; i++) {
                double up = p->dy.d[row * z.o + i / z.c];
                p->dw2.d[i * 3 + k] += up * p->a[seen * z.c + i % z.c];
                g[seen * z.c + i % z.c] += up * p->w2.d[i * 3 + k];
            }
        }
    }
    for (int64_t c = 0; c < z.c; c++) {
        double sum = 0, dot = 0, mean = p->mean.d[c], rstd = p->rstd.d[c];
        for (int64_t row = 0; row < n; row++) {
            double *up = &g[row * z.c + c];
            if (!(p->v[row * z.c + c] > 0)) *up *= (double)slope;
            sum += *up, dot += *up * (p->s[row * z.c + c] - mean) * rstd;
        }
        p->dbias.d[c] += sum, p->dgain.d[c] += dot;
        for (int64_t row = 0; row < n; row++) {
            double there = (p->s[row * z.c + c] - mean) * rstd;
            double ds = p->gain.d[c] * rstd * (g[row * z.c + c] - sum / (double)n - there * dot / (double)n);
            split_row(row, z.frames, z.plane, &sample, &frame, &position);
            for (int64_t k = 0; k < 14; k++) {
                int64_t seen = row_at(z, sample, frame - 3 + k % 7, position);
                if (seen >= 0) p->dw.d[c * 14 + k] += ds * p->x.d[2 * seen + k / 7];
            }
        }
    }
    free(g);
}

static double loss_of(Problem *p) {
    double sum = 0;
    reference_forward(p);
    for (int64_t i = 0; i < p->y.n; i++) sum += p->dy.d[i] * p->y.d[i];
    return sum;
}

/* Compares the gradients of the reference with central differences in double. A loss is a sum of 320 products of size 1
 * to 10, with an error of about 1e-13; a difference has this error over 2 h. h^2 times the third derivative is smaller.
 * No kink is within h. */
TEST(the_reference_has_the_gradients_of_its_loss) {
    Problem p = problem_of((Sizes){2, 9, 4, 8, 8});
    Numbers *of[] = {&p.w, &p.gain, &p.bias, &p.w2}, *gradients[] = {&p.dw, &p.dgain, &p.dbias, &p.dw2};
    for (int i = 0; i < 4; i++) memset(gradients[i]->d, 0, (size_t)gradients[i]->n * sizeof(double));
    reference_forward(&p);
    reference_backward(&p);
    for (int i = 0; i < 4; i++)
        for (int64_t j = 0; j < of[i]->n; j += 1 + of[i]->n / 16) {
            const double h = 1e-6, at = of[i]->d[j];
            of[i]->d[j] = at + h;
            double above = loss_of(&p);
            of[i]->d[j] = at - h;
            double difference = (above - loss_of(&p)) / (2 * h);
            of[i]->d[j] = at;
            assert_near(difference, gradients[i]->d[j], 1e-7);
        }
    close_problem(&p);
}

static uint64_t hash;

static void expect(const char *what, Numbers got, double tolerance) {
    double largest = 0;
    for (int64_t i = 0; i < got.n; i++) largest = fmax(largest, fabs(got.d[i]));
    for (int64_t i = 0; i < got.n; i++) {
        uint32_t bits;
        memcpy(&bits, &got.f[i], 4);
        hash = (hash ^ bits) * 0x100000001b3u;
        if (!(fabs((double)got.f[i] - got.d[i]) <= tolerance * largest))
            fail_msg("%s, element %lld: %.9g, expected %.9g, largest %.3g, tolerance %.3g", what, (long long)i,
                     (double)got.f[i], got.d[i], largest, tolerance);
    }
}

/* Products of windows are summed as floats over 32 frames of a column, everything else is double: at most 33 roundings
 * of sums of absolute values. This bounds the error of w' Sigma w even where terms cancel. */
static void expect_statistics(const Problem *p, Numbers running_mean, Numbers running_var, double momentum) {
    Sizes z = p->size;
    int64_t n = z.samples * z.frames * z.plane, sample, frame, position;
    for (int64_t c = 0; c < z.c; c++) {
        double first = 0, second = 0;
        for (int64_t row = 0; row < n; row++) {
            double sum = 0;
            split_row(row, z.frames, z.plane, &sample, &frame, &position);
            for (int64_t k = 0; k < 14; k++) {
                int64_t seen = row_at(z, sample, frame - 3 + k % 7, position);
                if (seen >= 0) sum += fabs(p->w.d[c * 14 + k] * p->x.d[2 * seen + k / 7]);
            }
            first += sum / (double)n, second += sum * sum / (double)n;
        }
        double mean = p->mean.d[c], variance = p->variance[c] + 1e-5,
               wrong = 33 * U * (second + 2 * fabs(mean) * first);
        assert_near(p->mean.f[c], mean, 33 * U * first + U * fabs(mean));
        assert_near(pow((double)p->rstd.f[c], -2), variance, wrong + 4 * U * variance);
        double unbiased = p->variance[c] * (double)n / (double)(n - 1);
        assert_near(running_mean.f[c], (1 - momentum) * running_mean.d[c] + momentum * mean,
                    33 * U * first + 4 * U * (fabs(running_mean.d[c]) + fabs(mean)));
        assert_near(running_var.f[c], (1 - momentum) * running_var.d[c] + momentum * unbiased,
                    2 * wrong + 4 * U * (fabs(running_var.d[c]) + unbiased));
    }
}

static void run_on(Device *device, Problem *p, Numbers running_mean, Numbers running_var) {
    Stem stem = {p->size.frames, p->size.plane, slope};
    Tensor x = tensor_of(p->x), w = tensor_of(p->w), mean = tensor_of(p->mean), rstd = tensor_of(p->rstd);
    Tensor gain = tensor_of(p->gain), bias = tensor_of(p->bias), w2 = tensor_of(p->w2), moments = tensor_of(p->moments);
    stem_statistics(device, (BatchStatistics){mean, rstd, tensor_of(running_mean), tensor_of(running_var), 0.1f},
                    moments, x, w, stem);
    stem_forward(device, tensor_of(p->y), x, (StemWeights){w, mean, rstd, gain, bias, w2}, stem);
    stem_backward(device,
                  (StemGradients){tensor_of(p->dw), tensor_of(p->dgain), tensor_of(p->dbias), tensor_of(p->dw2)},
                  tensor_of(p->dy), x, (StemWeights){w, mean, rstd, gain, bias, w2}, moments, stem);
}

static void run(Device *device, Problem *p) {
    Numbers running_mean = normal(p->size.c, 0), running_var = normal(p->size.c, 0), mean = poisoned(p->size.c, 0);
    run_on(device, p, running_mean, running_var);
    expect_statistics(p, running_mean, running_var, (double)0.1f);
    stem_statistics(device, (BatchStatistics){tensor_of(mean), tensor_of(p->rstd), tensor_none(), tensor_none(), 0.1f},
                    tensor_of(p->moments), tensor_of(p->x), tensor_of(p->w),
                    (Stem){p->size.frames, p->size.plane, slope});
    assert_memory_equal(mean.f, p->mean.f, (size_t)mean.n * sizeof(float));
    Numbers *all[] = {&running_mean, &running_var, &mean};
    for (int i = 0; i < 3; i++) free(all[i]->f), free(all[i]->d);
}

/* v has the roundings of its 14 products and of the statistics, about 20 in all. Sums over a column multiply this by 3
 * C or by the frames. */
static void check(Device *device, Sizes z) {
    Problem p = problem_of(z);
    int64_t n = z.samples * z.frames * z.plane;
    reference_forward(&p);
    reference_backward(&p);
    run(device, &p);
    expect("y", p.y, sum_error(3 * z.c, 20));
    expect("dw2", p.dw2, sum_error(n, 24));
    expect("dbias", p.dbias, sum_error(n, 24));
    expect("dgain", p.dgain, sum_error(n, 32));
    expect("dw", p.dw, sum_error(n, 40));
    close_problem(&p);
}

static void check_all(Device *device) {
    check(device, (Sizes){2, 9, 4, 8, 8});
    check(device, (Sizes){1, 40, 5, 32, 32});
    check(device, (Sizes){3, 7, 2, 16, 24});
    check(device, (Sizes){2, 1, 3, 8, 16}); /* one frame: the rest of each window is padding */
    check(device, (Sizes){5, 2, 1, 40, 64});
    check(device, (Sizes){1, 70, 3, 64, 40});
    check(device, (Sizes){70, 4, 1, 8, 8}); /* some parts have several columns, some have none */
}

/* Runs twice on every device and must give the same bits. */
TEST(the_stem_matches_the_reference) {
    for (int d = 0; d < n_devices; d++) {
        uint64_t first = 0;
        for (int time = 0; time < 2; time++) {
            hash = 0xcbf29ce484222325u, draws = 0;
            check_all(devices[d]);
            if (time && hash != first) fail_msg("two runs differ on %s", devices[d]->description);
            first = hash;
        }
        static uint64_t of_two_threads;
        if (d == 0) of_two_threads = first;
        if (d == 1 && first != of_two_threads) fail_msg("one thread gives other bits than two");
    }
}

/* Compares with the separate operations on the best instruction set, which round s and its gradients to float; the stem
 * does not. */
TEST(the_stem_equals_its_operations) {
    Device *device = devices[0];
    Problem p = problem_of((Sizes){2, 11, 6, 32, 32});
    Sizes z = p.size;
    int64_t n = p.x.rows;
    Convolution first = {{(int)z.frames, 2, 3}, {7, 1, 1}, {1, 1, 1}, {3, 0, 0}}, second = first;
    second.taps[0] = 3, second.stride[0] = 2, second.padding[0] = 1;
    reference_forward(&p); /* for the statistics that run() compares */
    Numbers s = poisoned(n, z.c), v = poisoned(n, z.c), a = poisoned(n, z.c), da = poisoned(n, z.c);
    Numbers *wanted[] = {&p.dw, &p.dgain, &p.dbias, &p.dw2}, parts[4];
    for (int i = 0; i < 4; i++) {
        parts[i] = numbers(wanted[i]->rows, wanted[i]->columns);
        memcpy(parts[i].f, wanted[i]->f, (size_t)parts[i].n * sizeof(float));
    }
    Tensor none = tensor_none(), x = tensor_of(p.x), w = tensor_of(p.w), w2 = tensor_of(p.w2), dy = tensor_of(p.dy);
    Tensor mean = tensor_of(p.mean), rstd = tensor_of(p.rstd), gain = tensor_of(p.gain);
    conv3d_forward(device, tensor_of(s), x, w, none, first);
    batchnorm_forward(device, tensor_of(v), (BatchStatistics){mean, rstd, none, none, 0}, tensor_of(s), gain,
                      tensor_of(p.bias));
    leaky_relu_forward(device, tensor_of(a), tensor_of(v), slope);
    conv3d_forward(device, tensor_of(p.y), tensor_of(a), w2, none, second);
    for (int64_t i = 0; i < p.y.n; i++) p.y.d[i] = (double)p.y.f[i];
    conv3d_backward(device, (LayerGradients){.dx = tensor_of(da), .dw = tensor_of(parts[3])}, dy, tensor_of(a), w2,
                    second, false);
    leaky_relu_backward(device, tensor_of(da), tensor_of(da), tensor_of(v), slope);
    batchnorm_backward(device,
                       (NormGradients){.dx = tensor_of(da), .dgain = tensor_of(parts[1]), .dbias = tensor_of(parts[2])},
                       tensor_of(da), tensor_of(s), mean, rstd, gain);
    conv3d_backward(device, (LayerGradients){.dw = tensor_of(parts[0])}, tensor_of(da), x, w, first, false);
    for (int i = 0; i < 4; i++)
        for (int64_t j = 0; j < parts[i].n; j++) wanted[i]->d[j] = (double)parts[i].f[j];
    run(device, &p);
    expect("y of its parts", p.y, sum_error(3 * z.c, 40));
    for (int i = 0; i < 4; i++) expect("a gradient of its parts", *wanted[i], sum_error(n, 80));
    Numbers *all[] = {&s, &v, &a, &da, &parts[0], &parts[1], &parts[2], &parts[3]};
    for (int i = 0; i < 8; i++) free(all[i]->f), free(all[i]->d);
    close_problem(&p);
}

/* Products with padding do not count; others are two FLOPs each. The rest is counted as in ops_volumes.c. */
TEST(flops_are_exact) {
    Device *dry = dry_device_open();
    for (int64_t frames = 1; frames < 10; frames++) {
        Problem p = problem_of((Sizes){2, frames, 3, 16, 8});
        double first = 0, second = 0, between = 6 * (double)frames * 16;
        for (int64_t t = 0; t < frames; t++)
            for (int64_t k = 0; k < 7; k++) first += row_at(p.size, 0, t - 3 + k, 0) >= 0 ? 6 * 2 * 16 : 0;
        for (int64_t u = 0; u < halved(p.size); u++)
            for (int64_t k = 0; k < 3; k++) second += row_at(p.size, 0, 2 * u - 1 + k, 0) >= 0 ? 6 * 16 * 8 : 0;
        device_reset_counters(dry);
        run_on(dry, &p, p.mean, p.mean);
        assert_true(dry->counters[OP_stem_statistics].flops == 6 * (double)frames * 224 + 16 * 450);
        assert_true(dry->counters[OP_stem_forward].flops == 2 * first + 4 * between + 2 * second);
        assert_true(dry->counters[OP_stem_backward].flops == 4 * first + 4 * second + 6 * between + 16 * 532);
        close_problem(&p);
    }
    device_close(dry);
}

static void call_with_odd_channels(void *device) {
    Problem p = problem_of((Sizes){1, 4, 2, 12, 8});
    run(device, &p);
}

static void call_with_half_a_sample(void *device) {
    Problem p = problem_of((Sizes){1, 4, 3, 8, 8});
    p.x.rows--;
    run(device, &p);
}

static void call_out_of_line(void *device) {
    Problem p = problem_of((Sizes){1, 4, 2, 8, 8});
    p.x.f++;
    run(device, &p);
}

TEST(wrong_calls_die_with_the_reason) {
    char output[512];
    assert_int_equal(run_function(output, sizeof output, call_with_odd_channels, devices[0]), 1);
    assert_contains(output, "stem_statistics: 12 channels between the layers, expected a multiple of 8 from 8 to 64");
    assert_int_equal(run_function(output, sizeof output, call_with_half_a_sample, devices[0]), 1);
    assert_contains(output, "stem_statistics: the 11 rows of x are not whole samples of 4 frames of 3 rows");
    assert_int_equal(run_function(output, sizeof output, call_out_of_line, devices[0]), 1);
    assert_contains(output, "expected a multiple of 8 bytes");
}

int main(void) { return tests_run(open_devices, close_devices); }
