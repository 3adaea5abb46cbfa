/* y = dropout(pool(leaky_relu(normed(a) + normed(b)))), and its backward with those of the norms: with g the gradient
 * of the sum, and sums over the N rows of it, da = gain rstd (g - sum(g) / N - x^ sum(g x^) / N), as in batchnorm.c.
 *
 * A step is a row, or with a pool the rows of two frames that meet in it. Values that depend on the columns alone are
 * prepared for both operands, so that one formula serves all cases: rows added as they are have mean 0 and scale 1, and
 * an absent operand is one row of zeros. The backward adds g in floats over chunks of steps, chunks in doubles over
 * parts of them, then the parts one after the other: any number of threads gives the same bits. */

typedef struct {
    const float *a, *b, *mean_a, *scale_a, *mean_b, *scale_b, *shift; /* scale is rstd gain, shift both biases */
    const float *factors;                                             /* of dropout, rows of columns */
    int64_t b_row, factor_row;                                        /* strides of rows; 0: one row serves all */
    int64_t c, frames, plane, steps;                                  /* steps per sample: frames, or pairs of frames */
    float slope;
    bool pool, average;
} NormedSum;

/* The scratch begins with `numbers` floats for the caller. With `all` an odd frame at the end is a step. */
static NormedSum normed_sum(Device *device, Normed a, Normed b, NormActivation how, bool all, size_t numbers,
                            double **room) {
    int64_t c = a.x.dims[1], samples = a.x.dims[0] / (how.frames * how.plane), pairs = (how.frames + all) / 2;
    bool drops = how.drop.p > 0, both = tensor_given(b.x), norms = tensor_given(b.mean);
    int64_t n_factors = (drops ? samples : 1) * c;
    *room = (void *)cpu_scratch(device, 2 * numbers + (size_t)(5 * c + n_factors));
    float *zeros = (void *)(*room + numbers), *scale_a = zeros + c, *mean_b = scale_a + c, *scale_b = mean_b + c;
    float *shift = scale_b + c, *factors = shift + c;
    for (int64_t j = 0; j < c; j++) {
        zeros[j] = 0;
        scale_a[j] = ((const float *)a.rstd.data)[j] * ((const float *)a.gain.data)[j];
        mean_b[j] = norms ? ((const float *)b.mean.data)[j] : 0;
        scale_b[j] = norms ? ((const float *)b.rstd.data)[j] * ((const float *)b.gain.data)[j] : 1;
        shift[j] = ((const float *)a.bias.data)[j] + (norms ? ((const float *)b.bias.data)[j] : 0);
    }
    if (drops) dropout_factors(&how.drop, 0, n_factors, factors);
    for (int64_t j = 0; j < c && !drops; j++) factors[j] = 1;
    return (NormedSum){.a = a.x.data,
                       .b = both ? b.x.data : zeros,
                       .mean_a = a.mean.data,
                       .scale_a = scale_a,
                       .mean_b = mean_b,
                       .scale_b = scale_b,
                       .shift = shift,
                       .factors = factors,
                       .b_row = both ? c : 0,
                       .factor_row = drops ? c : 0,
                       .c = c,
                       .frames = how.frames,
                       .plane = how.plane,
                       .steps = how.pool ? pairs : how.frames,
                       .slope = how.slope,
                       .pool = how.pool,
                       .average = how.average};
}

/* The rows of a step, from a column on: both frames of both operands, the row of y, and the dropout factors. */
typedef struct {
    const float *a[2], *b[2], *factors;
    int64_t row, next, out; /* the row numbers of a, of the second frame, and of y */
    bool alone;             /* an odd frame: no second frame, and no row of y */
} StepRows;

static inline StepRows rows_of_step(const NormedSum *s, int64_t step, int64_t column) {
    int64_t frame = 0, sample = 0, t = 0, place = 0;
    if (s->pool || s->factor_row) { /* divisions take longer than a short row */
        frame = step / s->plane, place = step - frame * s->plane;
        sample = frame / s->steps, t = frame - sample * s->steps;
    }
    int64_t row = s->pool ? (sample * s->frames + 2 * t) * s->plane + place : step;
    bool alone = s->pool && 2 * t + 1 == s->frames;
    int64_t next = s->pool && !alone ? row + s->plane : row;
    return (StepRows){.a = {s->a + row * s->c + column, s->a + next * s->c + column},
                      .b = {s->b + row * s->b_row + column, s->b + next * s->b_row + column},
                      .factors = s->factors + sample * s->factor_row + column,
                      .row = row,
                      .next = next,
                      .out = s->pool ? (sample * (s->frames / 2) + t) * s->plane + place : step,
                      .alone = alone};
}

/* Returns the sum before the activation. Forward and backward must compute the same bits, because signs and choices
 * depend on them. */
static inline float sum_of_normed(const NormedSum *s, float a, float b, int64_t j) {
    float normed = multiply_add(a - s->mean_a[j], s->scale_a[j], s->shift[j]);
    return multiply_add(b - s->mean_b[j], s->scale_b[j], normed);
}

static inline float leaky(float x, float slope) { return x > 0 ? x : slope * x; }

static void cpu_norm_activate_forward(Device *device, Tensor y, Normed a, Normed b, NormActivation activation) {
    double *unused;
    NormedSum s = normed_sum(device, a, b, activation, false, 0, &unused);
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
    for (int64_t step = 0; step < y.dims[0]; step++) {
        StepRows in = rows_of_step(&s, step, 0);
        float *out = (float *)y.data + step * s.c;
        if (!s.pool) {
#pragma omp simd
            for (int64_t j = 0; j < s.c; j++)
                out[j] = leaky(sum_of_normed(&s, in.a[0][j], in.b[0][j], j), s.slope) * in.factors[j];
            continue;
        }
#pragma omp simd
        for (int64_t j = 0; j < s.c; j++) {
            float u = leaky(sum_of_normed(&s, in.a[0][j], in.b[0][j], j), s.slope);
            float v = leaky(sum_of_normed(&s, in.a[1][j], in.b[1][j], j), s.slope);
            out[j] = (s.average ? 0.5f * (u + v) : second_wins(u, v) ? v : u) * in.factors[j];
        }
    }
}

/* Computes g, the gradients of the sum in both frames of a step (one frame without a pool), for `width` columns from
 * `column` on; 0 where there is no y. */
static inline void gradients_of_sum(const NormedSum *s, float g[2][COLUMNS], const float *dy, const StepRows *in,
                                    int64_t column, int64_t width) {
    const float *up = dy + in->out * s->c + column;
    const float slope = s->slope;
    if (in->alone) {
        memset(g, 0, 2 * sizeof *g);
    } else if (!s->pool) {
#pragma omp simd
        for (int64_t j = 0; j < width; j++) {
            float u = sum_of_normed(s, in->a[0][j], in->b[0][j], column + j);
            g[0][j] = up[j] * in->factors[j] * (u > 0 ? 1 : slope);
        }
    } else {
        const float won = s->average ? 0.5f : 1, lost = s->average ? 0.5f : 0; /* the share of the second */
#pragma omp simd
        for (int64_t j = 0; j < width; j++) {
            float u = sum_of_normed(s, in->a[0][j], in->b[0][j], column + j);
            float v = sum_of_normed(s, in->a[1][j], in->b[1][j], column + j);
            float share = second_wins(leaky(u, slope), leaky(v, slope)) ? won : lost, taken = up[j] * in->factors[j];
            g[0][j] = taken * (1 - share) * (u > 0 ? 1 : slope);
            g[1][j] = taken * share * (v > 0 ? 1 : slope);
        }
    }
}

/* Adds the sums of g, of g (a - mean) and of g (b - mean) over the steps from `begin` to `end`; each [c]. */
static inline void add_steps(const NormedSum *s, double *sums, const float *dy, int64_t begin, int64_t end,
                             int64_t column, int64_t width) {
    float sum[COLUMNS] = {0}, dot_a[COLUMNS] = {0}, dot_b[COLUMNS] = {0}, g[2][COLUMNS];
    for (int64_t step = begin; step < end; step++) {
        StepRows in = rows_of_step(s, step, column);
        gradients_of_sum(s, g, dy, &in, column, width);
        for (int frame = 0; frame < 1 + s->pool; frame++) {
#pragma omp simd
            for (int64_t j = 0; j < width; j++) {
                sum[j] += g[frame][j];
                dot_a[j] += g[frame][j] * (in.a[frame][j] - s->mean_a[column + j]);
                dot_b[j] += g[frame][j] * (in.b[frame][j] - s->mean_b[column + j]);
            }
        }
    }
    for (int64_t j = 0; j < width; j++) {
        sums[column + j] += (double)sum[j];
        sums[s->c + column + j] += (double)dot_a[j];
        sums[2 * s->c + column + j] += (double)dot_b[j];
    }
}

/* Sums over all rows that the gradient of each row needs: dx = scale (g - mean of g - (x - mean) slope). */
typedef struct {
    float *dx;
    const float *mean, *scale, *mean_of_g, *slope;
} InputGradient;

static inline void store_gradients(const InputGradient *to, const float *x, const float *g, int64_t row, int64_t c,
                                   int64_t column, int64_t width) {
    float *out = to->dx + row * c + column;
    if (!to->slope) { /* for rows that were added as they are */
        memcpy(out, g, (size_t)width * sizeof *out);
        return;
    }
#pragma omp simd
    for (int64_t j = 0; j < width; j++)
        out[j] = to->scale[column + j] *
                 (g[j] - to->mean_of_g[column + j] - (x[j] - to->mean[column + j]) * to->slope[column + j]);
}

/* Accumulates dgain and dbias from the sums [3, c] of all steps (see add_steps), and writes means as floats: the mean
 * of g [c], then the slopes of a and of b. */
static void finish_sums(const double *sums, float *means, NormGradients da, NormGradients db, Normed a, Normed b) {
    int64_t n = a.x.dims[0], c = a.x.dims[1];
    const Tensor dgain[] = {da.dgain, db.dgain}, dbias[] = {da.dbias, db.dbias}, rstd[] = {a.rstd, b.rstd};
    for (int64_t j = 0; j < c; j++) means[j] = (float)(sums[j] / (double)n);
    for (int side = 0; side < 2; side++)
        for (int64_t j = 0; j < c && tensor_given(dgain[side]); j++) {
            double spread = (double)((const float *)rstd[side].data)[j], dot = sums[(1 + side) * c + j] * spread;
            ((float *)dbias[side].data)[j] += (float)sums[j];
            ((float *)dgain[side].data)[j] += (float)dot;
            means[(1 + side) * c + j] = (float)(dot / (double)n * spread);
        }
}

/* Stores the gradients of both operands. */
static inline void store_steps(const NormedSum *s, const InputGradient *to_a, const InputGradient *to_b,
                               const float *dy, int64_t begin, int64_t end, int64_t column, int64_t width) {
    float g[2][COLUMNS];
    for (int64_t step = begin; step < end; step++) {
        StepRows in = rows_of_step(s, step, column);
        gradients_of_sum(s, g, dy, &in, column, width);
        for (int frame = 0; frame < (in.next > in.row ? 2 : 1); frame++) {
            int64_t row = frame ? in.next : in.row;
            store_gradients(to_a, in.a[frame], g[frame], row, s->c, column, width);
            if (to_b) store_gradients(to_b, in.b[frame], g[frame], row, s->c, column, width);
        }
    }
}

/* Adds up the sums of a chunk of steps, or without `sums` stores the gradients. A constant width halves the time. */
static void chunk_of_steps(const NormedSum *s, double *sums, const InputGradient *to_a, const InputGradient *to_b,
                           const float *dy, int64_t begin, int64_t end) {
    for (int64_t j = 0; j < s->c; j += COLUMNS) {
        int64_t width = s->c - j < COLUMNS ? s->c - j : COLUMNS;
        if (sums && width == COLUMNS)
            add_steps(s, sums, dy, begin, end, j, COLUMNS);
        else if (sums && width == COLUMNS / 2)
            add_steps(s, sums, dy, begin, end, j, COLUMNS / 2);
        else if (sums)
            add_steps(s, sums, dy, begin, end, j, width);
        else if (width == COLUMNS)
            store_steps(s, to_a, to_b, dy, begin, end, j, COLUMNS);
        else if (width == COLUMNS / 2)
            store_steps(s, to_a, to_b, dy, begin, end, j, COLUMNS / 2);
        else
            store_steps(s, to_a, to_b, dy, begin, end, j, width);
    }
}

static void cpu_norm_activate_backward(Device *device, NormGradients da, NormGradients db, Tensor dy, Normed a,
                                       Normed b, NormActivation how) {
    int64_t c = a.x.dims[1], rows = a.x.dims[0];
    int64_t steps = how.pool ? rows / how.frames * ((how.frames + 1) / 2) : rows;
    int64_t part = rows_of_part(steps), parts = (steps + part - 1) / part;
    double *sums;
    NormedSum s = normed_sum(device, a, b, how, true, (size_t)(3 * parts * c + 3 * c), &sums);
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
    for (int64_t begin = 0; begin < steps; begin += part) {
        double *own = sums + begin / part * 3 * c;
        int64_t end = steps - begin < part ? steps : begin + part;
        memset(own, 0, (size_t)(3 * c) * sizeof *own);
        for (int64_t i = begin; i < end; i += CHUNK)
            chunk_of_steps(&s, own, NULL, NULL, dy.data, i, end - i < CHUNK ? end : i + CHUNK);
    }
    for (int64_t i = 3 * c; i < 3 * parts * c; i++) sums[i % (3 * c)] += sums[i];
    float *means = (void *)(sums + 3 * parts * c);
    finish_sums(sums, means, da, db, a, b);
    InputGradient to_a = {da.dx.data, s.mean_a, s.scale_a, means, means + c};
    InputGradient to_b = {db.dx.data, s.mean_b, s.scale_b, means, tensor_given(b.mean) ? means + 2 * c : NULL};
    const InputGradient *second = tensor_given(b.x) ? &to_b : NULL;
#pragma omp parallel for num_threads(device->n_threads) schedule(static)
    for (int64_t i = 0; i < steps; i += CHUNK)
        chunk_of_steps(&s, NULL, &to_a, second, dy.data, i, steps - i < CHUNK ? steps : i + CHUNK);
}
