/* Door functions of volumes and of sequences of fixed length: augmentation, windows, convolutions, pools, batch norms,
 * the temporal stem. */
#include "kernels/door.h"

int64_t window_positions(Window w) { return (w.length + 2 * (int64_t)w.padding - w.taps) / w.stride + 1; }

/* Dies unless `whole` T [S length, C] and `windows` [S positions, C taps] fit together. */
static void check_unfold(const Device *device, const char *op, const char *windows_name, Tensor windows,
                         const char *whole_name, Tensor whole, Window w) {
    if (w.length <= 0 || w.taps <= 0 || w.stride <= 0 || w.padding < 0 || w.length + 2 * (int64_t)w.padding < w.taps)
        die("%s: %d taps, stride %d, padding %d have no position in sequences of %lld rows", op, w.taps, w.stride,
            w.padding, (long long)w.length);
    door_expect(op, whole_name, whole, door_activation_type(device, op, whole_name, whole), -1, -1);
    if (whole.dims[0] % w.length)
        die("%s: the %lld rows of %s are not whole sequences of %lld rows", op, (long long)whole.dims[0], whole_name,
            (long long)w.length);
    door_expect(op, windows_name, windows, whole.dtype, whole.dims[0] / w.length * window_positions(w),
                whole.dims[1] * w.taps);
}

/* Returns the pairs of a position and a tap that see a row of their sequence, not the padding. */
static double pairs_inside(Window w) {
    double pairs = 0;
    for (int64_t tap = 0; tap < w.taps; tap++) {
        int64_t before = w.padding - tap; /* at position p the tap sees row p stride - before */
        int64_t first = before <= 0 ? 0 : (before + w.stride - 1) / w.stride, last = w.length - 1 + before;
        last = last < 0 ? -1 : last / w.stride;
        if (last >= window_positions(w)) last = window_positions(w) - 1;
        if (last >= first) pairs += (double)(last - first + 1);
    }
    return pairs;
}

void unfold_forward(Device *device, Tensor y, Tensor x, Window window) {
    check_unfold(device, "unfold_forward", "y", y, "x", x, window);
    DISPATCH(unfold_forward, 0, ACCESSES(door_reads(x), door_writes(y)), device, y, x, window);
}

void unfold_backward(Device *device, Tensor dx, Tensor dy, Window window) {
    check_unfold(device, "unfold_backward", "dy", dy, "dx", dx, window);
    double columns = (double)tensor_numel(dx) / (double)window.length; /* of all sequences */
    DISPATCH(unfold_backward, columns * pairs_inside(window), ACCESSES(door_reads(dy), door_writes(dx)), device, dx, dy,
             window);
}

int convolution_positions(Convolution c, int axis) {
    return (int)(((int64_t)c.in[axis] + 2 * (int64_t)c.padding[axis] - c.taps[axis]) / c.stride[axis]) + 1;
}

/* Dies unless `in` T [S in positions, C], `out` T [S out positions, O] and w T [O, C taps] fit together. Returns the
 * multiply-adds of one channel with another: pairs of a position and a tap that sees the sample, not the padding. */
static double check_conv3d(const char *op, const char *out_name, Tensor out, Tensor in, DType type, Tensor w,
                           Convolution c) {
    int64_t rows = 1, positions = 1, taps = 1;
    double pairs = 1; /* in one sample */
    for (int i = 0; i < 3; i++) {
        if (c.in[i] <= 0 || c.taps[i] <= 0 || c.stride[i] <= 0 || c.padding[i] < 0 ||
            c.in[i] + 2 * (int64_t)c.padding[i] < c.taps[i])
            die("%s: %d taps, stride %d, padding %d have no position in %d along %c", op, c.taps[i], c.stride[i],
                c.padding[i], c.in[i], "thw"[i]);
        rows *= c.in[i], taps *= c.taps[i], positions *= convolution_positions(c, i);
        pairs *= pairs_inside((Window){c.in[i], c.taps[i], c.stride[i], c.padding[i]});
    }
    door_expect(op, "x", in, type, -1, -1);
    if (in.dims[0] % rows)
        die("%s: the %lld rows of x are not whole samples of %d x %d x %d", op, (long long)in.dims[0], c.in[0], c.in[1],
            c.in[2]);
    int64_t samples = in.dims[0] / rows;
    door_expect(op, out_name, out, type, samples * positions, -1);
    if (in.dims[1] == 0 || out.dims[1] == 0)
        die("%s: from %lld channels to %lld, expected at least one each", op, (long long)in.dims[1],
            (long long)out.dims[1]);
    door_expect(op, "w", w, type, out.dims[1], in.dims[1] * taps);
    return (double)samples * pairs * (double)in.dims[1] * (double)out.dims[1];
}

void conv3d_forward(Device *device, Tensor y, Tensor x, Tensor w, Tensor bias, Convolution convolution) {
    const char *op = "conv3d_forward";
    double pairs = check_conv3d(op, "y", y, x, door_activation_type(device, op, "x", x), w, convolution);
    door_expect_optional(op, "bias", bias, x.dtype, y.dims[1], 0);
    DISPATCH(conv3d_forward, 2 * pairs + (tensor_given(bias) ? (double)tensor_numel(y) : 0),
             ACCESSES(door_reads(x), door_reads(w), door_reads(bias), door_writes(y)), device, y, x, w, bias,
             convolution);
}

void conv3d_backward(Device *device, LayerGradients gradients, Tensor dy, Tensor x, Tensor w, Convolution convolution,
                     bool add_dx) {
    const char *op = "conv3d_backward";
    double pairs = check_conv3d(op, "dy", dy, x, door_activation_type(device, op, "x", x), w, convolution);
    if (gradients.overwrite) die("%s: dw is only added to, not overwritten", op);
    door_expect_optional(op, "dx", gradients.dx, x.dtype, x.dims[0], x.dims[1]);
    door_expect(op, "dw", gradients.dw, DTYPE_F32, w.dims[0], w.dims[1]);
    door_expect_optional(op, "dbias", gradients.dbias, DTYPE_F32, dy.dims[1], 0);
    bool both = tensor_given(gradients.dx), added = both && add_dx, summed = tensor_given(gradients.dbias);
    double additions = (summed ? (double)tensor_numel(dy) : 0) + (added ? (double)tensor_numel(gradients.dx) : 0);
    DISPATCH(conv3d_backward, (both ? 4 : 2) * pairs + additions,
             ACCESSES(door_reads(dy), door_reads(both ? w : tensor_none()),
                      added ? door_adds(gradients.dx) : door_writes(gradients.dx), door_reads(x),
                      door_again(TRAFFIC_MAIN, door_reads(both ? dy : tensor_none())), door_adds(gradients.dw),
                      door_again(TRAFFIC_PASS, door_reads(summed ? dy : tensor_none())), door_adds(gradients.dbias)),
             device, gradients, dy, x, w, convolution, add_dx);
}

/* Dies unless `whole` is T [S frames plane, C]. */
static void check_samples(const Device *device, const char *op, const char *name, Tensor whole, int64_t frames,
                          int64_t plane) {
    door_expect(op, name, whole, door_activation_type(device, op, name, whole), -1, -1);
    if (frames <= 0 || plane <= 0 || whole.dims[0] % (frames * plane))
        die("%s: the %lld rows of %s are not whole samples of %lld frames of %lld rows", op, (long long)whole.dims[0],
            name, (long long)frames, (long long)plane);
}

/* Dies unless `pooled` is T [S frames / 2 plane, C] and `whole` is T [S frames plane, C]. */
static void check_pool(const Device *device, const char *op, const char *pooled_name, Tensor pooled, Tensor whole,
                       int64_t frames, int64_t plane) {
    check_samples(device, op, "x", whole, frames, plane);
    door_expect(op, pooled_name, pooled, whole.dtype, whole.dims[0] / (frames * plane) * (frames / 2) * plane,
                whole.dims[1]);
}

void max_pool_forward(Device *device, Tensor y, Tensor x, int64_t frames, int64_t plane) {
    check_pool(device, "max_pool_forward", "y", y, x, frames, plane);
    DISPATCH(max_pool_forward, (double)tensor_numel(y),
             ACCESSES(door_part(door_reads(x), 2 * (double)tensor_bytes(y)), door_writes(y)), device, y, x, frames,
             plane);
}

void max_pool_backward(Device *device, Tensor dx, Tensor dy, Tensor x, int64_t frames, int64_t plane) {
    check_pool(device, "max_pool_backward", "dy", dy, x, frames, plane);
    door_expect("max_pool_backward", "dx", dx, x.dtype, x.dims[0], x.dims[1]);
    DISPATCH(max_pool_backward, (double)tensor_numel(dy),
             ACCESSES(door_reads(dy), door_part(door_reads(x), 2 * (double)tensor_bytes(dy)), door_writes(dx)), device,
             dx, dy, x, frames, plane);
}

static void check_batchnorm(const Device *device, const char *op, Tensor y, Tensor x, Tensor mean, Tensor variance,
                            const char *variance_name, Tensor gain) {
    door_expect(op, "x", x, door_activation_type(device, op, "x", x), -1, -1);
    door_expect(op, "y", y, x.dtype, x.dims[0], x.dims[1]);
    door_expect(op, "mean", mean, DTYPE_F32, x.dims[1], 0);
    door_expect(op, variance_name, variance, DTYPE_F32, x.dims[1], 0);
    door_expect(op, "gain", gain, DTYPE_F32, x.dims[1], 0);
}

static void check_statistics(const char *op, int64_t c, Tensor mean, Tensor rstd, Tensor running_mean,
                             Tensor running_var) {
    door_expect(op, "mean", mean, DTYPE_F32, c, 0);
    door_expect(op, "rstd", rstd, DTYPE_F32, c, 0);
    if (!tensor_given(running_mean) && !tensor_given(running_var)) return;
    door_expect(op, "running_mean", running_mean, DTYPE_F32, c, 0);
    door_expect(op, "running_var", running_var, DTYPE_F32, c, 0);
}

/* The variance of a single row is zero, and its unbiased variance is undefined. */
static void expect_two_rows(const char *op, Tensor x) {
    if (x.dims[0] < 2) die("%s: the batch has %lld rows, expected at least 2", op, (long long)x.dims[0]);
}

void batchnorm_forward(Device *device, Tensor y, BatchStatistics statistics, Tensor x, Tensor gain, Tensor bias) {
    const char *op = "batchnorm_forward";
    check_batchnorm(device, op, y, x, statistics.mean, statistics.rstd, "rstd", gain);
    door_expect(op, "bias", bias, DTYPE_F32, x.dims[1], 0);
    expect_two_rows(op, x);
    check_statistics(op, x.dims[1], statistics.mean, statistics.rstd, statistics.running_mean, statistics.running_var);
    DISPATCH(batchnorm_forward, 7 * (double)tensor_numel(x),
             ACCESSES(door_reads(x), door_writes(statistics.mean), door_writes(statistics.rstd),
                      door_adds(statistics.running_mean), door_adds(statistics.running_var), door_reads(gain),
                      door_reads(bias), door_again(TRAFFIC_PASS, door_reads(x)), door_writes(y)),
             device, y, statistics, x, gain, bias);
}

void batchnorm_apply(Device *device, Tensor y, Tensor x, Tensor running_mean, Tensor running_var, Tensor gain,
                     Tensor bias) {
    check_batchnorm(device, "batchnorm_apply", y, x, running_mean, running_var, "running_var", gain);
    door_expect("batchnorm_apply", "bias", bias, DTYPE_F32, x.dims[1], 0);
    DISPATCH(batchnorm_apply, 3 * (double)tensor_numel(x),
             ACCESSES(door_reads(x), door_reads(running_mean), door_reads(running_var), door_reads(gain),
                      door_reads(bias), door_writes(y)),
             device, y, x, running_mean, running_var, gain, bias);
}

void batchnorm_backward(Device *device, NormGradients gradients, Tensor dy, Tensor x, Tensor mean, Tensor rstd,
                        Tensor gain) {
    const char *op = "batchnorm_backward";
    check_batchnorm(device, op, dy, x, mean, rstd, "rstd", gain);
    door_expect(op, "dx", gradients.dx, x.dtype, x.dims[0], x.dims[1]);
    door_expect(op, "dgain", gradients.dgain, DTYPE_F32, x.dims[1], 0);
    door_expect(op, "dbias", gradients.dbias, DTYPE_F32, x.dims[1], 0);
    expect_two_rows(op, x);
    DISPATCH(batchnorm_backward, 10 * (double)tensor_numel(x),
             ACCESSES(door_reads(dy), door_reads(x), door_reads(mean), door_reads(rstd), door_reads(gain),
                      door_adds(gradients.dgain), door_adds(gradients.dbias), door_again(TRAFFIC_PASS, door_reads(dy)),
                      door_again(TRAFFIC_PASS, door_reads(x)), door_writes(gradients.dx)),
             device, gradients, dy, x, mean, rstd, gain);
}

void batchnorm_statistics(Device *device, BatchStatistics statistics, Tensor x) {
    const char *op = "batchnorm_statistics";
    door_expect(op, "x", x, door_activation_type(device, op, "x", x), -1, -1);
    expect_two_rows(op, x);
    check_statistics(op, x.dims[1], statistics.mean, statistics.rstd, statistics.running_mean, statistics.running_var);
    DISPATCH(batchnorm_statistics, 4 * (double)tensor_numel(x),
             ACCESSES(door_reads(x), door_writes(statistics.mean), door_writes(statistics.rstd),
                      door_adds(statistics.running_mean), door_adds(statistics.running_var)),
             device, statistics, x);
}

void batchnorm_from_running(Device *device, Tensor rstd, Tensor running_var) {
    door_expect("batchnorm_from_running", "running_var", running_var, DTYPE_F32, -1, 0);
    door_expect("batchnorm_from_running", "rstd", rstd, DTYPE_F32, running_var.dims[0], 0);
    DISPATCH(batchnorm_from_running, 3 * (double)rstd.dims[0], ACCESSES(door_reads(running_var), door_writes(rstd)),
             device, rstd, running_var);
}

/* Dies unless all four f32 [C] tensors of a norm are given, or none of them if the norm is optional. */
static void check_normed(const char *op, const char *const names[4], Normed in, bool optional) {
    const Tensor columns[] = {in.mean, in.rstd, in.gain, in.bias};
    for (int i = 0; i < 4; i++)
        if (!optional || tensor_given(in.mean)) {
            door_expect(op, names[i], columns[i], DTYPE_F32, in.x.dims[1], 0);
        } else if (tensor_given(columns[i])) {
            die("%s: there is %s, but no %s", op, names[i], names[0]);
        }
}

/* The work of a pass over the rows of norm_activate_forward. */
typedef struct {
    double used, sum, out; /* numbers read of each operand; FLOPs of their sum; FLOPs after the sum */
} NormCost;

/* `result` is y or its gradient. A pool does not read an odd frame at the end of a sample. */
static NormCost check_norm_activate(const Device *device, const char *op, const char *result_name, Tensor result,
                                    Normed a, Normed b, NormActivation how) {
    static const char *const of_a[] = {"a.mean", "a.rstd", "a.gain", "a.bias"};
    static const char *const of_b[] = {"b.mean", "b.rstd", "b.gain", "b.bias"};
    check_samples(device, op, "a.x", a.x, how.frames, how.plane);
    check_normed(op, of_a, a, false);
    door_expect_optional(op, "b.x", b.x, a.x.dtype, a.x.dims[0], a.x.dims[1]);
    if (tensor_given(b.mean) && !tensor_given(b.x)) {
        char found[96];
        die("%s: b.mean is %s, but there is no b.x", op, tensor_shape_text(b.mean, found));
    }
    check_normed(op, of_b, b, true);
    door_expect_probability(op, how.drop);
    int64_t samples = a.x.dims[0] / (how.frames * how.plane), frames = how.pool ? how.frames / 2 : how.frames;
    door_expect(op, result_name, result, a.x.dtype, samples * frames * how.plane, a.x.dims[1]);
    double n = (double)tensor_numel(result), channels = (double)samples * (double)a.x.dims[1];
    NormCost cost = {.used = how.pool ? 2 * n : n};
    cost.sum = cost.used * (tensor_given(b.mean) ? 7 : tensor_given(b.x) ? 4 : 3);
    cost.out = (how.slope != 1 ? cost.used : 0) + (how.pool ? how.average ? 2 * n : n : 0) +
               (how.drop.p > 0 ? n + channels : 0);
    return cost;
}

/* Lists the columns that a norm reads; none if it is absent. */
#define NORM(of) door_reads((of).mean), door_reads((of).rstd), door_reads((of).gain), door_reads((of).bias)

void norm_activate_forward(Device *device, Tensor y, Normed a, Normed b, NormActivation activation) {
    NormCost cost = check_norm_activate(device, "norm_activate_forward", "y", y, a, b, activation);
    double operand = cost.used * (double)dtype_size(y.dtype);
    DISPATCH(norm_activate_forward, cost.sum + cost.out,
             ACCESSES(door_part(door_reads(a.x), operand), door_part(door_reads(b.x), operand), NORM(a), NORM(b),
                      door_writes(y)),
             device, y, a, b, activation);
}

/* The sum is recomputed where a sign or a choice depends on it. Per norm: centers, dots and sums (two norms share one
 * sum) of the rows used, then five operations for each number's gradient. */
void norm_activate_backward(Device *device, NormGradients da, NormGradients db, Tensor dy, Normed a, Normed b,
                            NormActivation activation) {
    const char *op = "norm_activate_backward";
    NormCost cost = check_norm_activate(device, op, "dy", dy, a, b, activation);
    int64_t rows = a.x.dims[0], c = a.x.dims[1];
    bool both = tensor_given(b.x), norms = tensor_given(b.mean);
    expect_two_rows(op, a.x);
    door_expect(op, "da.dx", da.dx, a.x.dtype, rows, c);
    door_expect(op, "da.dgain", da.dgain, DTYPE_F32, c, 0);
    door_expect(op, "da.dbias", da.dbias, DTYPE_F32, c, 0);
    if (both) door_expect(op, "db.dx", db.dx, a.x.dtype, rows, c);
    if (norms) door_expect(op, "db.dgain", db.dgain, DTYPE_F32, c, 0);
    if (norms) door_expect(op, "db.dbias", db.dbias, DTYPE_F32, c, 0);
    bool decides = activation.slope != 1 || (activation.pool && !activation.average);
    double n = (double)tensor_numel(a.x), norm = 5 * n + 3 * cost.used;
    TrafficAccess of_b = door_part(door_reads(b.x), (norms ? n : cost.used) * (double)dtype_size(dy.dtype));
    DISPATCH(norm_activate_backward, (decides ? cost.sum : 0) + cost.out + cost.used + (norms ? 2 : 1) * norm,
             ACCESSES(door_reads(dy), door_reads(a.x), of_b, NORM(a), NORM(b), door_adds(da.dgain), door_adds(da.dbias),
                      door_adds(norms ? db.dgain : tensor_none()), door_adds(norms ? db.dbias : tensor_none()),
                      door_again(TRAFFIC_PASS, door_reads(dy)), door_again(TRAFFIC_PASS, door_reads(a.x)),
                      door_again(TRAFFIC_PASS, of_b), door_writes(da.dx), door_writes(both ? db.dx : tensor_none())),
             device, da, db, dy, a, b, activation);
}

int64_t stem_frames(Stem stem) { return (stem.frames + 1) / 2; }

static void expect_channels(const char *op, const char *what, int64_t channels) {
    if (channels < 8 || channels > STEM_MAX_CHANNELS || channels % 8)
        die("%s: %lld %s, expected a multiple of 8 from 8 to %d", op, (long long)channels, what,
            (int)STEM_MAX_CHANNELS);
}

static void expect_alignment(const char *op, const char *name, Tensor t, int bytes) {
    if ((uintptr_t)t.data % (uintptr_t)bytes)
        die("%s: %s begins at %p, expected a multiple of %d bytes", op, name, t.data, bytes);
}

/* Returns the number of products of a value and a weight in the first layer, without those of the padding. */
static double check_stem(const Device *device, const char *op, Tensor x, Tensor w, Tensor mean, Tensor rstd,
                         Stem stem) {
    check_samples(device, op, "x", x, stem.frames, stem.plane);
    door_expect(op, "x", x, x.dtype, -1, STEM_INPUTS);
    door_expect(op, "w", w, x.dtype, -1, STEM_WINDOW);
    expect_channels(op, "channels between the layers", w.dims[0]);
    door_expect(op, "mean", mean, DTYPE_F32, w.dims[0], 0);
    door_expect(op, "rstd", rstd, DTYPE_F32, w.dims[0], 0);
    expect_alignment(op, "x", x, 8);
    int64_t columns = x.dims[0] / stem.frames;
    return (double)columns * (double)w.dims[0] * STEM_INPUTS *
           pairs_inside((Window){stem.frames, STEM_TAPS, 1, STEM_TAPS / 2});
}

/* Returns the same for the second layer. */
static double check_stem_output(const char *op, const char *y_name, Tensor y, Tensor x, Tensor gain, Tensor bias,
                                Tensor w2, Stem stem) {
    int64_t channels = gain.dims[0];
    int64_t columns = x.dims[0] / stem.frames;
    door_expect(op, y_name, y, x.dtype, columns * stem_frames(stem), -1);
    expect_channels(op, "channels behind the layers", y.dims[1]);
    door_expect(op, "bias", bias, DTYPE_F32, channels, 0);
    door_expect(op, "w2", w2, x.dtype, y.dims[1], channels * STEM_HALVING_TAPS);
    expect_alignment(op, y_name, y, 16);
    return (double)columns * (double)channels * (double)y.dims[1] *
           pairs_inside((Window){stem.frames, STEM_HALVING_TAPS, 2, 1});
}

/* Per window: 14 sums and the 105 different products. Per channel: w . mu, w' Sigma w, a root and a reciprocal. */
void stem_statistics(Device *device, BatchStatistics statistics, Tensor moments, Tensor x, Tensor w, Stem stem) {
    const char *op = "stem_statistics";
    check_stem(device, op, x, w, statistics.mean, statistics.rstd, stem);
    door_expect(op, "moments", moments, DTYPE_F32, STEM_MOMENTS, 0);
    expect_alignment(op, "moments", moments, 8);
    expect_two_rows(op, x);
    check_statistics(op, w.dims[0], statistics.mean, statistics.rstd, statistics.running_mean, statistics.running_var);
    double n = STEM_WINDOW, window = n + n * (n + 1), channel = 2 * n + 2 * n * (n + 1) + 2;
    DISPATCH(stem_statistics, (double)x.dims[0] * window + (double)w.dims[0] * channel,
             ACCESSES(door_reads(x), door_reads(w), door_writes(moments), door_writes(statistics.mean),
                      door_writes(statistics.rstd), door_adds(statistics.running_mean),
                      door_adds(statistics.running_var)),
             device, statistics, moments, x, w, stem);
}

/* Between the layers: three FLOPs for the norm and one for the leaky ReLU, the same as the separate operations. */
void stem_forward(Device *device, Tensor y, Tensor x, StemWeights weights, Stem stem) {
    const char *op = "stem_forward";
    double first = check_stem(device, op, x, weights.w, weights.mean, weights.rstd, stem),
           between = (double)x.dims[0] * (double)weights.w.dims[0];
    door_expect(op, "gain", weights.gain, DTYPE_F32, weights.w.dims[0], 0);
    double second = check_stem_output(op, "y", y, x, weights.gain, weights.bias, weights.w2, stem);
    DISPATCH(stem_forward, 2 * first + 4 * between + 2 * second,
             ACCESSES(door_reads(x), door_reads(weights.w), door_reads(weights.w2), NORM(weights), door_writes(y)),
             device, y, x, weights, stem);
}

/* Counts the first layer again with its norm, its slope and the gradient times the slope; dw2; the gradient's products
 * with windows, and its sum. Per channel: Sigma w, w . S, and 8 for each weight. */
void stem_backward(Device *device, StemGradients gradients, Tensor dy, Tensor x, StemWeights weights, Tensor moments,
                   Stem stem) {
    const char *op = "stem_backward";
    double first = check_stem(device, op, x, weights.w, weights.mean, weights.rstd, stem),
           between = (double)x.dims[0] * (double)weights.w.dims[0];
    door_expect(op, "gain", weights.gain, DTYPE_F32, weights.w.dims[0], 0);
    double second = check_stem_output(op, "dy", dy, x, weights.gain, weights.bias, weights.w2, stem);
    door_expect(op, "dw", gradients.dw, DTYPE_F32, weights.w.dims[0], weights.w.dims[1]);
    door_expect(op, "dgain", gradients.dgain, DTYPE_F32, weights.w.dims[0], 0);
    door_expect(op, "dbias", gradients.dbias, DTYPE_F32, weights.w.dims[0], 0);
    door_expect(op, "dw2", gradients.dw2, DTYPE_F32, weights.w2.dims[0], weights.w2.dims[1]);
    door_expect(op, "moments", moments, DTYPE_F32, STEM_MOMENTS, 0);
    expect_alignment(op, "moments", moments, 8);
    expect_two_rows(op, x);
    double n = STEM_WINDOW, channel = 2 * n * n + 2 * n + 8 * n;
    DISPATCH(stem_backward, 4 * first + 4 * second + 6 * between + (double)weights.w.dims[0] * channel,
             ACCESSES(door_reads(dy), door_reads(x), door_reads(weights.w), door_reads(weights.w2), door_reads(moments),
                      NORM(weights), door_adds(gradients.dgain), door_adds(gradients.dbias), door_adds(gradients.dw),
                      door_adds(gradients.dw2)),
             device, gradients, dy, x, weights, moments, stem);
}

void augment_volumes(Device *device, Tensor x, Tensor counts, Tensor volumes, Tensor draws, AugmentShape shape,
                     bool dilated) {
    const char *op = "augment_volumes";
    if (shape.T < 1 || shape.T > AUGMENT_MAX_BINS || shape.H < 1 || shape.H > AUGMENT_MAX_SIDE || shape.H != shape.W)
        die("%s: volumes of %d bins of %d x %d pixels, expected 1 to %d of 1 x 1 to %d x %d, square", op, shape.T,
            shape.H, shape.W, AUGMENT_MAX_BINS, AUGMENT_MAX_SIDE, AUGMENT_MAX_SIDE);
    int64_t voxels = (int64_t)shape.T * shape.H * shape.W;
    door_expect(op, "volumes", volumes, DTYPE_I32, -1, 0);
    if (counts.dtype != DTYPE_U8 && counts.dtype != DTYPE_U16) {
        char found[96];
        die("%s: counts is %s, expected u8 or u16", op, tensor_shape_text(counts, found));
    }
    door_expect(op, "counts", counts, counts.dtype, -1, voxels);
    door_expect(op, "draws", draws, DTYPE_I32, volumes.dims[0], AUGMENT_DRAW_WORDS);
    door_expect(op, "x", x, door_activation_type(device, op, "x", x), volumes.dims[0] * voxels, 2);
    /* Counts the scale and the logarithm of each count. Only the draws know what else is done. */
    double n = (double)volumes.dims[0] * (double)voxels;
    DISPATCH(augment_volumes, 2 * n,
             ACCESSES(door_reads(volumes), door_reads(draws),
                      door_part(door_reads(counts), n * (double)dtype_size(counts.dtype)), door_writes(x)),
             device, x, counts, volumes, draws, shape, dilated);
}

void mixup(Device *device, Tensor y, Tensor x, Tensor partners, Tensor share) {
    door_expect("mixup", "x", x, door_activation_type(device, "mixup", "x", x), -1, -1);
    door_expect("mixup", "y", y, x.dtype, x.dims[0], x.dims[1]);
    door_expect("mixup", "partners", partners, DTYPE_I32, -1, 0);
    door_expect("mixup", "share", share, DTYPE_F32, 1, 0);
    if (partners.dims[0] < 1 ? x.dims[0] > 0 : x.dims[0] % partners.dims[0] != 0)
        die("mixup: the %lld rows of x are not %lld whole samples", (long long)x.dims[0], (long long)partners.dims[0]);
    if (y.data == x.data && x.dims[0]) die("mixup: y is x, which partners are read from");
    DISPATCH(mixup, 3 * (double)tensor_numel(x),
             ACCESSES(door_reads(x), door_reads(x), door_reads(partners), door_reads(share), door_writes(y)), device, y,
             x, partners, share);
}
