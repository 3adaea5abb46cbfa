/* Operations without a backward, for networks that do not train, against double-precision references written here, on
 * every instruction set of the processor and with 1, 2 and 3 threads. */
#include "tests/kernels/ops_rig.h"

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double gelu(double x) { return x * 0.5 * erfc(-x / sqrt(2)); }

/* Normal numbers, and a line far to both sides. */
static Tensor far_and_near(Rig *rig, int64_t rows, int64_t columns) {
    Tensor t = normal(rig, rows, columns);
    int64_t n = tensor_numel(t);
    for (int64_t i = 0; i < n / 2; i++) floats(t)[i] = (float)i / (float)(n / 4) * 30 - 30;
    return t;
}

/* The sigmoid has an error of about 4 U, and below 0 that of its exponential too, and is multiplied by a number. */
static void check_silu_matches_the_reference(Rig *rig) {
    Tensor x = far_and_near(rig, 41, 61), y = poisoned(rig, 41, 61);
    int64_t n = tensor_numel(x);
    double *want = doubles(rig, n);
    silu_forward(rig->device, y, x);
    for (int64_t i = 0; i < n; i++) {
        double at = (double)floats(x)[i];
        want[i] = at * sigmoid(at);
        assert_near(floats(y)[i], want[i], 8 * U * fabs(at));
    }
    expect(rig, "silu y", y, want, 8 * U);
    silu_forward(rig->device, x, x);
    expect_same(rig, "silu in place", x, y);
}

static void check_gate_matches_the_reference(Rig *rig) {
    static const int64_t sizes[][2] = {{1, 1}, {3, 13}, {41, 61}, {7, 256}};
    for (int i = 0; i < 4; i++)
        for (int kind = 0; kind < 2; kind++) {
            int64_t n = sizes[i][0], c = sizes[i][1];
            Tensor x = normal(rig, n, 2 * c), y = poisoned(rig, n, c), far = far_and_near(rig, n, c);
            double *want = doubles(rig, n * c);
            for (int64_t k = 0; k < n * c; k++) {
                float *a = floats(x) + k / c * 2 * c + k % c, *b = a + c;
                *b = floats(far)[k];
                want[k] = (double)*a * (kind == GATE_GELU ? gelu((double)*b) : sigmoid((double)*b));
            }
            gate_forward(rig->device, y, x, (GateKind)kind);
            expect(rig, "gate y", y, want, 10 * U);
        }
}

static void check_window(Rig *rig, const int *lengths, int count, int64_t c, DepthwiseWindow window, bool with_bias) {
    Sequences sequences = packed(rig, lengths, count);
    const int32_t *at = sequences.host_offsets;
    int64_t n = at[count];
    Tensor x = normal(rig, n, c), y = poisoned(rig, n, c), w = normal(rig, c, window.taps);
    Tensor bias = with_bias ? normal(rig, c, 0) : tensor_none();
    double *want = doubles(rig, n * c);
    for (int s = 0; s < count; s++)
        for (int64_t t = at[s]; t < at[s + 1]; t++)
            for (int64_t j = 0; j < c; j++) {
                want[t * c + j] = with_bias ? (double)floats(bias)[j] : 0;
                for (int64_t m = 0; m < window.taps; m++) {
                    int64_t seen = t + m * window.dilation - window.before;
                    if (seen >= at[s] && seen < at[s + 1])
                        want[t * c + j] += (double)floats(w)[j * window.taps + m] * (double)floats(x)[seen * c + j];
                }
            }
    depthwise_forward(rig->device, y, x, w, bias, sequences, window);
    expect(rig, "depthwise y", y, want, sum_error(window.taps, 2));
}

static void check_depthwise_matches_the_reference(Rig *rig) {
    static const int lengths[] = {40, 1, 0, 3, 101, 0}, one[] = {1};
    static const DepthwiseWindow windows[] = {{31, 30, 1}, {15, 7, 1}, {7, 3, 1}, {1, 0, 1},
                                              {3, 0, 1},   {4, 5, 3},  {5, 8, 2}, {2, 50, 60}};
    for (int i = 0; i < 8; i++) {
        check_window(rig, lengths, 6, 70, windows[i], i % 2);
        check_window(rig, one, 1, 1 + i * 64, windows[i], i % 2 == 0);
    }
}

static double product(const float *a, const float *b, int64_t d) {
    double sum = 0;
    for (int64_t i = 0; i < d; i++) sum += (double)a[i] * (double)b[i];
    return sum;
}

/* A margin is the difference of two sums. Where it is no larger than their errors, either may be the best. */
static void check_nearest(Rig *rig, int64_t n, int64_t k, int64_t d) {
    Tensor x = normal(rig, n, d), table = normal(rig, k, d), ids = tensor(rig, DTYPE_I32, n, 0);
    Tensor margins = poisoned(rig, n, 0), alone = tensor(rig, DTYPE_I32, n, 0);
    nearest_direction(rig->device, ids, margins, x, table);
    for (int64_t row = 0; row < n; row++) {
        const float *own = floats(x) + row * d;
        double best = -INFINITY, second = -INFINITY, size = 0;
        int64_t id = 0;
        for (int64_t j = 0; j < k; j++) {
            double p = product(own, floats(table) + j * d, d);
            size = fmax(size, fabs(p));
            second = fmax(second, fmin(best, p));
            if (p > best) best = p, id = j;
        }
        double error = sum_error(d, 2) * (size + sqrt((double)d));
        assert_near(floats(margins)[row], best - second, 2 * error);
        if (best - second > 2 * error) assert_int_equal(integers(ids)[row], id);
    }
    hash_output(rig, ids);
    hash_output(rig, margins);
    nearest_direction(rig->device, alone, tensor_none(), x, table);
    expect_same(rig, "ids without margins", alone, ids);
}

static void check_nearest_direction_matches_the_reference(Rig *rig) {
    static const int64_t sizes[][3] = {{0, 2, 8}, {1, 2, 1}, {5, 63, 8}, {37, 64, 16}, {9, 65, 3}, {70, 1003, 8}};
    for (int i = 0; i < 6; i++) check_nearest(rig, sizes[i][0], sizes[i][1], sizes[i][2]);
}

/* The first of equal rows wins wherever they lie, with a margin of 0; the order of the table is that of its rows. */
static void check_the_first_of_equal_directions_wins(Rig *rig) {
    static const int64_t places[][2] = {{0, 1}, {3, 67}, {70, 71}, {66, 195}, {2, 199}, {127, 128}};
    const int64_t k = 200, d = 8;
    for (int i = 0; i < 6; i++) {
        Tensor x = normal(rig, 1, d), table = normal(rig, k, d), id = tensor(rig, DTYPE_I32, 1, 0);
        Tensor margin = poisoned(rig, 1, 0);
        for (int64_t j = 0; j < 2 * d; j++) floats(table)[places[i][j / d] * d + j % d] = 9 * floats(x)[j % d];
        nearest_direction(rig->device, id, margin, x, table);
        assert_int_equal(integers(id)[0], places[i][0]);
        assert_true(floats(margin)[0] == 0);
    }
}

/* NaN in a row of x: id 0 and NaN; in a row of the table: that row is not there. */
static void check_nan_is_nearest_to_nothing(Rig *rig) {
    const int64_t n = 3, k = 131, d = 8;
    Tensor x = normal(rig, n, d), table = normal(rig, k, d), ids = tensor(rig, DTYPE_I32, n, 0);
    Tensor margins = poisoned(rig, n, 0), want = tensor(rig, DTYPE_I32, n, 0), gaps = poisoned(rig, n, 0);
    for (int64_t i = 0; i < d; i++) floats(table)[130 * d + i] = 0;
    nearest_direction(rig->device, want, gaps, x, table);
    floats(table)[130 * d + 3] = NAN;
    floats(x)[d + 7] = NAN;
    nearest_direction(rig->device, ids, margins, x, table);
    for (int64_t row = 0; row < n; row += 2) {
        assert_int_equal(integers(ids)[row], integers(want)[row]);
        assert_true(floats(margins)[row] == floats(gaps)[row]);
    }
    assert_int_equal(integers(ids)[1], 0);
    assert_true(isnan(floats(margins)[1]));
}

int main(void) {
    const struct CMUnitTest shared[] = {ops_test(silu_matches_the_reference),
                                        ops_test(gate_matches_the_reference),
                                        ops_test(depthwise_matches_the_reference),
                                        ops_test(nearest_direction_matches_the_reference),
                                        ops_test(the_first_of_equal_directions_wins),
                                        ops_test(nan_is_nearest_to_nothing),
                                        ops_last_test};
    tests_add(shared, sizeof shared / sizeof *shared);
    return tests_run(open_devices, close_devices);
}
