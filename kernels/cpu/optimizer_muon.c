/* Muon in f32. The matrix is kept tall, [longer side, shorter side]: then A = X^T X and X = X B. */
#include "kernels/cpu/product.h"

/* The scratch of an update: X and the next X [tall, side]; A and A A [side, side]; the rows' squares; what the products
 * need. */
typedef struct {
    float *x, *next, *a, *square, *rooms;
    double *squares;
    int64_t tall, side;
} MuonScratch;

static MuonScratch muon_scratch(Device *device, MuonMatrix w) {
    MuonScratch s = {.tall = w.rows > w.columns ? w.rows : w.columns, .side = w.rows > w.columns ? w.columns : w.rows};
    int64_t matrix = whole_lines(s.tall * s.side), square = whole_lines(s.side * s.side);
    s.x = cpu_scratch(device,
                      (size_t)(2 * matrix + 2 * square + whole_lines(2 * w.rows) + device->n_threads * PRODUCT_ROOM));
    s.next = s.x + matrix;
    s.a = s.next + matrix;
    s.square = s.a + square;
    s.squares = (double *)(void *)(s.square + square);
    s.rooms = s.square + square + whole_lines(2 * w.rows);
    return s;
}

/* Transposes from [n, k] to [k, n] with all threads. */
static void muon_transpose(Device *device, float *to, const float *from, int64_t n, int64_t k) {
    enum { STRIP = 64 };
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
    for (int64_t i = 0; i < k; i += STRIP) transpose(to + i * n, n, from + i, k, n, k - i < STRIP ? k - i : STRIP);
}

/* Updates the momentum and sets x [rows, columns] to G / max(|G|, 1e-7). */
static void muon_direction(Device *device, AdamWBuffers of, MuonMatrix w, float clip, float momentum, MuonScratch *s,
                           float *x) {
    const float fresh = (float)(1 - (double)momentum);
    double total = 0;
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
    for (int64_t r = 0; r < w.rows; r++) {
        const float *g = (const float *)of.grads.data + w.offset + r * w.stride;
        float *m = (float *)of.m.data + w.offset + r * w.stride, *to = x + r * w.columns;
        for (int64_t i = 0; i < w.columns; i++) {
            float gradient = fresh * (g[i] * clip);
            m[i] = momentum * m[i] + gradient;
            to[i] = momentum * m[i] + gradient;
        }
        s->squares[r] = sum_of_squares(to, w.columns);
    }
    for (int64_t r = 0; r < w.rows; r++) total += s->squares[r];
    float scale = (float)(1 / fmax(sqrt(total), 1e-7));
#pragma omp parallel for simd num_threads(device->n_threads) schedule(static)
    for (int64_t i = 0; i < w.rows * w.columns; i++) x[i] *= scale;
}

/* X = X (a I + b A + c A A) with A = X^T X. */
static void muon_iterate(Device *device, MuonScratch *s) {
    static const float polynomial[3] = MUON_POLYNOMIAL;
    const int64_t n = s->side;
    float *a = s->a, *b = s->square, *x = s->x;
    product_with(device, (Product){a, x, x, NULL, 'T', 'N', false, n, n, s->tall, n, n, 0, 0}, s->rooms);
    product_with(device, (Product){b, a, a, NULL, 'N', 'N', false, n, n, n, n, n, 0, 0}, s->rooms);
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
    for (int64_t r = 0; r < n; r++) {
        for (int64_t i = r * n; i < (r + 1) * n; i++) b[i] = polynomial[1] * a[i] + polynomial[2] * b[i];
        b[r * n + r] += polynomial[0];
    }
    product_with(device, (Product){s->next, x, b, NULL, 'N', 'N', false, s->tall, n, n, n, n, 0, 0}, s->rooms);
    s->x = s->next;
    s->next = x;
}

static void cpu_muon_update(Device *device, AdamWBuffers of, Tensor norm, Tensor loss_scale, MuonMatrix w, Muon o) {
    double length = (double)*(const float *)norm.data + 1e-6, lr = rate_of(&of, w.learning_rate, w.group);
    if (!isfinite(length)) return;
    if (tensor_given(of.copy)) die("muon_update: the cpu device has no 16-bit parameters");
    float clip = (float)((o.clip > 0 && length > (double)o.clip ? (double)o.clip / length : 1) / factor_of(loss_scale));
    MuonScratch s = muon_scratch(device, w);
    const bool wide = w.columns > w.rows;
    muon_direction(device, of, w, clip, o.momentum, &s, wide ? s.next : s.x);
    if (wide) muon_transpose(device, s.x, s.next, w.rows, w.columns);
    for (int i = 0; i < MUON_STEPS; i++) muon_iterate(device, &s);
    if (wide) muon_transpose(device, s.next, s.x, w.columns, w.rows);
    const float *x = wide ? s.next : s.x;
    const float keep = (float)(1 - lr * (double)w.weight_decay), rate = (float)(lr * 0.2 * sqrt((double)s.tall));
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
    for (int64_t r = 0; r < w.rows; r++) {
        float *p = (float *)of.params.data + w.offset + r * w.stride;
        for (int64_t i = 0; i < w.columns; i++) p[i] = p[i] * keep - rate * x[r * w.columns + i];
    }
}
