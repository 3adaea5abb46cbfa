/* The losses of kernels/ops_losses.c, on every instruction set of the processor and with 1, 2 and 3 threads, tested as
 * the layers in test_ops_layers.c. */
#include "tests/kernels/ops_rig.h"

/* Cross-entropy. */

static void run_cross_entropy(const Call *c) {
    poison(c->y);
    cross_entropy_forward(c->device, c->y, c->sum, c->x, c->x.dims[1], c->ids, c->w);
}

/* A probability has the error of its sum. The loss, its logarithm, has the same error. */
static void check_classes(Rig *rig, int64_t n, int64_t classes, float spread, bool weighted) {
    const float scale = 0.7f;
    Call c = {.device = rig->device,
              .y = poisoned(rig, n, 0),
              .sum = poisoned(rig, n, 0),
              .x = normal(rig, n, classes),
              .w = weighted ? normal(rig, n, 0) : tensor_none(),
              .ids = below(rig, n, (uint32_t)classes)};
    for (int64_t i = 0; i < n * classes; i++) floats(c.x)[i] *= spread;
    for (int64_t i = 1; i < n; i += 5) integers(c.ids)[i] = -1 - (int32_t)i;
    for (int64_t i = 2; i < n; i += 3) { /* the largest logit occurs twice: the first one counts */
        floats(c.x)[i * classes + classes / 3] = floats(c.x)[i * classes + classes - 1] = 5 * spread;
        if (i % 2 && integers(c.ids)[i] >= 0) integers(c.ids)[i] = (int32_t)(classes / 3);
        if (i % 2 == 0 && integers(c.ids)[i] >= 0) integers(c.ids)[i] = (int32_t)(classes - 1);
    }
    double *loss = doubles(rig, n), *correct = doubles(rig, n), *dz = widened(rig, c.x), *ones = doubles(rig, n);
    for (int64_t i = 0; i < n; i++) {
        double *z = dz + i * classes, largest = z[0], sum = 0;
        int64_t first = 0, target = integers(c.ids)[i];
        for (int64_t j = 1; j < classes; j++)
            if (z[j] > largest) largest = z[first = j];
        for (int64_t j = 0; j < classes; j++) sum += exp(z[j] - largest);
        double weight = weighted ? (double)floats(c.w)[i] : 1;
        loss[i] = target < 0 ? 0 : weight * (log(sum) + largest - z[target]);
        correct[i] = first == target;
        for (int64_t j = 0; j < classes; j++)
            z[j] = target < 0 ? 0 : (double)scale * weight * (exp(z[j] - largest) / sum - (j == target));
        ones[i] = (double)scale;
    }
    Tensor before = tensor(rig, DTYPE_F32, n, classes), dlogits = tensor(rig, DTYPE_F32, n, classes);
    Tensor loss2 = poisoned(rig, n, 0), correct2 = poisoned(rig, n, 0);
    memcpy(before.data, c.x.data, tensor_bytes(c.x));
    memcpy(dlogits.data, c.x.data, tensor_bytes(c.x));
    run_cross_entropy(&c);
    double tolerance = sum_error(classes, 16);
    expect(rig, "cross_entropy loss", c.y, loss, classes == 1 ? 0 : tolerance);
    expect(rig, "cross_entropy correct", c.sum, correct, 0);
    expect_same(rig, "cross_entropy logits", c.x, before);
    cross_entropy_forward_backward(rig->device, loss2, correct2, dlogits, dlogits.dims[1], c.ids, c.w,
                                   number(rig, scale), tensor_none());
    expect(rig, "cross_entropy loss", loss2, loss, classes == 1 ? 0 : tolerance);
    expect_same(rig, "cross_entropy correct", correct2, c.sum);
    expect(rig, "cross_entropy dlogits", dlogits, dz, tolerance);
    if (classes > 1 && classes < 10000 && spread < 10) /* else a step changes the loss too little */
        expect_gradient(rig, "cross_entropy dlogits", &c, run_cross_entropy, c.x, dlogits, NULL, c.y, ones, tolerance);
}

/* Padding is not read, whatever it holds, and gets the gradient 0; the classes have the bits that they have alone. */
static void check_padding(Rig *rig, int64_t n, int64_t classes, int64_t columns) {
    Tensor dense = normal(rig, n, classes), padded = tensor(rig, DTYPE_F32, n, columns),
           ids = below(rig, n, (uint32_t)classes);
    Tensor loss[2] = {poisoned(rig, n, 0), poisoned(rig, n, 0)},
           correct[2] = {poisoned(rig, n, 0), poisoned(rig, n, 0)};
    for (int64_t i = 0; i < n * columns; i++)
        floats(padded)[i] = i % columns < classes ? floats(dense)[i / columns * classes + i % columns] : NAN;
    integers(ids)[n - 1] = -1;
    for (int train = 0; train < 2; train++) {
        if (train) {
            Tensor scale = number(rig, 0.7f), none = tensor_none();
            cross_entropy_forward_backward(rig->device, loss[0], correct[0], dense, classes, ids, none, scale, none);
            cross_entropy_forward_backward(rig->device, loss[1], correct[1], padded, classes, ids, none, scale, none);
        } else {
            cross_entropy_forward(rig->device, loss[0], correct[0], dense, classes, ids, tensor_none());
            cross_entropy_forward(rig->device, loss[1], correct[1], padded, classes, ids, tensor_none());
        }
        expect_same(rig, "cross_entropy loss beside padding", loss[1], loss[0]);
        expect_same(rig, "cross_entropy correct beside padding", correct[1], correct[0]);
    }
    for (int64_t i = 0; i < n * columns; i++)
        assert_true(floats(padded)[i] ==
                    (i % columns < classes ? floats(dense)[i / columns * classes + i % columns] : 0));
}

static void check_cross_entropy_matches_the_reference(Rig *rig) {
    check_padding(rig, 5, 1, 8);
    check_padding(rig, 5, 53, 56);
    check_padding(rig, 4, 1003, 1008);
    check_classes(rig, 3, 1, 1, false);
    check_classes(rig, 23, 7, 2, false);
    check_classes(rig, 23, 7, 2, true);
    check_classes(rig, 41, 1003, 2, true);
    check_classes(rig, 11, 129, 40, false); /* some exponentials underflow */
    check_classes(rig, 3, 50257, 3, false);
}

/* Soft cross-entropy. */

static void run_soft_cross_entropy(const Call *c) {
    poison(c->y);
    soft_cross_entropy_forward(c->device, c->y, c->sum, c->x, c->branch, c->ids);
}

/* Targets of row i: smoothed and weighted, so that they sum to something else than 1; every fourth row has one class
 * alone, whose other logits may be anything, and every ninth has none. */
static void soft_targets(Tensor targets, Tensor labels) {
    int64_t n = targets.dims[0], classes = targets.dims[1];
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < classes; j++) {
            float smoothed = 0.1f / (float)classes + (j == integers(labels)[i] ? 0.9f : 0), alone = i % 4 == 3;
            floats(targets)[i * classes + j] =
                i % 9 == 8 ? 0 : (alone ? (float)(j == i % classes) : smoothed) * (0.5f + (float)(i % 3));
        }
}

/* Adds to loss, and sets correct, and dz to the gradient of 0.7 sum(loss). */
static void reference_soft_loss(const Call *c, double *loss, double *correct, double *dz) {
    int64_t n = c->x.dims[0], classes = c->x.dims[1];
    for (int64_t i = 0; i < n; i++) {
        const float *z = floats(c->x) + i * classes, *t = floats(c->branch) + i * classes;
        double sum = 0, targets = 0;
        int64_t first = 0;
        for (int64_t j = 1; j < classes; j++) first = z[j] > z[first] ? j : first;
        for (int64_t j = 0; j < classes; j++) sum += exp((double)z[j] - (double)z[first]);
        for (int64_t j = 0; j < classes; j++) {
            targets += (double)t[j];
            if (t[j] != 0) loss[i] -= (double)t[j] * ((double)z[j] - (double)z[first] - log(sum));
        }
        correct[i] = first == integers(c->ids)[i];
        for (int64_t j = 0; j < classes; j++)
            dz[i * classes + j] = (double)0.7f * (targets * exp((double)z[j] - (double)z[first]) / sum - (double)t[j]);
    }
}

static void check_soft_classes(Rig *rig, int64_t n, int64_t classes, float spread) {
    Call c = {.device = rig->device,
              .y = poisoned(rig, n, 0),
              .sum = poisoned(rig, n, 0),
              .x = normal(rig, n, classes),
              .branch = tensor(rig, DTYPE_F32, n, classes),
              .ids = below(rig, n, (uint32_t)classes)};
    for (int64_t i = 0; i < n * classes; i++) floats(c.x)[i] *= spread;
    for (int64_t i = 2; i < n; i += 3) /* the largest logit occurs twice: the first one counts */
        floats(c.x)[i * classes + classes / 3] = floats(c.x)[i * classes + classes - 1] = 5 * spread;
    for (int64_t i = 2; i < n; i += 3) integers(c.ids)[i] = (int32_t)(i % 2 ? classes / 3 : classes - 1);
    for (int64_t i = 5; i < n; i += 11) integers(c.ids)[i] = -1;
    soft_targets(c.branch, c.ids);
    for (int64_t i = 3; i < n && spread > 10; i += 4) /* a class of no probability and no target costs nothing */
        if (classes > 1) floats(c.x)[i * classes + (i + 1) % classes] = -INFINITY;
    double *loss = doubles(rig, n), *correct = doubles(rig, n), *dz = doubles(rig, n * classes),
           *ones = doubles(rig, n);
    reference_soft_loss(&c, loss, correct, dz);
    for (int64_t i = 0; i < n; i++) ones[i] = (double)0.7f;
    Tensor before = tensor(rig, DTYPE_F32, n, classes), dlogits = tensor(rig, DTYPE_F32, n, classes);
    Tensor loss2 = poisoned(rig, n, 0), correct2 = poisoned(rig, n, 0);
    memcpy(before.data, c.x.data, tensor_bytes(c.x));
    memcpy(dlogits.data, c.x.data, tensor_bytes(c.x));
    run_soft_cross_entropy(&c);
    double tolerance = sum_error(classes, 16);
    expect(rig, "soft_cross_entropy loss", c.y, loss, tolerance);
    expect(rig, "soft_cross_entropy correct", c.sum, correct, 0);
    expect_same(rig, "soft_cross_entropy logits", c.x, before);
    soft_cross_entropy_forward_backward(rig->device, loss2, correct2, dlogits, c.branch, c.ids, number(rig, 0.7f),
                                        tensor_none());
    expect_same(rig, "soft_cross_entropy loss", loss2, c.y);
    expect_same(rig, "soft_cross_entropy correct", correct2, c.sum);
    expect(rig, "soft_cross_entropy dlogits", dlogits, dz, tolerance);
    if (classes > 1 && spread < 10)
        expect_gradient(rig, "soft_cross_entropy dlogits", &c, run_soft_cross_entropy, c.x, dlogits, NULL, c.y, ones,
                        tolerance);
}

static void check_soft_cross_entropy_matches_the_reference(Rig *rig) {
    check_soft_classes(rig, 3, 1, 1);
    check_soft_classes(rig, 41, 2, 1);
    check_soft_classes(rig, 37, 7, 2);
    check_soft_classes(rig, 23, 300, 2);
    check_soft_classes(rig, 23, 31, 40); /* some exponentials underflow */
}

/* With all of a row's target on its label the loss is that of cross_entropy. */
static void check_soft_cross_entropy_of_one_class_is_cross_entropy(Rig *rig) {
    const int64_t n = 29, classes = 5;
    Tensor x = normal(rig, n, classes), x2 = tensor(rig, DTYPE_F32, n, classes), ids = below(rig, n, 5);
    Tensor soft = tensor(rig, DTYPE_F32, n, classes), weights = normal(rig, n, 0), loss = poisoned(rig, n, 0);
    Tensor correct = poisoned(rig, n, 0), loss2 = poisoned(rig, n, 0), correct2 = poisoned(rig, n, 0);
    for (int64_t i = 0; i < n; i++) {
        floats(weights)[i] = fabsf(floats(weights)[i]);
        floats(soft)[i * classes + integers(ids)[i]] = floats(weights)[i];
    }
    memcpy(x2.data, x.data, tensor_bytes(x));
    cross_entropy_forward_backward(rig->device, loss, correct, x, x.dims[1], ids, weights, number(rig, 0.7f),
                                   tensor_none());
    soft_cross_entropy_forward_backward(rig->device, loss2, correct2, x2, soft, ids, number(rig, 0.7f), tensor_none());
    expect(rig, "soft_cross_entropy loss of one class", loss2, widened(rig, loss), 8 * U);
    expect(rig, "soft_cross_entropy gradient of one class", x2, widened(rig, x), 8 * U);
    expect_same(rig, "soft_cross_entropy correct of one class", correct2, correct);
}

/* Squared error. */

static void run_squared_error(const Call *c) {
    poison(c->y);
    squared_error_forward(c->device, c->y, c->x, c->branch);
}

static void check_squared_error_matches_the_reference(Rig *rig) {
    static const int64_t sizes[][2] = {{1, 1}, {37, 16}, {5, 131}};
    const float scale = 0.7f;
    for (int s = 0; s < 3; s++) {
        int64_t n = sizes[s][0], columns = sizes[s][1];
        Call c = {.device = rig->device,
                  .y = poisoned(rig, n, 0),
                  .x = normal(rig, n, columns),
                  .branch = normal(rig, n, columns)};
        double *loss = doubles(rig, n), *dy = doubles(rig, n * columns), *weights = doubles(rig, n);
        for (int64_t i = 0; i < n * columns; i++) {
            double difference = (double)floats(c.x)[i] - (double)floats(c.branch)[i];
            loss[i / columns] += difference * difference;
            dy[i] = 2 * (double)scale * difference;
            weights[i / columns] = (double)scale;
        }
        Tensor y = tensor(rig, DTYPE_F32, n, columns), loss2 = poisoned(rig, n, 0);
        memcpy(y.data, c.x.data, tensor_bytes(y));
        run_squared_error(&c);
        expect(rig, "squared_error loss", c.y, loss, sum_error(columns, 4));
        squared_error_forward_backward(rig->device, loss2, y, c.branch, number(rig, scale), tensor_none());
        expect_same(rig, "squared_error loss", loss2, c.y);
        expect(rig, "squared_error dy", y, dy, 4 * U);
        expect_gradient(rig, "squared_error dy", &c, run_squared_error, c.x, y, NULL, c.y, weights,
                        sum_error(columns, 4));
    }
}

/* Binary cross-entropy. */

static void run_binary_cross_entropy(const Call *c) {
    poison(c->y);
    binary_cross_entropy_forward(c->device, c->y, c->sum, c->x, c->w, c->bias);
}

/* Returns log(1 + exp z) - t z without overflow, and its derivative. The loss has only its own rounding errors, even
 * where it is nearly 0. The gradient is a difference of two numbers, whose sum is *size. */
static double binary_loss(double z, double t, double *derivative, double *size) {
    double e = exp(-fabs(z)), other = e / (1 + e), missing = z > 0 ? 1 - t : t;
    *derivative = z > 0 ? missing - other : other - missing;
    *size = missing + other;
    return missing * fabs(z) + log1p(e);
}

/* Combines every logit with every target: the largest of f32 and f16, and logits whose exponential is nearly 0. */
static void check_binary_cross_entropy_does_not_overflow(Rig *rig) {
    static const float z[] = {-3e38f, -65504, -100, -89, -20, -1.5f, -1e-3f, 0, 1e-6f, 0.3f, 2, 17, 88, 100, 65504};
    static const float t[] = {0, 0.025f, 0.3f, 0.5f, 0.975f, 1};
    enum { TARGETS = sizeof t / sizeof *t, ROWS = TARGETS * (int)(sizeof z / sizeof *z) };
    const float scale = 0.7f;
    Call c = {.device = rig->device,
              .y = poisoned(rig, ROWS, 0),
              .sum = poisoned(rig, ROWS, 0),
              .x = tensor(rig, DTYPE_F32, ROWS, 1),
              .w = tensor(rig, DTYPE_F32, ROWS, 0),
              .bias = tensor(rig, DTYPE_F32, ROWS, 0)};
    Tensor dz = tensor(rig, DTYPE_F32, ROWS, 1), loss = poisoned(rig, ROWS, 0), correct = poisoned(rig, ROWS, 0);
    for (int i = 0; i < ROWS; i++) {
        floats(c.x)[i] = floats(dz)[i] = z[i / TARGETS];
        floats(c.w)[i] = t[i % TARGETS];
        floats(c.bias)[i] = (float)(i % 7 < 3);
    }
    run_binary_cross_entropy(&c);
    binary_cross_entropy_forward_backward(rig->device, loss, correct, dz, c.w, c.bias, number(rig, scale),
                                          tensor_none());
    for (int i = 0; i < ROWS; i++) {
        double derivative, size, want = binary_loss((double)z[i / TARGETS], (double)t[i % TARGETS], &derivative, &size);
        assert_near(floats(c.y)[i], want, 6 * U * want + FLT_MIN);
        assert_near(floats(dz)[i], (double)scale * derivative, 6 * U * (double)scale * size + FLT_MIN);
        assert_true(floats(c.sum)[i] == ((z[i / TARGETS] > 0) == (i % 7 < 3)));
    }
    expect_same(rig, "binary_cross_entropy loss", loss, c.y);
    expect_same(rig, "binary_cross_entropy correct", correct, c.sum);
    hash_output(rig, dz);
}

static void check_binary_cross_entropy_has_the_gradients_of_its_loss(Rig *rig) {
    enum { ROWS = 37 };
    const float scale = 0.7f;
    Call c = {.device = rig->device,
              .y = poisoned(rig, ROWS, 0),
              .sum = poisoned(rig, ROWS, 0),
              .x = normal(rig, ROWS, 1),
              .w = tensor(rig, DTYPE_F32, ROWS, 0),
              .bias = normal(rig, ROWS, 0)};
    Tensor dz = tensor(rig, DTYPE_F32, ROWS, 1);
    memcpy(dz.data, c.x.data, tensor_bytes(dz));
    double *weights = doubles(rig, ROWS);
    for (int i = 0; i < ROWS; i++) {
        floats(c.w)[i] = (float)i / (ROWS - 1);
        weights[i] = (double)scale;
    }
    binary_cross_entropy_forward_backward(rig->device, c.y, c.sum, dz, c.w, c.bias, number(rig, scale), tensor_none());
    expect_gradient(rig, "binary_cross_entropy dlogits", &c, run_binary_cross_entropy, c.x, dz, NULL, c.y, weights,
                    6 * U);
}

/* Normalised rows, NT-Xent. */

static void run_normalize(const Call *c) {
    poison(c->y);
    normalize_rows_forward(c->device, c->y, c->mean, c->x);
}

/* short_rows: one row is zero, and one is shorter than the shortest row that is normalised. */
static void check_normalize(Rig *rig, int64_t n, int64_t columns, bool short_rows) {
    Call c = {.device = rig->device,
              .y = poisoned(rig, n, columns),
              .mean = poisoned(rig, n, 0),
              .x = normal(rig, n, columns)};
    for (int64_t j = 0; j < columns && short_rows; j++) {
        floats(c.x)[j] = 0;
        floats(c.x)[columns + j] *= 1e-14f;
    }
    Tensor dy = normal(rig, n, columns), dx = poisoned(rig, n, columns);
    double *x = widened(rig, c.x), *up = widened(rig, dy), *y = doubles(rig, columns), *want = doubles(rig, columns);
    run_normalize(&c);
    normalize_rows_backward(rig->device, dx, dy, c.y, c.mean);
    for (int64_t i = 0; i < n; i++) {
        const double *in = x + i * columns;
        double norm = sqrt(dot_product(in, in, columns)), divisor = fmax(norm, 1e-12);
        for (int64_t j = 0; j < columns; j++) y[j] = in[j] / divisor;
        double dot = norm < 1e-12 ? 0 : dot_product(y, up + i * columns, columns);
        for (int64_t j = 0; j < columns; j++) want[j] = (up[i * columns + j] - y[j] * dot) / divisor;
        expect(rig, "normalize_rows norm", tensor_rows(c.mean, i, 1), &norm, sum_error(columns, 4));
        expect(rig, "normalize_rows y", tensor_rows(c.y, i, 1), y, sum_error(columns, 8));
        if (columns > 1) expect(rig, "normalize_rows dx", tensor_rows(dx, i, 1), want, 2 * sum_error(columns, 16));
    }
    if (columns > 1 && !short_rows)
        expect_gradient(rig, "normalize_rows dx", &c, run_normalize, c.x, dx, NULL, c.y, up, sum_error(columns, 8));
}

static void check_normalize_rows_matches_the_reference(Rig *rig) {
    check_normalize(rig, 3, 1, false);
    check_normalize(rig, 37, 45, false);
    check_normalize(rig, 6, 128, true);
}

static void run_nt_xent(const Call *c) {
    poison(c->y);
    nt_xent_forward(c->device, c->y, c->sum, c->x, c->temperature);
}

/* Computes the lse and the loss of each row, and the gradient of scale times the sum of the losses. */
static void reference_nt_xent(const double *z, int64_t n, int64_t c, double temperature, double scale, double *loss,
                              double *lse, double *dz) {
    for (int64_t i = 0; i < n; i++) {
        int64_t partner = (i + n / 2) % n;
        double sum = 0;
        for (int64_t j = 0; j < n; j++)
            if (j != i) sum += exp(dot_product(z + i * c, z + j * c, c) / temperature);
        lse[i] = log(sum);
        loss[i] = lse[i] - dot_product(z + i * c, z + partner * c, c) / temperature;
        for (int64_t j = 0; j < n; j++) {
            if (j == i) continue;
            double ds = exp(dot_product(z + i * c, z + j * c, c) / temperature - lse[i]) - (j == partner);
            for (int64_t e = 0; e < c; e++) {
                dz[i * c + e] += scale / temperature * ds * z[j * c + e];
                dz[j * c + e] += scale / temperature * ds * z[i * c + e];
            }
        }
    }
}

/* Rows have length one. A score is a product of size 1 over the temperature, and the exponent in sums over n. Losses
 * and gradients (times the temperature) are of size 1 or more. */
static void check_nt_xent(Rig *rig, int64_t n, int64_t columns, float temperature) {
    const float scale = 0.7f;
    Call c = {.device = rig->device,
              .y = poisoned(rig, n, 0),
              .sum = poisoned(rig, n, 0),
              .x = poisoned(rig, n, columns),
              .temperature = temperature};
    normalize_rows_forward(rig->device, c.x, poisoned(rig, n, 0), normal(rig, n, columns));
    double *z = widened(rig, c.x), *loss = doubles(rig, n), *lse = doubles(rig, n), *dz = doubles(rig, n * columns);
    double *weights = doubles(rig, n), tolerance = sum_error(columns, 4) / (double)temperature + sum_error(n, 16);
    for (int64_t i = 0; i < n; i++) weights[i] = (double)scale;
    reference_nt_xent(z, n, columns, (double)temperature, (double)scale, loss, lse, dz);
    run_nt_xent(&c);
    expect(rig, "nt_xent loss", c.y, loss, tolerance);
    expect(rig, "nt_xent lse", c.sum, lse, tolerance);
    Tensor got = poisoned(rig, n, columns), again = poisoned(rig, n, columns);
    Tensor loss_scale = tensor(rig, DTYPE_F32, LOSS_SCALE_FIELDS, 0);
    floats(loss_scale)[LOSS_SCALE_FACTOR] = 1024;
    nt_xent_backward(rig->device, got, c.x, c.sum, temperature, number(rig, scale), tensor_none());
    nt_xent_backward(rig->device, again, c.x, c.sum, temperature, number(rig, scale / 1024), loss_scale);
    expect(rig, "nt_xent dz", got, dz, 2 * tolerance);
    expect_same(rig, "nt_xent dz, scaled", again, got);
    if (n > 2 && temperature > 0.2f) /* else a step is too long for the exponentials */
        expect_gradient(rig, "nt_xent dz", &c, run_nt_xent, c.x, got, NULL, c.y, weights, tolerance);
}

/* Compares the mean over rows of sines and cosines with the result of an independent framework. */
static void check_nt_xent_golden(Rig *rig) {
    Tensor x = tensor(rig, DTYPE_F32, 8, 6), z = poisoned(rig, 8, 6), norm = poisoned(rig, 8, 0);
    Tensor loss = poisoned(rig, 8, 0), lse = poisoned(rig, 8, 0);
    for (int k = 0; k < 24; k++) {
        floats(x)[k] = (float)sin(0.9 * k);
        floats(x)[24 + k] = (float)cos(0.4 * k);
    }
    normalize_rows_forward(rig->device, z, norm, x);
    nt_xent_forward(rig->device, loss, lse, z, 0.07f);
    double mean = 0;
    for (int i = 0; i < 8; i++) mean += (double)floats(loss)[i] / 8;
    assert_true(fabs(mean - 8.516661757361) <= sum_error(6, 16) / 0.07);
}

static void check_nt_xent_matches_the_reference(Rig *rig) {
    check_nt_xent(rig, 2, 5, 0.07f);
    check_nt_xent(rig, 70, 37, 0.07f);
    check_nt_xent(rig, 70, 37, 0.5f);
    check_nt_xent(rig, 258, 128, 0.07f);
    check_nt_xent(rig, 4, 1, 1);
    check_nt_xent_golden(rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ops_test(cross_entropy_matches_the_reference),
        ops_test(soft_cross_entropy_matches_the_reference),
        ops_test(soft_cross_entropy_of_one_class_is_cross_entropy),
        ops_test(squared_error_matches_the_reference),
        ops_test(binary_cross_entropy_does_not_overflow),
        ops_test(binary_cross_entropy_has_the_gradients_of_its_loss),
        ops_test(normalize_rows_matches_the_reference),
        ops_test(nt_xent_matches_the_reference),
        ops_last_test,
    };
    return cmocka_run_group_tests(tests, open_devices, close_devices);
}
