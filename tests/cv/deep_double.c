/* The double-precision FLIM network against the golden values of PyTorch in float64: the specification's batch through
 * the whole network, and three steps of Adam of a small one, as it is and linear.
 *
 * Two ways of adding up float64 differ by 1e-12 or so of a tensor's norm; 1e-8 is far below what any error makes. What
 * a file holds as F32 is rounded, by at most half of 2^-23 each number: 6e-8 of the norm. */
#include "tests/cv/double.h"
#include "tests/cv/golden.h"
#include "tests/files.h"

static const double tolerance = 1e-8;
static double worst;

/* Numbers of a file in double; *rounding: of how they are stored. */
static double *doubles(const TensorFile *file, const char *prefix, const char *name, int64_t *count, double *rounding) {
    const StoredTensor *tensor = find(file, prefix, name);
    bool wide = tensor->bytes == (size_t)tensor->count * sizeof(double);
    double *out = xmalloc((size_t)(tensor->count + 1) * sizeof *out);
    float *narrow = wide ? NULL : floats(file, prefix, name);
    if (wide) memcpy(out, tensor->data, (size_t)tensor->count * sizeof *out);
    for (int64_t i = 0; i < tensor->count && !wide; i++) out[i] = (double)narrow[i];
    free(narrow);
    *count = tensor->count;
    *rounding = wide ? 0 : 0x1p-24;
    return out;
}

/* Norm-wise. got [n]; of more than 1024 numbers some tensors have only every 97th. */
static void check(const TensorFile *file, const char *prefix, const char *name, const double *got, int64_t n) {
    int64_t stored;
    double rounding, error = 0, norm = 0, *want = doubles(file, prefix, name, &stored, &rounding);
    int64_t step = stored == n ? 1 : 97;
    assert_int_equal(stored, (n + step - 1) / step);
    for (int64_t i = 0; i < stored; i++) {
        error += (got[i * step] - want[i]) * (got[i * step] - want[i]);
        norm += want[i] * want[i];
    }
    error = sqrt(error / norm);
    if (!(error <= tolerance + rounding)) fail_msg("%s%s: relative error %.3g", prefix, name, error);
    if (!rounding) worst = fmax(worst, error);
    free(want);
}

static double sum_of(const double *x, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i];
    return sum;
}

static double length_of(const double *x, int64_t n) {
    double squares = 0;
    for (int64_t i = 0; i < n; i++) squares += x[i] * x[i];
    return sqrt(squares);
}

static double gradient_norm(const CvDouble *net) {
    double squares = 0;
    for (int p = 0; p < net->n_params; p++) squares += pow(length_of(net->params[p].gradient, net->params[p].count), 2);
    return sqrt(squares);
}

static void check_running(const TensorFile *file, const char *prefix, const CvDouble *net) {
    for (const Unit *u = net->units; u < net->units + LOGIT; u++) {
        char *mean = kept_format("%s.running_mean", u->norm), *var = kept_format("%s.running_var", u->norm);
        check(file, prefix, mean, u->running_mean, u->outputs);
        check(file, prefix, var, u->running_var, u->outputs);
    }
}

/* Biases before a norm have no gradient, and are not in the file. */
static int check_gradients(const TensorFile *file, const char *prefix, const CvDouble *net) {
    int n = 0;
    for (const DoubleParam *p = net->params; p < net->params + net->n_params; p++) {
        char *name = kept_format("%s%s", prefix, p->name);
        if (tensor_file_find(file, name)) {
            check(file, "", name, p->gradient, p->count);
            n++;
        }
    }
    return n;
}

/* ---- the whole network ---- */

/* Mean, root mean square, and element [3, 1, T/4, H/2, W/2] in torch's order of dimensions. */
static void check_stage(const TensorFile *file, const char *name, Map m) {
    int64_t n = cv_map_rows(m) * m.c;
    int64_t middle = ((int64_t)(3 * m.d[0] + m.d[0] / 4) * m.d[1] + m.d[1] / 2) * m.d[2] + m.d[2] / 2;
    const double got[] = {sum_of(m.v, n) / (double)n, length_of(m.v, n) / sqrt((double)n), m.v[middle * m.c + 1]};
    check(file, "stage.", name, got, 3);
}

static void set_by_formula(CvDouble *net) {
    for (int j = 0; j < net->n_params; j++) {
        DoubleParam *p = &net->params[j];
        double fan_in = (double)p->count / p->dims[0];
        bool gain = p->rank == 1 && ends_with(p->name, ".weight");
        for (int64_t k = 0; k < p->count; k++) {
            double u = cv_golden_uniform((uint64_t)j, (uint64_t)k);
            p->value[k] = p->rank > 1 ? u / sqrt(fan_in) : 0.1 * u + gain;
        }
    }
}

/* Log counts, and the footprint at every time. */
static Map golden_cells(void) {
    Map x = cv_map_new(4, (int[]){256, 21, 21}, 2);
    for (int64_t r = 0; r < cv_map_rows(x); r++) {
        int column = (int)(r % 21), row = (int)(r / 21 % 21), t = (int)(r / 441 % 256), n = (int)(r / 441 / 256);
        x.v[2 * r] = log1p(cv_golden_count(n, t, row, column)) / 10;
        for (t = 0; t < 256 && !cv_golden_count(n, t, row, column);) t++;
        x.v[2 * r + 1] = t < 256;
    }
    return x;
}

static void check_full_gradients(const TensorFile *file, const CvDouble *net) {
    int64_t count;
    double rounding, norm = gradient_norm(net);
    double *sums = doubles(file, "sums.", "grad", &count, &rounding);
    double *norms = doubles(file, "norms.", "grad", &count, &rounding);
    assert_int_equal(count, net->n_params);
    assert_int_equal(check_gradients(file, "grad.", net), net->n_params - 11);
    for (int j = 0; j < net->n_params; j++) {
        const DoubleParam *p = &net->params[j];
        double noise = norms[j] < 2e-11 ? 2e-11 : tolerance * norms[j]; /* a bias before a norm: rounding alone */
        assert_near(length_of(p->gradient, p->count), norms[j], noise);
        assert_near(sum_of(p->gradient, p->count), sums[j], noise);
    }
    check(file, "", "norm", &norm, 1);
    free(sums);
    free(norms);
}

TEST(whole_network_is_the_specified_one) {
    static const double targets[] = {0.025, 0.975, 0.025, 0.975};
    TensorFile file = open_golden("flim_full");
    CvDouble *net = cv_double_new((const int[]){32, 64, 128}, 256, 21, false);
    Map x = golden_cells();
    set_by_formula(net);
    cv_double_forward(net, x, false);
    check(&file, "eval.", "logits", net->logits.v, 4);
    double begin = seconds_now();
    cv_double_forward(net, x, true);
    double middle = seconds_now();
    check(&file, "", "logits", net->logits.v, 4);
    const struct {
        const char *name;
        Map map;
    } stages[] = {{"stem.0", net->units[STEM].s}, {"stem", net->stem},           {"downsample1", net->downsample},
                  {"res_block1", net->block[0]},  {"res_block2", net->block[1]}, {"pool2", net->pool[0]},
                  {"res_block3", net->block[2]},  {"pool3", net->pool[1]}};
    for (int i = 0; i < 8; i++) check_stage(&file, stages[i].name, stages[i].map);
    check_running(&file, "running.", net);
    double between = seconds_now(), loss = cv_double_backward(net, targets);
    print_message("whole network, 4 cells: forward %.1f s, backward %.1f s\n", middle - begin, seconds_now() - between);
    check(&file, "", "loss", &loss, 1);
    assert_near(loss, 0.609818646304, 1.5e-12); /* as it is printed, rounded */
    check_full_gradients(&file, net);
    cv_map_free(&x);
    cv_double_close(net);
    tensor_file_close(&file);
    print_message("largest relative error so far %.2g\n", worst);
}

/* ---- a small network, trained ---- */

/* torch.optim.Adam with weight_decay, behind clip_grad_norm_ to 35. m, v: of all parameters, in their order. */
static double adam_step(CvDouble *net, double *m, double *v, int step) {
    double norm = gradient_norm(net), clip = fmin(1, 35 / (norm + 1e-6));
    for (DoubleParam *p = net->params; p < net->params + net->n_params; p++)
        for (int64_t i = 0; i < p->count; i++, m++, v++) {
            double g = p->gradient[i] * clip + 1e-3 * p->value[i];
            *m = 0.9 * *m + 0.1 * g;
            *v = 0.999 * *v + 0.001 * g * g;
            double root = sqrt(*v / (1 - pow(0.999, step)));
            p->value[i] -= 1e-3 * *m / (1 - pow(0.9, step)) / (root + 1e-8);
        }
    return norm;
}

static void set_from_file(CvDouble *net, const TensorFile *file) {
    for (DoubleParam *p = net->params; p < net->params + net->n_params; p++) {
        int64_t count;
        double rounding, *values = doubles(file, "", p->name, &count, &rounding);
        assert_int_equal(count, p->count);
        memcpy(p->value, values, (size_t)count * sizeof *values);
        free(values);
    }
}

/* batch.x [4, 2, 32, 9, 9], channels last. */
static Map small_cells(const TensorFile *file) {
    Map x = cv_map_new(4, (int[]){32, 9, 9}, 2);
    int64_t count, positions = cv_map_rows(x) / 4;
    double rounding, *values = doubles(file, "batch.", "x", &count, &rounding);
    assert_int_equal(count, 2 * cv_map_rows(x));
    for (int64_t i = 0; i < count; i++)
        x.v[(i / positions / 2 * positions + i % positions) * 2 + i / positions % 2] = values[i];
    free(values);
    return x;
}

static void train_small(const char *prefix, bool linear) {
    TensorFile file = open_golden("flim_small");
    CvDouble *net = cv_double_new((const int[]){8, 16, 32}, 32, 9, linear);
    Map x = small_cells(&file);
    int64_t count, total = 0;
    double rounding, losses[3], norms[3], *targets = doubles(&file, "batch.", "targets", &count, &rounding);
    set_from_file(net, &file);
    for (int p = 0; p < net->n_params; p++) total += net->params[p].count;
    double *m = xcalloc((size_t)total, sizeof *m), *v = xcalloc((size_t)total, sizeof *v);
    char *running = xformat("%srunning.", prefix), *gradients = xformat("%sgrad.", prefix);
    char *after = xformat("%safter.", prefix);
    for (int step = 0; step < 3; step++) {
        cv_double_forward(net, x, true);
        losses[step] = cv_double_backward(net, targets);
        if (!step) {
            check(&file, prefix, "logits", net->logits.v, 4);
            check_running(&file, running, net);
            /* In the linear network the last block's biases are before a norm, too. */
            assert_int_equal(check_gradients(&file, gradients, net), net->n_params - (linear ? 13 : 11));
        }
        norms[step] = adam_step(net, m, v, step + 1);
    }
    check(&file, prefix, "losses", losses, 3);
    check(&file, prefix, "norms", norms, 3);
    check_running(&file, after, net);
    for (int p = 0; p < net->n_params; p++)
        check(&file, after, net->params[p].name, net->params[p].value, net->params[p].count);
    cv_double_forward(net, x, false);
    check(&file, after, "eval_logits", net->logits.v, 4);
    print_message("%ssmall network: largest relative error so far %.2g\n", prefix, worst);
    void *all[] = {m, v, targets, running, gradients, after};
    for (int i = 0; i < 6; i++) free(all[i]);
    cv_map_free(&x);
    cv_double_close(net);
    tensor_file_close(&file);
}

TEST(small_network_trains_as_torch_does) { train_small("", false); }

TEST(linear_network_trains_as_torch_does) { train_small("linear.", true); }
