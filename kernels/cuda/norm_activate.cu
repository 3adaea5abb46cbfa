/* y = dropout(pool(leaky_relu(normed(a) + normed(b)))), and its backward with those of the norms: with g the gradient
 * of the sum, and sums over the N rows of it, da = gain rstd (g - sum(g) / N - x^ sum(g x^) / N), as in batchnorm.cu.
 *
 * The forward is one pass, the backward two: one for the sums, one for the gradients. Nothing but the inputs was kept;
 * both find the sum before the activation again, by the same function and so with the same signs and choices. A step of
 * a thread is a pack of columns of one row, or with a pool of the rows of two frames that meet in it. */
#include "kernels/cuda/batchnorm.h"

namespace {

/* An operand: rows and the parameters that normalise them. Without a mean the rows are not normalised. */
template <class T> struct Operand {
    const T *x;
    const float *mean, *rstd, *gain, *bias;
};

/* The arguments that are not tensors. Rows are counted in 32 bits, in which divisions are four times as fast. */
struct Options {
    uint32_t frames, plane;
    float slope;
    bool average;
    DropoutNumbers drop;
};

/* The parameters of a thread's columns. Rows that are not normalised have the mean 0 and the scale 1. */
template <int W, bool BOTH> struct Columns {
    Pack<float, W> mean[1 + BOTH], scale[1 + BOTH], shift; /* scale is rstd gain; shift both biases */

    template <class T> GPU_INLINE Columns(const Operand<T> (&in)[2], int64_t column) : shift(zeros<W>()) {
#pragma unroll
        for (int side = 0; side < 1 + BOTH; side++) {
            bool norm = in[side].mean;
            mean[side] = norm ? load_pack<W>(in[side].mean + column) : zeros<W>();
            scale[side] = norm ? load_pack<W>(in[side].rstd + column) : zeros<W>();
            Pack<float, W> gain = norm ? load_pack<W>(in[side].gain + column) : zeros<W>();
            Pack<float, W> bias = norm ? load_pack<W>(in[side].bias + column) : zeros<W>();
#pragma unroll
            for (int i = 0; i < W; i++) {
                scale[side][i] = norm ? scale[side][i] * gain[i] : 1.0f;
                shift[i] += bias[i];
            }
        }
    }

    /* Returns the sum before the activation, of column i. Forward and backward must compute the same bits, because
     * signs and the pool's choices depend on them: so the places of rounding are explicit. */
    GPU_INLINE float sum(int i, const Pack<float, W> (&x)[1 + BOTH]) const {
        float normed = __fmaf_rn(x[0][i] - mean[0][i], scale[0][i], shift[i]);
        return BOTH ? __fmaf_rn(x[BOTH][i] - mean[BOTH][i], scale[BOTH][i], normed) : normed;
    }
};

/* The rows of a step; those of a sample are `steps` a position of its planes. */
template <bool POOL> struct Step {
    int64_t row, out; /* of the operands, the first if there are two; of y */
    uint32_t sample;
    bool alone; /* an odd frame: it has no second, and no row of y */

    GPU_INLINE Step(int64_t at, const Options &how, uint32_t steps) : row(at), out(at), sample(0), alone(false) {
        if (!POOL && !how.drop.threshold) return;
        uint32_t frame = (uint32_t)at / how.plane, t;
        sample = frame / steps;
        if (!POOL) return;
        t = frame - sample * steps;
        row = at + ((int64_t)sample * (how.frames - steps) + t) * how.plane;
        out = at - (int64_t)sample * (steps - how.frames / 2) * how.plane;
        alone = 2 * t + 1 == how.frames;
    }
};

/* Dropout's factors of a thread's channels, drawn anew for each sample. */
template <int W> struct ChannelFactors {
    Pack<float, W> factors;
    uint32_t sample = UINT32_MAX;

    GPU_INLINE ChannelFactors() {
#pragma unroll
        for (int i = 0; i < W; i++) factors[i] = 1.0f;
    }
    GPU_INLINE void take(const DropoutNumbers &drop, uint32_t of_sample, int64_t c, int64_t column) {
        if (!drop.threshold || of_sample == sample) return;
        sample = of_sample;
        factors = dropout_factors<W>(drop, (uint64_t)sample * c + column);
    }
};

GPU_INLINE float leaky(float x, float slope) { return x > 0.0f ? x : slope * x; }

/* A step's numbers of both operands, and g, the gradients of their sum; of both frames. */
template <class T, int W, bool BOTH, bool POOL> struct Numbers {
    Pack<float, W> x[1 + POOL][1 + BOTH], g[1 + POOL];

    /* `next` numbers away is the second frame. */
    GPU_INLINE void load(const Operand<T> (&in)[2], int64_t at, int64_t next) {
#pragma unroll
        for (int frame = 0; frame < 1 + POOL; frame++)
#pragma unroll
            for (int side = 0; side < 1 + BOTH; side++)
                x[frame][side] = convert<float>(load_pack<W>(in[side].x + at + frame * next));
    }

    GPU_INLINE void set_gradients(const Columns<W, BOTH> &columns, const Pack<float, W> &dy,
                                  const Pack<float, W> &factors, const Options &how) {
#pragma unroll
        for (int i = 0; i < W; i++) {
            float u = columns.sum(i, x[0]), up = dy[i] * factors[i], du = up;
            if constexpr (POOL) {
                float v = columns.sum(i, x[POOL]), dv;
                bool second = second_wins(leaky(u, how.slope), leaky(v, how.slope));
                du = how.average ? 0.5f * up : second ? 0.0f : up;
                dv = how.average ? 0.5f * up : second ? up : 0.0f;
                g[POOL][i] = v > 0.0f ? dv : how.slope * dv;
            }
            g[0][i] = u > 0.0f ? du : how.slope * du;
        }
    }
};

/* Grid: columns times blocks of `rows` rows of y. Bytes: the rows of a and b that have a part in y, and y, once. */
template <class T, int W, bool BOTH, bool POOL>
__global__ void __launch_bounds__(BLOCK)
    forward(T *__restrict__ y, Operand<T> a, Operand<T> b, Options how, int64_t n, int64_t c, int64_t rows) {
    Place<W> at(n, rows);
    if (at.column >= c) return;
    const Operand<T> in[2] = {a, b};
    const Columns<W, BOTH> columns(in, at.column);
    ChannelFactors<W> drop;
    uint32_t steps = how.frames / (1 + POOL);
#pragma unroll 2
    for (int64_t row = at.row; row < at.end; row += blockDim.y) {
        Step<POOL> step(row, how, steps);
        drop.take(how.drop, step.sample, c, at.column);
        Numbers<T, W, BOTH, POOL> numbers;
        numbers.load(in, step.row * c + at.column, how.plane * c);
        Pack<float, W> out;
#pragma unroll
        for (int i = 0; i < W; i++) {
            float u = leaky(columns.sum(i, numbers.x[0]), how.slope);
            if constexpr (POOL) {
                float v = leaky(columns.sum(i, numbers.x[POOL]), how.slope);
                u = how.average ? 0.5f * (u + v) : second_wins(u, v) ? v : u;
            }
            out[i] = u * drop.factors[i];
        }
        store_pack(y + step.out * c + at.column, convert<T>(out));
    }
}

/* parts f32 [blocks of rows, 2 + BOTH, c]: of a block's steps the sums of g and of g x^ of a and of b.
 * Grid: columns times blocks of `rows` rows of dy. Bytes: dy, and the rows of a and b with a part in it, once. */
template <class T, int W, bool BOTH, bool POOL>
__global__ void __launch_bounds__(BLOCK) gradient_sums(float *__restrict__ parts, const T *dy, Operand<T> a,
                                                       Operand<T> b, Options how, int64_t n, int64_t c, int64_t rows) {
    SHARED(float, scratch, [2 + BOTH][W][BLOCK]);
    Place<W> at(n, rows);
    const Operand<T> in[2] = {a, b};
    Pack<float, W> sums[2 + BOTH];
#pragma unroll
    for (int sum = 0; sum < 2 + BOTH; sum++) sums[sum] = zeros<W>();
    bool inside = at.column < c;
    if (inside) {
        const Columns<W, BOTH> columns(in, at.column);
        ChannelFactors<W> drop;
        uint32_t steps = how.frames / (1 + POOL);
#pragma unroll(POOL ? 1 : 2) /* registers run short */
        for (int64_t row = at.row; row < at.end; row += blockDim.y) {
            Step<POOL> step(row, how, steps);
            drop.take(how.drop, step.sample, c, at.column);
            Numbers<T, W, BOTH, POOL> numbers;
            numbers.load(in, step.row * c + at.column, how.plane * c);
            Pack<float, W> up = convert<float>(load_pack<W>(dy + step.out * c + at.column));
            numbers.set_gradients(columns, up, drop.factors, how);
#pragma unroll
            for (int frame = 0; frame < 1 + POOL; frame++)
#pragma unroll
                for (int i = 0; i < W; i++) {
                    float g = numbers.g[frame][i];
                    sums[0][i] += g;
#pragma unroll
                    for (int side = 0; side < 1 + BOTH; side++)
                        sums[1 + side][i] += g * (numbers.x[frame][side][i] - columns.mean[side][i]);
                }
        }
#pragma unroll
        for (int side = 0; side < 1 + BOTH; side++) {
            if (!in[side].rstd) continue;
            Pack<float, W> rstd = load_pack<W>(in[side].rstd + at.column);
#pragma unroll
            for (int i = 0; i < W; i++) sums[1 + side][i] *= rstd[i];
        }
    }
#pragma unroll
    for (int sum = 0; sum < 2 + BOTH; sum++) sum_over_rows(sums[sum], scratch[sum]);
    if (threadIdx.y > 0 || !inside) return;
#pragma unroll
    for (int sum = 0; sum < 2 + BOTH; sum++)
        store_pack(parts + ((2 + BOTH) * (int64_t)blockIdx.y + sum) * c + at.column, sums[sum]);
}

/* da and db, from means f32 [2 + BOTH, c] of g and of g x^. In place if the call is: a step reads before it writes.
 * Grid: columns times blocks of `rows` steps. Bytes: dy, a, b, da and db once. */
template <class T, int W, bool BOTH, bool POOL>
__global__ void __launch_bounds__(BLOCK)
    input_gradients(T *da, T *db, const T *dy, Operand<T> a, Operand<T> b, const float *means, Options how, int64_t n,
                    int64_t c, int64_t rows) {
    Place<W> at(n, rows);
    if (at.column >= c) return;
    const Operand<T> in[2] = {a, b};
    T *const to[2] = {da, db};
    const Columns<W, BOTH> columns(in, at.column);
    ChannelFactors<W> drop;
    Pack<float, W> mean = load_pack<W>(means + at.column), slopes[1 + BOTH];
#pragma unroll
    for (int side = 0; side < 1 + BOTH; side++) {
        slopes[side] = zeros<W>();
        if (!in[side].rstd) continue;
        Pack<float, W> rstd = load_pack<W>(in[side].rstd + at.column);
        slopes[side] = load_pack<W>(means + (1 + side) * c + at.column);
#pragma unroll
        for (int i = 0; i < W; i++) slopes[side][i] *= rstd[i];
    }
    uint32_t steps = POOL ? (how.frames + 1) / 2 : how.frames;
    for (int64_t row = at.row; row < at.end; row += blockDim.y) {
        Step<POOL> step(row, how, steps);
        drop.take(how.drop, step.sample, c, at.column);
        Numbers<T, W, BOTH, POOL> numbers;
        /* An odd frame is its own second, twice the same. */
        int64_t first = step.row * c + at.column, next = step.alone ? 0 : how.plane * c;
        numbers.load(in, first, next);
        Pack<float, W> up = step.alone ? zeros<W>() : convert<float>(load_pack<W>(dy + step.out * c + at.column));
        numbers.set_gradients(columns, up, drop.factors, how);
#pragma unroll
        for (int frame = 0; frame < 1 + POOL; frame++) {
#pragma unroll
            for (int side = 0; side < 1 + BOTH; side++) {
                Pack<float, W> out = numbers.g[frame];
                bool norm = in[side].mean;
#pragma unroll
                for (int i = 0; i < W; i++) {
                    float from_mean = numbers.x[frame][side][i] - columns.mean[side][i];
                    float through = columns.scale[side][i] * (out[i] - mean[i] - from_mean * slopes[side][i]);
                    out[i] = norm ? through : out[i];
                }
                store_pack(to[side] + first + frame * next, convert<T>(out));
            }
        }
    }
}

template <class T> Operand<T> operand_of(Normed in) {
    return {(const T *)in.x.data, (const float *)in.mean.data, (const float *)in.rstd.data, (const float *)in.gain.data,
            (const float *)in.bias.data};
}

/* Without a pool and without dropout of channels a sample does not matter: all of them are one plane. */
Options options_of(const char *op, const NormActivation &how, int64_t rows) {
    if (rows > UINT32_MAX) die("%s: too large, %lld rows", op, (long long)rows);
    bool pool = how.pool;
    return {(uint32_t)(pool ? how.frames : 1), (uint32_t)(pool ? how.plane : how.frames * how.plane), how.slope,
            how.average, dropout_numbers(how.drop)};
}

/* Calls f(T(), width, both, pool): the type, the width of packs that all arrays allow, whether there is a b, and what
 * the steps are. */
template <class F, class... Arrays>
void with_kind(Normed a, Normed b, const NormActivation &how, F f, const Arrays *...arrays) {
    with_packs(
        a.x,
        [&](auto zero, auto width) {
            auto with_pool = [&](auto both) {
                if (how.pool)
                    f(zero, width, both, std::true_type());
                else
                    f(zero, width, both, std::false_type());
            };
            if (tensor_given(b.x))
                with_pool(std::true_type());
            else
                with_pool(std::false_type());
        },
        a.mean.data, a.rstd.data, a.gain.data, a.bias.data, b.x.data, b.mean.data, b.rstd.data, b.gain.data,
        b.bias.data, arrays...);
}

} // namespace

void cuda_norm_activate_forward(Device *device, Tensor y, Normed a, Normed b, NormActivation activation) {
    const char *op = "norm_activate_forward";
    int64_t n = y.dims[0], c = y.dims[1];
    if (n == 0 || c == 0) return;
    Options how = options_of(op, activation, a.x.dims[0]);
    with_kind(
        a, b, activation,
        [&](auto zero, auto width, auto both, auto pool) {
            using T = decltype(zero);
            constexpr int W = decltype(width)::value;
            Shares shares = shares_of(device, op, n, c, W);
            cuda_check(gpu_launch(forward<T, W, decltype(both)::value, decltype(pool)::value>, shares.grid,
                                  shares.block, 0, cuda_stream(device), (T *)y.data, operand_of<T>(a), operand_of<T>(b),
                                  how, n, c, shares.rows),
                       op);
        },
        y.data);
}

void cuda_norm_activate_backward(Device *device, NormGradients da, NormGradients db, Tensor dy, Normed a, Normed b,
                                 NormActivation activation) {
    const char *op = "norm_activate_backward";
    int64_t n = dy.dims[0], rows = a.x.dims[0], c = a.x.dims[1], frames = activation.frames;
    int64_t steps = activation.pool ? rows / frames * ((frames + 1) / 2) : rows;
    if (c == 0) return;
    Options how = options_of(op, activation, rows);
    const Tensor dgain[] = {da.dgain, db.dgain}, dbias[] = {da.dbias, db.dbias};
    with_kind(
        a, b, activation,
        [&](auto zero, auto width, auto both, auto pool) {
            using T = decltype(zero);
            constexpr int W = decltype(width)::value;
            constexpr bool BOTH = decltype(both)::value, POOL = decltype(pool)::value;
            Shares of_sums = shares_of(device, op, n ? n : 1, c, W), of_steps = shares_of(device, op, steps, c, W);
            float *means = (float *)cuda_scratch(device, (size_t)((2 + BOTH) * (of_sums.most + 1) * c) * 4);
            float *parts = means + (2 + BOTH) * c; /* where packs are used, c is a multiple of them */
            if (n)
                cuda_check(gpu_launch(gradient_sums<T, W, BOTH, POOL>, of_sums.grid, of_sums.block, 0,
                                      cuda_stream(device), parts, (const T *)dy.data, operand_of<T>(a),
                                      operand_of<T>(b), how, n, c, of_sums.rows),
                           op);
            finish_gradients(device, op, means, dgain, dbias, parts, 1 + BOTH, n ? of_sums.count : 0, rows, c);
            cuda_check(gpu_launch(input_gradients<T, W, BOTH, POOL>, of_steps.grid, of_steps.block, 0,
                                  cuda_stream(device), (T *)da.dx.data, (T *)db.dx.data, (const T *)dy.data,
                                  operand_of<T>(a), operand_of<T>(b), (const float *)means, how, steps, c,
                                  of_steps.rows),
                       op);
        },
        da.dx.data, db.dx.data, dy.data);
}
