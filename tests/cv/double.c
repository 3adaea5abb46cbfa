#include "tests/cv/double.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- maps ---- */

int64_t cv_map_rows(Map m) { return (int64_t)m.n * m.d[0] * m.d[1] * m.d[2]; }

Map cv_map_new(int n, const int d[3], int c) {
    Map m = {NULL, n, {d[0], d[1], d[2]}, c};
    m.v = xcalloc((size_t)(cv_map_rows(m) * c), sizeof *m.v);
    return m;
}

static Map cv_map_like(Map m) { return cv_map_new(m.n, m.d, m.c); }

void cv_map_free(Map *m) {
    free(m->v);
    m->v = NULL;
}

/* ---- convolution ---- */

/* Nine tenths of the work are done in one loop: it is compiled for wider vectors too, and sanitizers, with which it
 * would take minutes, leave it alone. */
#if defined __x86_64__ && defined __GNUC__ && !defined __clang__
#define INNERMOST __attribute__((target_clones("avx2", "default"), no_sanitize("address", "undefined")))
#else
#define INNERMOST
#endif

/* y[i] += sum of factors[k] rows[k * stride + i], k < count <= 4: as many rows at once make the additions' loads and
 * stores a fourth. */
INNERMOST static void add_rows(double *restrict y, const double *restrict rows, int64_t stride, const double *factors,
                               int count, int n) {
    double f[4] = {0};
    const double *r[4];
    for (int k = 0; k < 4; k++) {
        r[k] = rows + (k < count ? k : 0) * stride;
        if (k < count) f[k] = factors[k];
    }
    const double *restrict a = r[0], *restrict b = r[1], *restrict c = r[2], *restrict d = r[3];
#pragma omp simd
    for (int i = 0; i < n; i++) y[i] += f[0] * a[i] + f[1] * b[i] + f[2] * c[i] + f[3] * d[i];
}

/* Along one axis: the position in the input that a tap meets at position i of the output; back: the position in the
 * output that meets i of the input so. Negative: none. `limit` positions there are. */
static int met_by(const Unit *u, int axis, int i, int tap, bool back, int limit) {
    int stride = u->stride[axis], padding = u->taps[axis] / 2,
        at = back ? i + padding - tap : i * stride + tap - padding;
    if (back && at % stride) return -1;
    if (back) at /= stride;
    return at < limit ? at : -1;
}

/* Row t, h of a sample of `to`: all taps that meet a row of `from`, a sample too. w [taps, from.c, to.c]. */
static void convolve_row(Map to, double *y, Map from, const double *x, const double *w, const Unit *u, int t, int h,
                         bool back) {
    for (int tap = 0; tap < u->taps[0] * u->taps[1] * u->taps[2]; tap++) {
        int kw = tap % u->taps[2], kh = tap / u->taps[2] % u->taps[1], kt = tap / u->taps[2] / u->taps[1];
        int from_t = met_by(u, 0, t, kt, back, from.d[0]), from_h = met_by(u, 1, h, kh, back, from.d[1]);
        if (from_t < 0 || from_h < 0) continue;
        const double *row = x + (int64_t)(from_t * from.d[1] + from_h) * from.d[2] * from.c;
        for (int c = 0; c < from.c; c += 4)
            for (int i = 0; i < to.d[2]; i++) {
                int from_w = met_by(u, 2, i, kw, back, from.d[2]);
                if (from_w >= 0)
                    add_rows(y + i * to.c, w + ((int64_t)tap * from.c + c) * to.c, to.c, row + from_w * from.c + c,
                             from.c - c < 4 ? from.c - c : 4, to.c);
            }
    }
}

/* to += from through the convolution; back: the way that gradients go. */
static void convolve(Map to, Map from, const double *w, const Unit *u, bool back) {
#pragma omp parallel for schedule(dynamic, 8)
    for (int r = 0; r < to.n * to.d[0] * to.d[1]; r++) {
        int h = r % to.d[1], t = r / to.d[1] % to.d[0], sample = r / to.d[1] / to.d[0];
        convolve_row(to, to.v + (int64_t)r * to.d[2] * to.c, from,
                     from.v + sample * (cv_map_rows(from) / from.n) * from.c, w, u, t, h, back);
    }
}

/* dw [inputs, outputs] of one tap += sum over positions of x^T ds, up to four positions of a row at once. */
static void correlate_tap(double *dw, Map x, Map ds, const Unit *u, int tap) {
    int kw = tap % u->taps[2], kh = tap / u->taps[2] % u->taps[1], kt = tap / u->taps[2] / u->taps[1];
    for (int r = 0; r < ds.n * ds.d[0] * ds.d[1]; r++) {
        int t = met_by(u, 0, r / ds.d[1] % ds.d[0], kt, false, x.d[0]),
            h = met_by(u, 1, r % ds.d[1], kh, false, x.d[1]);
        if (t < 0 || h < 0) continue;
        const double *row = x.v + (((int64_t)(r / ds.d[1] / ds.d[0]) * x.d[0] + t) * x.d[1] + h) * x.d[2] * x.c;
        for (int i = 0, count; i < ds.d[2]; i += count) {
            int at = met_by(u, 2, i, kw, false, x.d[2]);
            count = 1;
            if (at < 0) continue;
            while (count < 4 && i + count < ds.d[2] && met_by(u, 2, i + count, kw, false, x.d[2]) >= 0) count++;
            for (int c = 0; c < x.c; c++) {
                double factors[4];
                for (int k = 0; k < count; k++) factors[k] = row[(at + k * u->stride[2]) * x.c + c];
                add_rows(dw + c * ds.c, ds.v + ((int64_t)r * ds.d[2] + i) * ds.c, ds.c, factors, count, ds.c);
            }
        }
    }
}

/* torch's [outputs, inputs, taps] as [taps, inputs, outputs]; back: as [taps, outputs, inputs]. */
static double *weights_by_tap(const Unit *u, bool back) {
    int64_t taps = u->taps[0] * u->taps[1] * u->taps[2], C = u->inputs, O = u->outputs;
    double *w = xmalloc((size_t)(taps * C * O) * sizeof *w);
    for (int64_t o = 0; o < O; o++)
        for (int64_t c = 0; c < C; c++)
            for (int64_t k = 0; k < taps; k++)
                w[back ? (k * O + o) * C + c : (k * C + c) * O + o] = u->weight->value[(o * C + c) * taps + k];
    return w;
}

/* ---- units ---- */

/* sums[c] = sum over the rows of a b, or of a alone. */
static void column_sums(double *sums, Map a, const double *b) {
    int c = a.c;
    memset(sums, 0, (size_t)c * sizeof *sums);
#pragma omp parallel for schedule(static) reduction(+ : sums[:c])
    for (int64_t r = 0; r < cv_map_rows(a); r++)
        for (int i = 0; i < c; i++) sums[i] += a.v[r * c + i] * (b ? b[r * c + i] : 1);
}

/* x^ = (s - mean) rstd. */
static Map normalized(const Unit *u) {
    Map x = cv_map_like(u->s);
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < cv_map_rows(x); r++)
        for (int i = 0; i < x.c; i++) x.v[r * x.c + i] = (u->s.v[r * x.c + i] - u->mean[i]) * u->rstd[i];
    return x;
}

/* The batch's mean and variance, which also move the running ones: these by the variance with n - 1. */
static void measure(Unit *u) {
    double n = (double)cv_map_rows(u->s), squares[u->outputs];
    column_sums(u->mean, u->s, NULL);
    for (int i = 0; i < u->outputs; i++) {
        u->mean[i] /= n;
        u->rstd[i] = 1;
    }
    Map centred = normalized(u);
    column_sums(squares, centred, centred.v);
    cv_map_free(&centred);
    for (int i = 0; i < u->outputs; i++) {
        u->rstd[i] = 1 / sqrt(squares[i] / n + 1e-5);
        u->running_mean[i] = 0.9 * u->running_mean[i] + 0.1 * u->mean[i];
        u->running_var[i] = 0.9 * u->running_var[i] + 0.1 * squares[i] / (n - 1);
    }
}

static Map unit_forward(Unit *u, Map x, bool train) {
    int d[3];
    for (int k = 0; k < 3; k++) d[k] = (x.d[k] + u->taps[k] / 2 * 2 - u->taps[k]) / u->stride[k] + 1;
    double *w = weights_by_tap(u, false);
    u->x = x;
    u->s = cv_map_new(x.n, d, u->outputs);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < cv_map_rows(u->s) * u->outputs; i++) u->s.v[i] = u->bias->value[i % u->outputs];
    convolve(u->s, x, w, u, false);
    free(w);
    if (!u->gain) {
        Map y = cv_map_like(u->s);
        memcpy(y.v, u->s.v, (size_t)(cv_map_rows(y) * y.c) * sizeof *y.v);
        return y;
    }
    if (train) measure(u);
    for (int i = 0; i < u->outputs && !train; i++) {
        u->mean[i] = u->running_mean[i];
        u->rstd[i] = 1 / sqrt(u->running_var[i] + 1e-5);
    }
    Map y = normalized(u);
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < cv_map_rows(y); r++)
        for (int i = 0; i < y.c; i++) y.v[r * y.c + i] = u->gain->value[i] * y.v[r * y.c + i] + u->shift->value[i];
    return y;
}

/* dy becomes ds = gain rstd (dy - mean of dy - x^ mean of (dy x^)). */
static void norm_backward(Unit *u, Map dy) {
    Map x = normalized(u);
    double n = (double)cv_map_rows(x), *dgain = u->gain->gradient, *dshift = u->shift->gradient;
    column_sums(dshift, dy, NULL);
    column_sums(dgain, dy, x.v);
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < cv_map_rows(x); r++)
        for (int i = 0; i < x.c; i++) {
            double *d = &dy.v[r * x.c + i];
            *d = u->gain->value[i] * u->rstd[i] * (*d - dshift[i] / n - x.v[r * x.c + i] * dgain[i] / n);
        }
    cv_map_free(&x);
}

/* Computes the gradients of the unit's parameters. Returns that of its input, or no map if it is not needed. Takes dy.
 */
static Map unit_backward(Unit *u, Map dy, bool wanted) {
    int taps = u->taps[0] * u->taps[1] * u->taps[2];
    int64_t C = u->inputs, O = u->outputs;
    double *dw = xcalloc((size_t)(taps * C * O), sizeof *dw);
    Map dx = {0};
    if (u->gain) norm_backward(u, dy);
    column_sums(u->bias->gradient, dy, NULL);
#pragma omp parallel for schedule(dynamic)
    for (int tap = 0; tap < taps; tap++) correlate_tap(dw + tap * C * O, u->x, dy, u, tap);
    for (int64_t i = 0; i < taps * C * O; i++) u->weight->gradient[(i % O * C + i / O % C) * taps + i / O / C] = dw[i];
    free(dw);
    if (wanted) {
        double *w = weights_by_tap(u, true);
        dx = cv_map_like(u->x);
        convolve(dx, dy, w, u, true);
        free(w);
    }
    cv_map_free(&dy);
    return dx;
}

/* ---- what lies between them ---- */

/* In place; dy of y = leaky_relu(x), which has the sign of x. */
static void activate(const CvDouble *net, Map y) {
    if (net->linear) return;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < cv_map_rows(y) * y.c; i++)
        if (!(y.v[i] > 0)) y.v[i] *= 0.01;
}

static void activate_backward(const CvDouble *net, Map dy, Map y) {
    if (net->linear) return;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < cv_map_rows(y) * y.c; i++)
        if (!(y.v[i] > 0)) dy.v[i] *= 0.01;
}

static void add(Map to, Map from) {
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < cv_map_rows(to) * to.c; i++) to.v[i] += from.v[i];
}

/* The larger of frames 2t and 2t + 1, the first if they are equal; linear: their mean. The backward gives dy to what
 * was taken. */
static Map pool_forward(const CvDouble *net, Map x) {
    Map y = cv_map_new(x.n, (int[]){x.d[0] / 2, x.d[1], x.d[2]}, x.c);
    int64_t frame = (int64_t)x.d[1] * x.d[2] * x.c;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < cv_map_rows(y) * y.c; i++) {
        int64_t t = i / frame % y.d[0], sample = i / frame / y.d[0];
        const double *a = x.v + (sample * x.d[0] + 2 * t) * frame + i % frame, *b = a + frame;
        y.v[i] = net->linear ? (*a + *b) / 2 : *b > *a ? *b : *a;
    }
    return y;
}

static Map pool_backward(const CvDouble *net, Map dy, Map x) {
    Map dx = cv_map_like(x);
    int64_t frame = (int64_t)x.d[1] * x.d[2] * x.c;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < cv_map_rows(dy) * dy.c; i++) {
        int64_t t = i / frame % dy.d[0], sample = i / frame / dy.d[0];
        int64_t at = (sample * x.d[0] + 2 * t) * frame + i % frame;
        bool second = x.v[at + frame] > x.v[at];
        dx.v[at] = net->linear ? dy.v[i] / 2 : second ? 0 : dy.v[i];
        dx.v[at + frame] = net->linear ? dy.v[i] / 2 : second ? dy.v[i] : 0;
    }
    cv_map_free(&dy);
    return dx;
}

static Map mean_forward(Map x) {
    Map y = cv_map_new(x.n, (int[]){1, 1, 1}, x.c);
    int64_t rows = cv_map_rows(x) / x.n;
    for (int64_t i = 0; i < cv_map_rows(x) * x.c; i++) y.v[i / x.c / rows * x.c + i % x.c] += x.v[i] / (double)rows;
    return y;
}

static Map mean_backward(Map dy, Map x) {
    Map dx = cv_map_like(x);
    int64_t rows = cv_map_rows(x) / x.n;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < cv_map_rows(x) * x.c; i++) dx.v[i] = dy.v[i / x.c / rows * x.c + i % x.c] / (double)rows;
    cv_map_free(&dy);
    return dx;
}

/* ---- the network ---- */

/* middle = act(unit 0 of x), y = act(unit 1 of middle + unit 2 of x, or x). */
static Map block_forward(CvDouble *net, int block, int unit, Map x, bool train) {
    Map middle = unit_forward(&net->units[unit], x, train);
    activate(net, middle);
    Map y = unit_forward(&net->units[unit + 1], middle, train);
    if (block) {
        Map way = unit_forward(&net->units[unit + 2], x, train);
        add(y, way);
        cv_map_free(&way);
    } else {
        add(y, x);
    }
    activate(net, y);
    net->middle[block] = middle;
    return net->block[block] = y;
}

static Map block_backward(CvDouble *net, int block, int unit, Map dy) {
    activate_backward(net, dy, net->block[block]);
    Map way = cv_map_like(dy);
    memcpy(way.v, dy.v, (size_t)(cv_map_rows(dy) * dy.c) * sizeof *dy.v);
    Map dmiddle = unit_backward(&net->units[unit + 1], dy, true);
    activate_backward(net, dmiddle, net->middle[block]);
    Map dx = unit_backward(&net->units[unit], dmiddle, true);
    if (block) way = unit_backward(&net->units[unit + 2], way, true);
    add(dx, way);
    cv_map_free(&way);
    return dx;
}

static void cv_double_clear(CvDouble *net) {
    Map *maps[] = {&net->stem,     &net->downsample, &net->middle[0], &net->middle[1], &net->middle[2],
                   &net->block[0], &net->block[1],   &net->block[2],  &net->pool[0],   &net->pool[1],
                   &net->mean,     &net->head,       &net->logits};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) cv_map_free(maps[i]);
    for (int i = 0; i < UNITS; i++) cv_map_free(&net->units[i].s);
}

void cv_double_forward(CvDouble *net, Map x, bool train) {
    cv_double_clear(net);
    net->stem = unit_forward(&net->units[STEM], x, train);
    activate(net, net->stem);
    net->downsample = unit_forward(&net->units[DOWNSAMPLE], net->stem, train);
    activate(net, net->downsample);
    Map y = block_forward(net, 0, BLOCK1, net->downsample, train);
    y = net->pool[0] = pool_forward(net, block_forward(net, 1, BLOCK2, y, train));
    y = net->pool[1] = pool_forward(net, block_forward(net, 2, BLOCK3, y, train));
    net->mean = mean_forward(y);
    net->head = unit_forward(&net->units[HEAD], net->mean, train);
    activate(net, net->head);
    net->logits = unit_forward(&net->units[LOGIT], net->head, train);
}

double cv_double_backward(CvDouble *net, const double *targets) {
    Map dy = cv_map_like(net->logits);
    double loss = 0;
    for (int i = 0; i < dy.n; i++) {
        double z = net->logits.v[i];
        loss += ((z > 0 ? z : 0) + log1p(exp(-fabs(z))) - targets[i] * z) / dy.n;
        dy.v[i] = (1 / (1 + exp(-z)) - targets[i]) / dy.n;
    }
    dy = unit_backward(&net->units[LOGIT], dy, true);
    activate_backward(net, dy, net->head);
    dy = mean_backward(unit_backward(&net->units[HEAD], dy, true), net->pool[1]);
    dy = block_backward(net, 2, BLOCK3, pool_backward(net, dy, net->block[2]));
    dy = block_backward(net, 1, BLOCK2, pool_backward(net, dy, net->block[1]));
    dy = block_backward(net, 0, BLOCK1, dy);
    activate_backward(net, dy, net->downsample);
    dy = unit_backward(&net->units[DOWNSAMPLE], dy, true);
    activate_backward(net, dy, net->stem);
    unit_backward(&net->units[STEM], dy, false);
    return loss;
}

static DoubleParam *double_param(CvDouble *net, const char *module, const char *what, int rank, const int *dims) {
    DoubleParam *p = &net->params[net->n_params++];
    *p = (DoubleParam){.rank = rank, .count = 1};
    snprintf(p->name, sizeof p->name, "%s.%s", module, what);
    for (int i = 0; i < rank; i++) p->count *= p->dims[i] = dims[i];
    p->value = xcalloc((size_t)p->count, sizeof *p->value);
    p->gradient = xcalloc((size_t)p->count, sizeof *p->gradient);
    return p;
}

static void double_unit(CvDouble *net, int unit, const char *conv, const char *norm, int inputs, int outputs,
                        const int taps[3], const int stride[3]) {
    Unit *u = &net->units[unit];
    const int dims[] = {outputs, inputs, taps[0], taps[1], taps[2]};
    *u = (Unit){.inputs = inputs, .outputs = outputs};
    memcpy(u->taps, taps, sizeof u->taps);
    memcpy(u->stride, stride, sizeof u->stride);
    u->weight = double_param(net, conv, "weight", unit >= HEAD ? 2 : 5, dims);
    u->bias = double_param(net, conv, "bias", 1, dims);
    if (!norm) return;
    snprintf(u->norm, sizeof u->norm, "%s", norm);
    u->gain = double_param(net, norm, "weight", 1, dims);
    u->shift = double_param(net, norm, "bias", 1, dims);
    double **statistics[] = {&u->running_mean, &u->running_var, &u->mean, &u->rstd};
    for (int i = 0; i < 4; i++) *statistics[i] = xcalloc((size_t)outputs, sizeof(double));
    for (int i = 0; i < outputs; i++) u->running_var[i] = 1;
}

CvDouble *cv_double_new(const int channels[3], int bins, int side, bool linear) {
    static const int ones[] = {1, 1, 1}, threes[] = {3, 3, 3}, time7[] = {7, 1, 1}, time3[] = {3, 1, 1},
                     halve_time[] = {2, 1, 1}, halve_plane[] = {1, 2, 2};
    CvDouble *net = xcalloc(1, sizeof *net);
    *net = (CvDouble){.bins = bins, .side = side, .linear = linear};
    memcpy(net->channels, channels, sizeof net->channels);
    int a = channels[0], b = channels[1], c = channels[2];
    double_unit(net, STEM, "stem.0", "stem.1", 2, a, time7, ones);
    double_unit(net, DOWNSAMPLE, "downsample1.0", "downsample1.1", a, a, time3, halve_time);
    double_unit(net, BLOCK1, "res_block1.conv1", "res_block1.bn1", a, a, threes, ones);
    double_unit(net, BLOCK1 + 1, "res_block1.conv2", "res_block1.bn2", a, a, threes, ones);
    double_unit(net, BLOCK2, "res_block2.conv1", "res_block2.bn1", a, b, threes, halve_plane);
    double_unit(net, BLOCK2 + 1, "res_block2.conv2", "res_block2.bn2", b, b, threes, ones);
    double_unit(net, BLOCK2 + 2, "res_block2.shortcut.0", "res_block2.shortcut.1", a, b, ones, halve_plane);
    double_unit(net, BLOCK3, "res_block3.conv1", "res_block3.bn1", b, c, threes, halve_plane);
    double_unit(net, BLOCK3 + 1, "res_block3.conv2", "res_block3.bn2", c, c, threes, ones);
    double_unit(net, BLOCK3 + 2, "res_block3.shortcut.0", "res_block3.shortcut.1", b, c, ones, halve_plane);
    double_unit(net, HEAD, "classifier.0", "classifier.1", c, b, ones, ones);
    double_unit(net, LOGIT, "classifier.4", NULL, b, 1, ones, ones);
    return net;
}

void cv_double_close(CvDouble *net) {
    cv_double_clear(net);
    for (int i = 0; i < net->n_params; i++) {
        free(net->params[i].value);
        free(net->params[i].gradient);
    }
    for (int i = 0; i < UNITS; i++) {
        Unit *u = &net->units[i];
        double *statistics[] = {u->running_mean, u->running_var, u->mean, u->rstd};
        for (int k = 0; k < 4; k++) free(statistics[k]);
    }
    free(net);
}
