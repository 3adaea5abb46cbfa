/* The temporal stem, without storing the first layer's output: see stem_forward in ops.h.
 *
 * A column is one position of the plane through all frames of a sample. Columns do not depend on each other, so a
 * thread takes a column from x to y while the intermediate values, frames times C numbers, stay in its caches. Nearly
 * all time goes into products of small matrices. They need no copies, since rows overlap: a window of x is the 14
 * numbers from row t on of x's padded column, and a window of the second layer is the 3 C numbers from row 2 u on of
 * the first layer's output.
 *
 * Backward: let v = s scale + shift, scale = gain rstd, shift = bias - mean scale, a = leaky_relu(v), and q the 14
 * numbers of a window, so that s = w . q. From dy follow dw2, da and g = da leaky_relu'(v), the gradient of v. With
 * sums over all N rows D = sum g, S = sum g q, and x^ = (s - mean) rstd, batch norm's backward is
 *   dbias = D,   dgain = sum g x^ = rstd (w . S - mean D),   ds = gain rstd (g - D / N - x^ dgain / N),
 * and because sum q = N mu, and sum x^ q = rstd (sum s q - mean sum q) = N rstd Sigma w,
 *   dw = sum ds q = gain rstd (S - D mu - dgain rstd Sigma w).
 * So one pass over dy and x is enough, which computes dw2, S and D.
 *
 * The variance w' Sigma w may cancel: the second channel is the same in all frames, so that Sigma is nearly singular.
 * Its entries are therefore summed as floats over at most 32 frames and as doubles beyond, and so are all later sums.
 * Whatever cancels, the variance is off by at most 33 2^-24 times the mean of (sum |w_j q_j|)^2.
 *
 * Sums over columns are floats within a column and doubles over a part of the columns; the parts are added in their
 * order. So any number of threads gives the same bits. */
#include "kernels/cpu/simd.h"

enum {
    STEM_PARTS = 64,
    STEM_PADDED = 16, /* columns of a product with windows: the last two belong to no tap, and are never read */
    STEM_RUN = 32,    /* windows whose products are summed as floats */
    TILE_COLUMNS = 16,
#if defined __AVX512F__ /* as many sums as the registers hold */
    TILE_ROWS = 8,
#elif defined __AVX2__
    TILE_ROWS = 6,
#else
    TILE_ROWS = 4,
#endif
};

typedef struct {
    const float *at;
    int64_t row, k; /* strides */
} Strided;

/* out[i][j] = the sum over k of a[i][k] b[k][j], for at most TILE_ROWS rows; the last row is repeated past the end. */
static inline __attribute__((always_inline)) void multiply_tile(float *out, int64_t out_row, Strided a, const float *b,
                                                                int64_t b_k, int64_t n, int64_t rows,
                                                                const int columns) {
    float sums[TILE_ROWS][TILE_COLUMNS] = {{0}};
    const float *from[TILE_ROWS];
    for (int i = 0; i < TILE_ROWS; i++) from[i] = a.at + (i < rows ? i : rows - 1) * a.row;
    for (int64_t k = 0; k < n; k++, b += b_k)
#pragma GCC unroll 8
        for (int i = 0; i < TILE_ROWS; i++)
#pragma omp simd
            for (int j = 0; j < columns; j++) sums[i][j] = multiply_add(from[i][k * a.k], b[j], sums[i][j]);
#pragma GCC unroll 8
    for (int i = 0; i < TILE_ROWS; i++) /* a loop up to `rows` would keep the sums in memory */
        if (i < rows)
#pragma omp simd
            for (int j = 0; j < columns; j++) out[i * out_row + j] = sums[i][j];
}

/* Multiplies any number of rows, and columns in multiples of eight: sums of constant width stay in registers. */
static void multiply(float *out, int64_t out_row, Strided a, const float *b, int64_t b_k, int64_t n, int64_t rows,
                     int64_t columns) {
    for (int64_t j = 0; j < columns; j += TILE_COLUMNS)
        for (int64_t i = 0; i < rows; i += TILE_ROWS) {
            Strided from = {a.at + i * a.row, a.row, a.k};
            if (columns - j >= TILE_COLUMNS)
                multiply_tile(out + i * out_row + j, out_row, from, b + j, b_k, n, rows - i, TILE_COLUMNS);
            else
                multiply_tile(out + i * out_row + j, out_row, from, b + j, b_k, n, rows - i, 8);
        }
}

/* The arguments of a call, and its scratch memory. c and o are the channels between and after the layers. Weights have
 * the order that the products need. Each thread has one column of every array: */
typedef struct {
    int64_t frames, halved, plane, columns, c, o;
    const float *x, *y; /* or dy */
    float *w;           /* [14, c] */
    float *w2;          /* [3, c, o]: forward; [3, o, c], the taps 2, 0, 1: backward */
    float *scale, *shift;
    float *threads;
    int64_t of_thread; /* floats */
} StemWork;

typedef struct {
    float *x;    /* [frames + 8, 2]: padded by three frames of zeros before, and after */
    float *v;    /* [frames, c] */
    float *a;    /* [frames + 2, c]: padded by one frame of zeros before and after */
    float *g;    /* [frames, c] */
    float *dy;   /* [halved + 1, o]: padded by one frame after */
    float *sums; /* [3 c, o], then [c, 16]: sums of the column */
} StemColumn;

/* Returns the position in torch's order, [2, 7], of the weight of number k of a window. */
static inline int stem_weight(int k) { return k % STEM_INPUTS * STEM_TAPS + k / STEM_INPUTS; }

static float *carve(float **from, int64_t floats) {
    float *piece = *from;
    *from += whole_lines(floats);
    return piece;
}

static StemColumn column_of_thread(const StemWork *work) {
    float *from = work->threads + omp_get_thread_num() * work->of_thread;
    StemColumn column;
    column.x = carve(&from, (work->frames + 8) * STEM_INPUTS);
    column.v = carve(&from, work->frames * work->c);
    column.a = carve(&from, (work->frames + 2) * work->c);
    column.g = carve(&from, work->frames * work->c);
    column.dy = carve(&from, (work->halved + 1) * work->o);
    column.sums = carve(&from, (3 * work->o + STEM_PADDED) * work->c);
    memset(column.x, 0, (size_t)((work->frames + 8) * STEM_INPUTS) * sizeof(float));
    memset(column.a, 0, (size_t)work->c * sizeof(float));
    memset(column.a + (work->frames + 1) * work->c, 0, (size_t)work->c * sizeof(float));
    memset(column.dy + work->halved * work->o, 0, (size_t)work->o * sizeof(float));
    return column;
}

/* Allocates the scratch memory, and `doubles` numbers in *totals. c and o are 0 if there are no such channels. */
static StemWork stem_work(Device *device, Tensor x, Tensor y, int64_t c, int64_t o, Stem stem, int64_t doubles,
                          double **totals) {
    StemWork work = {
        stem.frames, stem_frames(stem), stem.plane, x.dims[0] / stem.frames, c, o, x.data, y.data, 0, 0, 0, 0, 0, 0};
    work.of_thread = whole_lines((stem.frames + 8) * STEM_INPUTS) + 2 * whole_lines(stem.frames * c) +
                     whole_lines((stem.frames + 2) * c) + whole_lines((work.halved + 1) * o) +
                     whole_lines((3 * o + STEM_PADDED) * c);
    int64_t weights = whole_lines(STEM_WINDOW * c) + whole_lines(3 * c * o) + 2 * whole_lines(c);
    float *from = cpu_scratch(device, (size_t)(2 * doubles + 16 + weights + device->n_threads * work.of_thread));
    *totals = (void *)carve(&from, 2 * doubles);
    work.w = carve(&from, STEM_WINDOW * c), work.w2 = carve(&from, 3 * c * o);
    work.scale = carve(&from, c), work.shift = carve(&from, c), work.threads = from;
    return work;
}

static void order_stem_weights(const StemWork *work, StemWeights weights, bool backward) {
    const float *from = weights.w.data, *from2 = weights.w2.data, *m = weights.mean.data, *r = weights.rstd.data;
    const float *g = weights.gain.data, *b = weights.bias.data;
    int64_t c = work->c, o = work->o;
    for (int64_t i = 0; i < c; i++) {
        work->scale[i] = g[i] * r[i];
        work->shift[i] = b[i] - m[i] * work->scale[i];
        for (int k = 0; k < STEM_WINDOW; k++) work->w[k * c + i] = from[i * STEM_WINDOW + stem_weight(k)];
        for (int64_t j = 0; j < o; j++)
            for (int k = 0; k < 3; k++)
                work->w2[backward ? ((k + 1) % 3 * o + j) * c + i : (k * c + i) * o + j] = from2[(j * c + i) * 3 + k];
    }
}

/* Returns the first row of a column. */
static const float *rows_of(const float *x, int64_t column, int64_t frames, int64_t plane, int64_t width) {
    return x + (column / plane * frames * plane + column % plane) * width;
}

static void load_column(const StemWork *work, StemColumn to, int64_t column) {
    const float *from = rows_of(work->x, column, work->frames, work->plane, STEM_INPUTS);
    for (int64_t t = 0; t < work->frames; t++)
        for (int i = 0; i < STEM_INPUTS; i++)
            to.x[(t + STEM_TAPS / 2) * STEM_INPUTS + i] = from[t * work->plane * STEM_INPUTS + i];
}

/* Computes the first layer of a column, its norm and its leaky ReLU. */
static void first_layer(const StemWork *work, StemColumn column, float slope) {
    int64_t c = work->c;
    float *a = column.a + c;
    multiply(column.v, c, (Strided){column.x, STEM_INPUTS, 1}, work->w, c, STEM_WINDOW, work->frames, c);
    for (int64_t t = 0; t < work->frames; t++)
        for (int64_t i = 0; i < c; i++) {
            float v = multiply_add(column.v[t * c + i], work->scale[i], work->shift[i]);
            column.v[t * c + i] = v;
            a[t * c + i] = v > 0 ? v : slope * v;
        }
}

/* Adds the moments of a column's windows to sums [14] and products [14, 16]. */
static void add_moments(double *sums, double *products, const float *x, int64_t frames) {
    for (int64_t begin = 0; begin < frames; begin += STEM_RUN) {
        float run[STEM_WINDOW * STEM_PADDED], sum[STEM_WINDOW] = {0};
        int64_t n = frames - begin < STEM_RUN ? frames - begin : STEM_RUN;
        const float *windows = x + begin * STEM_INPUTS;
        multiply(run, STEM_PADDED, (Strided){windows, 1, STEM_INPUTS}, windows, STEM_INPUTS, n, STEM_WINDOW,
                 STEM_PADDED);
        for (int64_t t = 0; t < n; t++)
            for (int i = 0; i < STEM_WINDOW; i++) sum[i] += windows[t * STEM_INPUTS + i];
        for (int i = 0; i < STEM_WINDOW; i++) {
            sums[i] += (double)sum[i];
            for (int j = 0; j < STEM_WINDOW; j++) products[i * STEM_PADDED + j] += (double)run[i * STEM_PADDED + j];
        }
    }
}

/* Processes a column, and adds its sums to the `totals` of its part. */
typedef void ColumnWork(double *totals, const StemWork *work, StemColumn column, int64_t number, float slope);

/* Processes all columns; totals [STEM_PARTS, count] are added up in the first row. */
static void for_columns(Device *device, const StemWork *work, double *totals, int64_t count, ColumnWork *f,
                        float slope) {
    int64_t part = (work->columns + STEM_PARTS - 1) / STEM_PARTS;
    memset(totals, 0, (size_t)(STEM_PARTS * count) * sizeof *totals);
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
    for (int64_t p = 0; p < STEM_PARTS; p++) {
        StemColumn column = column_of_thread(work);
        for (int64_t i = p * part; i < (p + 1) * part && i < work->columns; i++) {
            load_column(work, column, i);
            f(totals + p * count, work, column, i, slope);
        }
    }
    for (int64_t p = 1; p < STEM_PARTS; p++)
        for (int64_t i = 0; i < count; i++) totals[i] += totals[p * count + i];
}

static void moments_of_column(double *totals, const StemWork *work, StemColumn column, int64_t number, float slope) {
    (void)number, (void)slope;
    add_moments(totals, totals + STEM_WINDOW, column.x, work->frames);
}

/* Writes mu [14] and Sigma [14, 14] of n windows, from the totals of add_moments. */
static void write_moments(double *mu, const double *totals, double n) {
    double *sigma = mu + STEM_WINDOW;
    for (int i = 0; i < STEM_WINDOW; i++) mu[i] = totals[i] / n;
    for (int i = 0; i < STEM_WINDOW; i++)
        for (int j = 0; j < STEM_WINDOW; j++)
            sigma[i * STEM_WINDOW + j] = totals[STEM_WINDOW + i * STEM_PADDED + j] / n - mu[i] * mu[j];
}

static void cpu_stem_statistics(Device *device, BatchStatistics statistics, Tensor moments, Tensor x, Tensor w,
                                Stem stem) {
    double *totals, n = (double)x.dims[0], *mu = moments.data;
    const double *sigma = mu + STEM_WINDOW;
    int64_t c = w.dims[0], count = STEM_WINDOW * (1 + STEM_PADDED);
    StemWork work = stem_work(device, x, tensor_none(), 0, 0, stem, STEM_PARTS * count, &totals);
    for_columns(device, &work, totals, count, moments_of_column, 0);
    write_moments(mu, totals, n);
    for (int64_t i = 0; i < c; i++) {
        const float *weights = (const float *)w.data + i * STEM_WINDOW;
        double center = 0, variance = 0, q[STEM_WINDOW];
        for (int k = 0; k < STEM_WINDOW; k++) {
            q[k] = (double)weights[stem_weight(k)];
            center += q[k] * mu[k];
        }
        for (int k = 0; k < STEM_WINDOW; k++)
            for (int l = 0; l < STEM_WINDOW; l++) variance += q[k] * sigma[k * STEM_WINDOW + l] * q[l];
        variance = variance > 0 ? variance : 0; /* rounding may make the variance of a constant negative */
        ((float *)statistics.mean.data)[i] = (float)center;
        ((float *)statistics.rstd.data)[i] = (float)(1 / sqrt(variance + 1e-5));
        if (!statistics.running_mean.data) continue;
        float *m = (float *)statistics.running_mean.data + i, *v = (float *)statistics.running_var.data + i;
        *m = (1 - statistics.momentum) * *m + statistics.momentum * (float)center;
        *v = (1 - statistics.momentum) * *v + statistics.momentum * (float)(variance * n / (n - 1));
    }
}

static void forward_of_column(double *totals, const StemWork *work, StemColumn column, int64_t number, float slope) {
    int64_t c = work->c, o = work->o;
    (void)totals;
    first_layer(work, column, slope);
    float *y = (float *)(uintptr_t)rows_of(work->y, number, work->halved, work->plane, o);
    multiply(y, work->plane * o, (Strided){column.a, 2 * c, 1}, work->w2, o, 3 * c, work->halved, o);
}

static void cpu_stem_forward(Device *device, Tensor y, Tensor x, StemWeights weights, Stem stem) {
    double *totals;
    StemWork work = stem_work(device, x, y, weights.w.dims[0], y.dims[1], stem, 0, &totals);
    order_stem_weights(&work, weights, false);
    for_columns(device, &work, totals, 0, forward_of_column, stem.slope);
}

/* Adds dw2 as [3, c, o], S [c, 16] and D [c] to totals. */
static void backward_of_column(double *totals, const StemWork *work, StemColumn column, int64_t number, float slope) {
    int64_t c = work->c, o = work->o, halved = work->halved, frames = work->frames;
    const float *dy = rows_of(work->y, number, halved, work->plane, o);
    float *s = column.sums + 3 * c * o;
    double *d = totals + (3 * o + STEM_PADDED) * c;
    for (int64_t u = 0; u < halved; u++) memcpy(column.dy + u * o, dy + u * work->plane * o, (size_t)o * sizeof *dy);
    first_layer(work, column, slope);
    multiply(column.sums, o, (Strided){column.a, 1, 2 * c}, column.dy, o, halved, 3 * c, o);
    /* Frame 2 u is under the middle tap of u alone; frame 2 u + 1 is under the last tap of u and the first tap of u +
     * 1. */
    multiply(column.g, 2 * c, (Strided){column.dy, o, 1}, work->w2 + 2 * o * c, c, o, halved, c);
    multiply(column.g + c, 2 * c, (Strided){column.dy, o, 1}, work->w2, c, 2 * o, frames / 2, c);
    float sum[STEM_MAX_CHANNELS] = {0};
    for (int64_t t = 0; t < frames; t++)
        for (int64_t i = 0; i < c; i++) sum[i] += column.g[t * c + i] *= column.v[t * c + i] > 0 ? 1 : slope;
    multiply(s, STEM_PADDED, (Strided){column.g, 1, c}, column.x, STEM_INPUTS, frames, c, STEM_PADDED);
    for (int64_t i = 0; i < (3 * o + STEM_PADDED) * c; i++) totals[i] += (double)column.sums[i];
    for (int64_t i = 0; i < c; i++) d[i] += (double)sum[i];
}

static void cpu_stem_backward(Device *device, StemGradients gradients, Tensor dy, Tensor x, StemWeights weights,
                              Tensor moments, Stem stem) {
    const double *mu = moments.data, *sigma = mu + STEM_WINDOW;
    int64_t c = weights.w.dims[0], o = dy.dims[1], count = (3 * o + STEM_PADDED + 1) * c;
    double *totals;
    StemWork work = stem_work(device, x, dy, c, o, stem, STEM_PARTS * count, &totals);
    order_stem_weights(&work, weights, true);
    for_columns(device, &work, totals, count, backward_of_column, stem.slope);
    for (int64_t i = 0; i < 3 * c * o; i++) /* [3, c, o] to [o, c, 3] */
        ((float *)gradients.dw2.data)[(i % o * c + i / o % c) * 3 + i / o / c] += (float)totals[i];
    for (int64_t i = 0; i < c; i++) {
        const double *s = totals + (3 * o) * c + i * STEM_PADDED, d = totals[(3 * o + STEM_PADDED) * c + i];
        double r = (double)((const float *)weights.rstd.data)[i],
               scale = (double)((const float *)weights.gain.data)[i] * r, dot = 0;
        for (int k = 0; k < STEM_WINDOW; k++) dot += (double)work.w[k * c + i] * s[k];
        double slope = r * (dot - (double)((const float *)weights.mean.data)[i] * d);
        ((float *)gradients.dbias.data)[i] += (float)d;
        ((float *)gradients.dgain.data)[i] += (float)slope;
        for (int k = 0; k < STEM_WINDOW; k++) {
            double spread = 0;
            for (int l = 0; l < STEM_WINDOW; l++) spread += sigma[k * STEM_WINDOW + l] * (double)work.w[l * c + i];
            ((float *)gradients.dw.data)[i * STEM_WINDOW + stem_weight(k)] +=
                (float)(scale * (s[k] - d * mu[k] - slope * r * spread));
        }
    }
}
