#include "tests/kernels/ops_rig.h"

static void *take(Rig *rig, size_t bytes) {
    assert_true(rig->n_memory < 2048);
    return rig->memory[rig->n_memory++] = xcalloc(1, bytes);
}

double *doubles(Rig *rig, int64_t n) { return take(rig, (size_t)n * sizeof(double)); }

Tensor tensor(Rig *rig, DType dtype, int64_t rows, int64_t columns) {
    void *data = take(rig, (size_t)(rows * (columns ? columns : 1)) * 4);
    return columns ? tensor_2d(data, dtype, rows, columns) : tensor_1d(data, dtype, rows);
}

void poison(Tensor t) {
    for (int64_t i = 0; i < tensor_numel(t); i++) floats(t)[i] = NAN;
}

Tensor poisoned(Rig *rig, int64_t rows, int64_t columns) {
    Tensor t = tensor(rig, DTYPE_F32, rows, columns);
    poison(t);
    return t;
}

Tensor number(Rig *rig, float x) {
    Tensor t = tensor(rig, DTYPE_F32, 1, 0);
    floats(t)[0] = x;
    return t;
}

Tensor normal(Rig *rig, int64_t rows, int64_t columns) {
    Tensor t = tensor(rig, DTYPE_F32, rows, columns);
    rig->seed++;
    for (int64_t i = 0; i < tensor_numel(t); i++) floats(t)[i] = philox_normal(rig->seed, PURPOSE_TEST, 0, (uint64_t)i);
    return t;
}

Tensor below(Rig *rig, int64_t n, uint32_t limit) {
    Tensor t = tensor(rig, DTYPE_I32, n, 0);
    rig->seed++;
    for (int64_t i = 0; i < n; i++)
        integers(t)[i] = (int32_t)(philox_bits(rig->seed, PURPOSE_TEST, 0, (uint64_t)i) % limit);
    return t;
}

double *widened(Rig *rig, Tensor t) {
    double *wide = doubles(rig, tensor_numel(t));
    for (int64_t i = 0; i < tensor_numel(t); i++) wide[i] = (double)floats(t)[i];
    return wide;
}

void hash_output(Rig *rig, Tensor t) { rig->hash = hash_bytes(rig->hash, t.data, tensor_bytes(t)); }

void expect(Rig *rig, const char *what, Tensor got, const double *want, double tolerance) {
    double largest = 0;
    int64_t n = tensor_numel(got);
    for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs(want[i]));
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)floats(got)[i] - want[i]) <= tolerance * largest))
            fail_msg("%s, element %lld: %.9g, expected %.9g, largest %.3g, tolerance %.3g (%s)", what, (long long)i,
                     (double)floats(got)[i], want[i], largest, tolerance, rig->device->description);
    hash_output(rig, got);
}

void expect_same(Rig *rig, const char *what, Tensor got, Tensor want) {
    if (memcmp(got.data, want.data, tensor_bytes(want))) fail_msg("%s differs (%s)", what, rig->device->description);
    hash_output(rig, got);
}

double dot_product(const double *a, const double *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

double keep_factor(Dropout drop, uint64_t element) {
    uint32_t bits = philox_bits(drop.seed, drop.purpose, *drop.step, element);
    return (double)bits >= (double)drop.p * 0x1p32 ? 1 / (1 - (double)drop.p) : 0;
}

static const uint32_t step_number = 5;

Dropout dropout_of(float p) { return (Dropout){p, 11, PURPOSE_DROPOUT | 3 << 8, &step_number}; }

/* Runs the forward. Returns the sum of weights[i] output[i], and in *size the root of the sum of the squared terms. */
static double evaluate(const Call *call, void (*forward)(const Call *), Tensor output, const double *weights,
                       double *size) {
    double sum = 0, squares = 0;
    forward(call);
    for (int64_t i = 0; i < tensor_numel(output); i++) {
        double term = weights[i] * (double)floats(output)[i];
        sum += term;
        squares += term * term;
    }
    *size = sqrt(squares);
    return sum;
}

/* Computes f(x + h u) - f(x - h u), and gradient . ((x + h u) - (x - h u)) with the inputs as rounded to float. */
static double difference(const Call *call, void (*forward)(const Call *), Tensor input, Tensor output,
                         const double *weights, const double *gradient, const double *u, double h, double *expected,
                         double *size) {
    int64_t n = tensor_numel(input);
    float *x = floats(input), *middle = xmalloc((size_t)n * sizeof *middle);
    memcpy(middle, x, (size_t)n * sizeof *middle);
    double f[2];
    *expected = 0;
    for (int side = 0; side < 2; side++) {
        for (int64_t i = 0; i < n; i++) {
            x[i] = (float)((double)middle[i] + (side ? -h : h) * u[i]);
            *expected += gradient[i] * ((double)x[i] - (double)middle[i]) * (side ? -1 : 1);
        }
        f[side] = evaluate(call, forward, output, weights, size);
    }
    memcpy(x, middle, (size_t)n * sizeof *middle);
    free(middle);
    return f[0] - f[1];
}

void expect_gradient(Rig *rig, const char *what, const Call *call, void (*forward)(const Call *), Tensor input,
                     Tensor gradient, const double *before, Tensor output, const double *weights, double tolerance) {
    int64_t n = tensor_numel(input);
    const double h = 0x1p-8;
    double *g = widened(rig, gradient), *u = widened(rig, normal(rig, n, 0)), largest = 0, size, expected, wide;
    for (int64_t i = 0; i < n && before; i++) g[i] -= before[i];
    for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs(g[i]));
    assert_true(largest > 0);
    for (int along = 0; along < 2; along++) {
        for (int64_t i = 0; i < n && along; i++) u[i] = g[i] / largest;
        double twice = difference(call, forward, input, output, weights, g, u, 2 * h, &wide, &size);
        double once = difference(call, forward, input, output, weights, g, u, h, &expected, &size);
        double allowed = 2 * tolerance * size + fabs(twice / 2 - once);
        if (!(fabs(once - expected) <= allowed) || (along && allowed > 0.01 * fabs(expected)))
            fail_msg("%s: difference %.9g, by the gradient %.9g, allowed %.3g (%s)", what, once, expected, allowed,
                     rig->device->description);
    }
}

void rig_free(Rig *rig) {
    for (int i = 0; i < rig->n_memory; i++) free(rig->memory[i]);
}

void ops_check(void **check) {
    const OpsCheck *c = *check;
    for (int d = 0; d < n_devices; d++) {
        uint64_t first = 0;
        for (int time = 0; time < 2; time++) {
            Rig rig = {.device = devices[d], .hash = HASH_START};
            c->function(&rig);
            rig_free(&rig);
            if (time && rig.hash != first) fail_msg("two runs differ on %s", devices[d]->description);
            first = rig.hash;
        }
    }
}

Sequences packed(Rig *rig, const int *lengths, int count) {
    Tensor offsets = tensor(rig, DTYPE_I32, count + 1, 0);
    for (int s = 0; s < count; s++) integers(offsets)[s + 1] = integers(offsets)[s] + lengths[s];
    return (Sequences){offsets, offsets.data, count};
}

void every_operation_was_tested_on_every_device(void **file) {
    int tested = 0;
    for (int op = 0; op < OP_COUNT; op++) {
        char *test = kept_format("test_%s.c", op_cases[op]->test);
        bool is_here = ends_with(*file, test);
        tested += is_here;
        for (int d = 0; d < n_devices && is_here; d++)
            if (!devices[d]->counters[op].calls) fail_msg("%s never ran on %s", op_names[op], devices[d]->description);
    }
    assert_true(tested > 0);
}
