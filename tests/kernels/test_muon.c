/* Muon on every instruction set of the processor and with 1, 2 and 3 threads: against golden values that were computed
 * from singular value decompositions, and what must hold for every matrix. */
#include "tests/cpu_devices.h"
#include "tests/files.h"

#include <math.h>

#include "kernels/ops_table.h"
#include "kernels/philox.h"

static const float momentum = 0.95f;

/* A matrix in buffers that begin and end with numbers that no update may change. */
enum { BEFORE = 5, AFTER = 3 };
typedef struct {
    int64_t rows, columns, n; /* n: of the buffers */
    float *p, *m, *g;
    float norm;
} Case;

static float *buffer(int64_t n) {
    float *numbers = xaligned((size_t)n * sizeof *numbers);
    for (int64_t i = 0; i < n; i++) numbers[i] = 1000 + (float)i;
    return numbers;
}

static Case open_case(int64_t rows, int64_t columns) {
    Case c = {.rows = rows, .columns = columns, .n = BEFORE + rows * columns + AFTER, .norm = 1};
    c.p = buffer(c.n), c.m = buffer(c.n), c.g = buffer(c.n);
    return c;
}

static void close_case(Case *c) { free(c->p), free(c->m), free(c->g); }

static void fill_normal(float *numbers, int64_t n, uint64_t seed) {
    for (int64_t i = 0; i < n; i++) numbers[i] = philox_normal(seed, PURPOSE_TEST, 0, (uint64_t)i);
}

static Case normal_case(int64_t rows, int64_t columns) {
    Case c = open_case(rows, columns);
    fill_normal(c.p + BEFORE, rows * columns, 1);
    fill_normal(c.m + BEFORE, rows * columns, 2);
    fill_normal(c.g + BEFORE, rows * columns, 3);
    return c;
}

static void update(Device *device, Case *c, Tensor loss_scale, MuonMatrix matrix, Muon options) {
    AdamWBuffers buffers = {.params = tensor_1d(c->p, DTYPE_F32, c->n),
                            .m = tensor_1d(c->m, DTYPE_F32, c->n),
                            .grads = tensor_1d(c->g, DTYPE_F32, c->n)};
    muon_update(device, buffers, tensor_1d(&c->norm, DTYPE_F32, 1), loss_scale, matrix, options);
}

static MuonMatrix whole(const Case *c, float weight_decay, float rate) {
    return (MuonMatrix){BEFORE, c->columns, c->rows, c->columns, weight_decay, rate, 0};
}

static void expect_ends(const Case *c) {
    const float *buffers[] = {c->p, c->m};
    for (int b = 0; b < 2; b++)
        for (int64_t i = 0; i < c->n; i++)
            if (i < BEFORE || i >= c->n - AFTER) assert_true(buffers[b][i] == 1000 + (float)i);
}

/* ---- golden values ---- */

static void read_into(float *to, const TensorFile *file, const char *prefix, const char *name, int64_t from,
                      int64_t n) {
    float *values = floats(file, prefix, name);
    memcpy(to, values + from, (size_t)n * sizeof *to);
    free(values);
}

static void expect_golden(const TensorFile *file, const char *prefix, const char *name, const float *got, int64_t n) {
    float *want = floats(file, prefix, name);
    char *what = kept_format("%s%s", prefix, name);
    assert_int_equal(find(file, prefix, name)->count, n);
    assert_close(what, got, want, n, 2e-5);
    free(want);
}

/* parts: matrices side by side, in the direction of the rows or of the columns. */
static void take_five_steps(Device *device, const TensorFile *file, const char *prefix, int parts, bool by_columns) {
    static const float rates[5] = {0.02f, 0.05f, 0.03f, 0.01f, 0.04f};
    const StoredTensor *shape = find(file, prefix, "p");
    Case c = open_case(shape->dims[0], shape->dims[1]);
    int64_t n = c.rows * c.columns;
    read_into(c.p + BEFORE, file, prefix, "p", 0, n);
    read_into(c.m + BEFORE, file, prefix, "m", 0, n);
    for (int k = 0; k < 5; k++) {
        read_into(c.g + BEFORE, file, prefix, "grads", k * n, n);
        read_into(&c.norm, file, prefix, "norms", k, 1);
        for (int part = 0; part < parts; part++) {
            MuonMatrix w = whole(&c, 0.1f, rates[k]);
            if (by_columns)
                w.columns /= parts, w.offset += part * w.columns;
            else
                w.rows /= parts, w.offset += part * w.rows * w.stride;
            update(device, &c, tensor_none(), w, (Muon){momentum, 1});
        }
    }
    expect_golden(file, prefix, "p_after", c.p + BEFORE, n);
    expect_golden(file, prefix, "m_after", c.m + BEFORE, n);
    expect_ends(&c);
    close_case(&c);
}

TEST(five_steps_match_the_golden_values) {
    TensorFile file = open_golden("muon");
    static const char *const single[] = {"wide.", "tall.", "square.", "row.", "column."};
    for (int d = 0; d < n_devices; d++) {
        for (int i = 0; i < 5; i++) take_five_steps(devices[d], &file, single[i], 1, false);
        take_five_steps(devices[d], &file, "fused_rows.", 3, false);
        take_five_steps(devices[d], &file, "fused_columns.", 3, true);
    }
    tensor_file_close(&file);
}

/* ---- singular values ---- */

/* Multiplies x [rows, columns] from the left by I - 2 v v^T / |v|^2 for some vector v. */
static void reflect_rows(double *x, int64_t rows, int64_t columns, uint64_t seed) {
    double v[64], length = 0;
    for (int64_t r = 0; r < rows; r++) {
        v[r] = (double)philox_normal(seed, PURPOSE_TEST, 7, (uint64_t)r);
        length += v[r] * v[r];
    }
    for (int64_t i = 0; i < columns; i++) {
        double sum = 0;
        for (int64_t r = 0; r < rows; r++) sum += v[r] * x[r * columns + i];
        for (int64_t r = 0; r < rows; r++) x[r * columns + i] -= 2 * sum / length * v[r];
    }
}

static void reflect_columns(double *x, int64_t rows, int64_t columns, uint64_t seed) {
    double *turned = xmalloc((size_t)(rows * columns) * sizeof *turned);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < columns; i++) turned[i * rows + r] = x[r * columns + i];
    reflect_rows(turned, columns, rows, seed);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < columns; i++) x[r * columns + i] = turned[i * rows + r];
    free(turned);
}

/* A gradient with known singular vectors: the update has the same ones, and singular values in the polynomial's band
 * wherever those of the gradient are not tiny. Two reflections on either side undo themselves in the opposite order. */
static void check_singular_values(Device *device, int64_t rows, int64_t columns) {
    Case c = open_case(rows, columns);
    int64_t n = rows * columns, side = rows < columns ? rows : columns;
    double *x = xcalloc((size_t)n, sizeof *x), squares = 0, values[64];
    for (int64_t i = 0; i < side; i++) {
        values[i] = pow(10, -1.5 * (double)i / (double)side);
        x[i * columns + i] = values[i];
        squares += values[i] * values[i];
    }
    for (uint64_t s = 1; s <= 2; s++) reflect_rows(x, rows, columns, s), reflect_columns(x, rows, columns, 10 + s);
    for (int64_t i = 0; i < n; i++) c.g[BEFORE + i] = (float)(1e-3 * x[i]), c.m[BEFORE + i] = 0, c.p[BEFORE + i] = 0;
    update(device, &c, tensor_none(), whole(&c, 0, 1), (Muon){momentum, 0});
    double factor = 0.2 * sqrt((double)(rows > columns ? rows : columns));
    for (int64_t i = 0; i < n; i++) x[i] = -(double)c.p[BEFORE + i] / factor;
    for (uint64_t s = 2; s >= 1; s--) reflect_rows(x, rows, columns, s), reflect_columns(x, rows, columns, 10 + s);
    for (int64_t i = 0; i < n; i++) {
        double want = i / columns == i % columns ? values[i % columns] / sqrt(squares) : 0;
        bool diagonal = want > 0;
        for (int k = 0; k < MUON_STEPS; k++) want = 3.4445 * want - 4.7750 * pow(want, 3) + 2.0315 * pow(want, 5);
        if (diagonal && !(x[i] > 0.67 && x[i] < 1.21)) fail_msg("a singular value of %g", x[i]);
        assert_near(x[i], want, 2e-5);
    }
    free(x);
    close_case(&c);
}

TEST(singular_values_come_into_the_band) {
    for (int d = 0; d < n_devices; d++) {
        check_singular_values(devices[d], 12, 40);
        check_singular_values(devices[d], 40, 12);
        check_singular_values(devices[d], 33, 33);
    }
}

/* ---- what holds for every matrix ---- */

/* Large enough for several tiles of the products. */
TEST(the_bits_do_not_depend_on_the_number_of_threads) {
    Case first = normal_case(330, 450);
    for (int d = 0; d < 3; d++) { /* of the best instruction set: 2, 1 and 3 threads */
        Case c = normal_case(330, 450);
        for (int k = 0; k < 2; k++) update(devices[d], &c, tensor_none(), whole(&c, 0.1f, 0.02f), (Muon){momentum, 1});
        if (!d) memcpy(first.p, c.p, (size_t)c.n * sizeof *c.p), memcpy(first.m, c.m, (size_t)c.n * sizeof *c.m);
        assert_memory_equal(first.p, c.p, (size_t)c.n * sizeof *c.p);
        assert_memory_equal(first.m, c.m, (size_t)c.n * sizeof *c.m);
        close_case(&c);
    }
    close_case(&first);
}

TEST(a_norm_that_is_not_finite_changes_nothing) {
    const float norms[] = {NAN, INFINITY};
    for (int d = 0; d < n_devices; d++)
        for (int i = 0; i < 2; i++) {
            Case c = normal_case(6, 9), before = normal_case(6, 9);
            c.norm = norms[i];
            c.g[BEFORE + 4] = norms[i];
            update(devices[d], &c, tensor_none(), whole(&c, 0.1f, 0.1f), (Muon){momentum, 1});
            assert_memory_equal(c.p, before.p, (size_t)c.n * sizeof *c.p);
            assert_memory_equal(c.m, before.m, (size_t)c.n * sizeof *c.m);
            close_case(&c);
            close_case(&before);
        }
}

TEST(the_loss_scale_does_not_change_the_update) {
    float scale[LOSS_SCALE_FIELDS] = {[LOSS_SCALE_FACTOR] = 1024};
    Case a = normal_case(20, 12), b = normal_case(20, 12);
    a.norm = b.norm = 3;
    for (int64_t i = 0; i < b.n; i++) b.g[i] *= 1024;
    update(devices[0], &a, tensor_none(), whole(&a, 0.1f, 0.1f), (Muon){momentum, 1});
    update(devices[0], &b, tensor_1d(scale, DTYPE_F32, LOSS_SCALE_FIELDS), whole(&b, 0.1f, 0.1f), (Muon){momentum, 1});
    assert_memory_equal(a.p, b.p, (size_t)a.n * sizeof *a.p);
    assert_memory_equal(a.m, b.m, (size_t)a.n * sizeof *a.m);
    close_case(&a);
    close_case(&b);
}

TEST(without_a_gradient_only_the_decay_is_left) {
    Case c = normal_case(5, 8), before = normal_case(5, 8);
    memset(c.g + BEFORE, 0, 40 * sizeof *c.g);
    memset(c.m + BEFORE, 0, 40 * sizeof *c.m);
    update(devices[0], &c, tensor_none(), whole(&c, 0.5f, 0.25f), (Muon){momentum, 1});
    for (int64_t i = BEFORE; i < c.n - AFTER; i++) assert_true(c.p[i] == before.p[i] * 0.875f && c.m[i] == 0);
    close_case(&c);
    close_case(&before);
}

/* ---- refusals ---- */

typedef struct {
    MuonMatrix matrix;
    float momentum;
} WrongCall;

static void call_wrongly(void *argument) {
    const WrongCall *wrong = argument;
    Case c = normal_case(6, 9); /* 62 numbers */
    update(devices[0], &c, tensor_none(), wrong->matrix, (Muon){wrong->momentum, 1});
}

TEST(wrong_calls_die_with_the_reason) {
    const struct {
        WrongCall call;
        const char *message;
    } wrong[] = {
        {{{5, 9, 0, 9, 0, 1, 0}, 0.9f},
         "muon_update: a matrix [0, 9] with rows 9 apart at element 5, the buffer has 62"},
        {{{5, 9, 6, 0, 0, 1, 0}, 0.9f}, "a matrix [6, 0]"},
        {{{5, 8, 6, 9, 0, 1, 0}, 0.9f}, "a matrix [6, 9] with rows 8 apart"},
        {{{-1, 9, 6, 9, 0, 1, 0}, 0.9f}, "at element -1"},
        {{{9, 9, 6, 9, 0, 1, 0}, 0.9f}, "at element 9, the buffer has 62 elements"},
        {{{5, 9, 6, 9, 0, 1, 0}, 1}, "muon_update: the momentum is 1, expected at least 0 and less than 1"},
        {{{5, 9, 6, 9, 0, 1, 0}, NAN}, "the momentum is "},
    };
    char output[512];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        WrongCall call = wrong[i].call;
        assert_int_equal(run_function(output, sizeof output, call_wrongly, &call), 1);
        assert_contains(output, wrong[i].message);
    }
    Case last = normal_case(6, 9);
    update(devices[0], &last, tensor_none(), (MuonMatrix){8, 9, 6, 9, 0, 1, 0}, (Muon){0.9f, 1});
    close_case(&last); /* up to the last number of the buffer */
}

int main(void) { return tests_run(open_devices, close_devices); }
