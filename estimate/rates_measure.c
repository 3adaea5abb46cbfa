/* Measures calls of operations with shapes as in training.
 *
 * Each kind of work has up to CURVES series of growing calls, from narrow products, short sequences or few
 * channels to wide, long, many. A call is timed in batches that the device may repeat as it repeats a training's
 * passes, and what its kernels' launches take is taken off. All tensors lie in one arena full of noise, so that numbers
 * are like any others and cost the power of any others. Calls that would take too long, or too much memory, end their
 * series: rates of large calls grow no more. */
#include "estimate/rates_measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kernels/philox.h"
#include "report/statistics.h"

enum {
    NOISE = 999936,       /* numbers; no power of two, so that rows differ */
    INTS = 1 << 16,       /* offsets or targets */
    CAPACITY = 640 << 20, /* bytes of the arena: fits beside a desktop on the smallest card */
    REPEATS = 8,
    MAX_CALLS = 200, /* in a batch */
    SIZES = 4,
};

typedef struct Bench Bench;

/* Calls of one operation. The comment of its function says what `width` and `length` are. */
typedef struct {
    int op;
    void (*call)(Bench *bench);
    int width, length;
    int64_t rows[SIZES]; /* by size; 0: the end */
} Series;

struct Bench {
    Device *device;
    const Series *series;
    Arena arena;
    Tensor noise, ints;
    int32_t *host_ints;
    DType type; /* of activations */
    int64_t rows;
    int calls;                    /* in a batch */
    double flops, bytes, seconds; /* of a call */
    double launch;                /* seconds of one kernel's launch */
    double end;                   /* the time at which all should be done */
    double share, least_share;    /* seconds that a size may take; the minimum for those that must be measured */
    int left;                     /* series to measure, including this one */
};

/* ---- the operations ---- */

static Tensor numbers(Bench *b, int64_t rows, int64_t columns) { return arena_2d(&b->arena, b->type, rows, columns); }
static Tensor vector(Bench *b, int64_t n) { return arena_1d(&b->arena, b->type, n); }
static Tensor f32(Bench *b, int64_t rows, int64_t columns) { return arena_2d(&b->arena, DTYPE_F32, rows, columns); }
static Tensor f32_vector(Bench *b, int64_t n) { return arena_1d(&b->arena, DTYPE_F32, n); }

static Dropout drop(Bench *b, float p) { return (Dropout){p, 1, PURPOSE_DROPOUT, b->ints.data}; }

/* Products `width` -> 3 width, as for queries, keys and values. */
static void call_linear(Bench *b) {
    int64_t n = b->rows, in = b->series->width, out = 3 * in;
    Tensor y = numbers(b, n, out), x = numbers(b, n, in), w = numbers(b, in, out), bias = vector(b, out);
    linear_forward(b->device, y, x, w, bias, WEIGHT_IN_OUT);
}

static void call_linear_backward(Bench *b) {
    int64_t n = b->rows, in = b->series->width, out = 3 * in;
    Tensor dx = numbers(b, n, in), dw = f32(b, in, out), dbias = f32_vector(b, out), dy = numbers(b, n, out),
           x = numbers(b, n, in), w = numbers(b, in, out);
    linear_backward(b->device, (LayerGradients){.dx = dx, .dw = dw, .dbias = dbias}, dy, x, w, WEIGHT_IN_OUT);
}

/* Narrow models have dropout behind GELU, wide ones do not. */
static Dropout drop_hidden(Bench *b) { return drop(b, b->series->width < 512 ? 0.1f : 0); }

static void call_gelu(Bench *b) {
    int64_t n = b->rows, in = b->series->width, out = 4 * in;
    Tensor y = numbers(b, n, out), hidden = numbers(b, n, out), x = numbers(b, n, in), w = numbers(b, in, out),
           bias = vector(b, out);
    linear_gelu_forward(b->device, y, hidden, x, w, bias, WEIGHT_IN_OUT, (GeluDropout){GELU_TANH, drop_hidden(b)});
}

static void call_gelu_backward(Bench *b) {
    int64_t n = b->rows, out = b->series->width, in = 4 * out;
    Tensor dhidden = numbers(b, n, in), dw = f32(b, in, out), dbias = f32_vector(b, out), dy = numbers(b, n, out),
           x = numbers(b, n, in), hidden = numbers(b, n, in), w = numbers(b, in, out);
    gelu_linear_backward(b->device, (LayerGradients){.dx = dhidden, .dw = dw, .dbias = dbias}, dy, x, hidden, w,
                         WEIGHT_IN_OUT, (GeluDropout){GELU_TANH, drop_hidden(b)});
}

/* Sequences of `length` rows, the longer ones causal, heads of 64 numbers. */
static Sequences sequences(Bench *b) {
    int count = (int)(b->rows / b->series->length);
    return (Sequences){tensor_1d(b->ints.data, DTYPE_I32, count + 1), b->host_ints, count};
}

static Attention heads(const Bench *b) { return (Attention){b->series->width / 64, b->series->length > 16, 0.125f}; }

static void call_attention(Bench *b) {
    int64_t n = b->rows, c = b->series->width;
    Tensor out = numbers(b, n, c), lse = f32(b, c / 64, n), qkv = numbers(b, n, 3 * c);
    attention_forward(b->device, out, lse, qkv, sequences(b), heads(b), drop(b, 0.1f));
}

static void call_attention_backward(Bench *b) {
    int64_t n = b->rows, c = b->series->width;
    Tensor dqkv = numbers(b, n, 3 * c), dout = numbers(b, n, c), qkv = numbers(b, n, 3 * c), out = numbers(b, n, c),
           lse = f32(b, c / 64, n);
    attention_backward(b->device, dqkv, dout, (AttentionActivations){.qkv = qkv, .out = out, .lse = lse}, sequences(b),
                       heads(b), drop(b, 0.1f));
}

/* `rows` cells of 128 bins, `length` x `length` pixels. */
static Convolution window(const Bench *b) {
    int side = b->series->length;
    return (Convolution){{128, side, side}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}};
}

static void call_conv3d(Bench *b) {
    int64_t n = b->rows * 128 * b->series->length * b->series->length, c = b->series->width;
    Tensor y = numbers(b, n, c), x = numbers(b, n, c), w = numbers(b, c, 27 * c);
    conv3d_forward(b->device, y, x, w, tensor_none(), window(b));
}

static void call_conv3d_backward(Bench *b) {
    int64_t n = b->rows * 128 * b->series->length * b->series->length, c = b->series->width;
    Tensor dx = numbers(b, n, c), dw = f32(b, c, 27 * c), dy = numbers(b, n, c), x = numbers(b, n, c),
           w = numbers(b, c, 27 * c);
    conv3d_backward(b->device, (LayerGradients){.dx = dx, .dw = dw}, dy, x, w, window(b), false);
}

/* `rows` cells of 256 bins. */
enum { PLANE = 21 * 21, BINS = 256 };
static const Stem stem = {BINS, PLANE, 0.01f};

typedef struct {
    Tensor y, x;
    StemWeights weights;
} StemTensors;

static StemTensors stem_tensors(Bench *b) {
    int64_t c = b->series->width;
    return (StemTensors){numbers(b, b->rows * BINS / 2 * PLANE, c),
                         numbers(b, b->rows * BINS * PLANE, STEM_INPUTS),
                         {numbers(b, c, STEM_WINDOW), f32_vector(b, c), f32_vector(b, c), f32_vector(b, c),
                          f32_vector(b, c), numbers(b, c, STEM_HALVING_TAPS * c)}};
}

static void call_stem(Bench *b) {
    StemTensors t = stem_tensors(b);
    stem_forward(b->device, t.y, t.x, t.weights, stem);
}

static void call_stem_backward(Bench *b) {
    int64_t c = b->series->width;
    StemTensors t = stem_tensors(b);
    Tensor dw = f32(b, c, STEM_WINDOW), dgain = f32_vector(b, c), dbias = f32_vector(b, c),
           dw2 = f32(b, c, STEM_HALVING_TAPS * c), moments = f32_vector(b, STEM_MOMENTS);
    stem_backward(b->device, (StemGradients){dw, dgain, dbias, dw2}, t.y, t.x, t.weights, moments, stem);
}

/* Layer norms of `width` channels: alone, and with a residual whose branch has dropout. */
static void call_norm(Bench *b) {
    int64_t n = b->rows, c = b->series->width;
    Tensor y = numbers(b, n, c), mean = f32_vector(b, n), rstd = f32_vector(b, n), x = numbers(b, n, c),
           gain = f32_vector(b, c), bias = f32_vector(b, c);
    layernorm_forward(b->device, (LayerNormOutput){.y = y, .mean = mean, .rstd = rstd}, x, gain, bias,
                      LAYERNORM_EPSILON);
}

static void call_residual_norm(Bench *b) {
    int64_t n = b->rows, c = b->series->width;
    Tensor sum = numbers(b, n, c), y = numbers(b, n, c), mean = f32_vector(b, n), rstd = f32_vector(b, n),
           x = numbers(b, n, c), branch = numbers(b, n, c), gain = f32_vector(b, c), bias = f32_vector(b, c);
    residual_layernorm_forward(b->device, sum, (LayerNormOutput){.y = y, .mean = mean, .rstd = rstd}, x, branch, gain,
                               bias, drop(b, 0.1f));
}

static void call_norm_backward(Bench *b) {
    int64_t n = b->rows, c = b->series->width;
    Tensor dx = numbers(b, n, c), dgain = f32_vector(b, c), dbias = f32_vector(b, c), dresidual = numbers(b, n, c),
           dy = numbers(b, n, c), x = numbers(b, n, c), mean = f32_vector(b, n), rstd = f32_vector(b, n),
           gain = f32_vector(b, c);
    layernorm_backward(b->device, (NormGradients){.dx = dx, .dgain = dgain, .dbias = dbias}, dresidual, dy, x, mean,
                       rstd, gain);
}

/* `rows` cells behind a batch norm, pooled. */
static const NormActivation activation = {.slope = 0.01f, .frames = 128, .plane = PLANE, .pool = true};

static Normed normed(Bench *b) {
    int64_t c = b->series->width;
    return (Normed){numbers(b, b->rows * 128 * PLANE, c), f32_vector(b, c), f32_vector(b, c), f32_vector(b, c),
                    f32_vector(b, c)};
}

static void call_activation(Bench *b) {
    Normed a = normed(b), other = normed(b);
    norm_activate_forward(b->device, numbers(b, b->rows * 64 * PLANE, b->series->width), a, other, activation);
}

static void call_activation_backward(Bench *b) {
    int64_t c = b->series->width;
    Normed a = normed(b), other = normed(b);
    Tensor dy = numbers(b, b->rows * 64 * PLANE, c), of[4];
    for (int i = 0; i < 4; i++) of[i] = f32_vector(b, c);
    norm_activate_backward(b->device, (NormGradients){.dx = a.x, .dgain = of[0], .dbias = of[1]},
                           (NormGradients){.dx = other.x, .dgain = of[2], .dbias = of[3]}, dy, a, other, activation);
}

static void call_statistics(Bench *b) {
    Normed a = normed(b);
    batchnorm_statistics(b->device, (BatchStatistics){a.mean, a.rstd, a.gain, a.bias, 0.1f}, a.x);
}

/* `width` classes. */
static void call_loss(Bench *b) {
    Tensor loss = f32_vector(b, b->rows), correct = f32_vector(b, b->rows), scale = f32_vector(b, 1);
    cross_entropy_forward_backward(b->device, loss, correct, numbers(b, b->rows, b->series->width), b->series->width,
                                   tensor_1d(b->ints.data, DTYPE_I32, b->rows), tensor_none(), scale, tensor_none());
}

/* `rows` parameters. */
static void call_update(Bench *b) {
    int64_t n = b->rows;
    Segment all = {.end = n, .weight_decay = 0.01f, .learning_rate = 1e-4f};
    Tensor params = f32_vector(b, n), m = f32_vector(b, n), v = f32_vector(b, n), grads = f32_vector(b, n),
           norm = f32_vector(b, 1), copy = b->type == DTYPE_F32 ? tensor_none() : vector(b, n);
    adamw_update(b->device, (AdamWBuffers){.params = params, .copy = copy, .m = m, .v = v, .grads = grads}, norm,
                 tensor_none(), &all, 1, (AdamW){0.9f, 0.999f, 1e-8f, 1, 1, false});
}

/* Matrices of `rows` rows, `width` times as many columns. */
static void call_muon(Bench *b) {
    int64_t rows = b->rows, columns = rows * b->series->width, n = rows * columns;
    Tensor params = f32_vector(b, n), m = f32_vector(b, n), grads = f32_vector(b, n), norm = f32_vector(b, 1),
           copy = b->type == DTYPE_F32 ? tensor_none() : vector(b, n);
    muon_update(b->device, (AdamWBuffers){.params = params, .copy = copy, .m = m, .grads = grads}, norm, tensor_none(),
                (MuonMatrix){.stride = columns, .rows = rows, .columns = columns, .learning_rate = 1e-4f},
                (Muon){0.95f, 1});
}

/* `rows` numbers that are read twice and written once. */
static void call_move(Bench *b) {
    Tensor sum = numbers(b, b->rows, 64), x = numbers(b, b->rows, 64), branch = numbers(b, b->rows, 64);
    residual_forward(b->device, sum, x, branch, drop(b, 0));
}

static void call_nothing(Bench *b) { cast(b->device, vector(b, 64), vector(b, 64)); }

#define ROWS                                                                                                           \
    { 128, 512, 2048, 8192 }
#define PRODUCTS(op, call)                                                                                             \
    {op, call, 64, 0, ROWS}, {op, call, 256, 0, ROWS}, { op, call, 1280, 0, ROWS }
static const Series all_series[] = {
    PRODUCTS(OP_linear_forward, call_linear),
    PRODUCTS(OP_linear_backward, call_linear_backward),
    PRODUCTS(OP_linear_gelu_forward, call_gelu),
    PRODUCTS(OP_gelu_linear_backward, call_gelu_backward),
    {OP_attention_forward, call_attention, 256, 13, {13 * 32, 13 * 128, 13 * 512}},
    {OP_attention_forward, call_attention, 256, 128, {128, 1024, 8192}},
    {OP_attention_forward, call_attention, 256, 512, {512, 2048, 8192}},
    {OP_attention_backward, call_attention_backward, 256, 13, {13 * 32, 13 * 128, 13 * 512}},
    {OP_attention_backward, call_attention_backward, 256, 128, {128, 1024, 8192}},
    {OP_attention_backward, call_attention_backward, 256, 512, {512, 2048, 8192}},
    {OP_conv3d_forward, call_conv3d, 32, 21, {1, 16}},
    {OP_conv3d_forward, call_conv3d, 64, 11, {1, 16}},
    {OP_conv3d_forward, call_conv3d, 128, 6, {1, 16}},
    {OP_conv3d_backward, call_conv3d_backward, 32, 21, {1, 16}},
    {OP_conv3d_backward, call_conv3d_backward, 64, 11, {1, 16}},
    {OP_conv3d_backward, call_conv3d_backward, 128, 6, {1, 16}},
    {OP_stem_forward, call_stem, 32, 0, {1, 8}},
    {OP_stem_backward, call_stem_backward, 32, 0, {1, 8}},
    {OP_layernorm_forward, call_norm, 256, 0, ROWS},
    {OP_residual_layernorm_forward, call_residual_norm, 256, 0, ROWS},
    {OP_layernorm_backward, call_norm_backward, 256, 0, ROWS},
    {OP_norm_activate_forward, call_activation, 32, 0, {1, 8}},
    {OP_norm_activate_backward, call_activation_backward, 32, 0, {1, 8}},
    {OP_batchnorm_statistics, call_statistics, 32, 0, {1, 8}},
    {OP_cross_entropy_forward_backward, call_loss, 8192, 0, {128, 512, 2048}},
    {OP_adamw_update, call_update, 0, 0, {1 << 16, 1 << 20, 1 << 24}},
    {OP_muon_update, call_muon, 1, 0, {64, 256, 1024}},
    {OP_muon_update, call_muon, 4, 0, {64, 256, 1024}},
};
enum { N_SERIES = sizeof all_series / sizeof *all_series };
static const Series moves = {OP_residual_forward, call_move, 0, 0, {1 << 9, 1 << 13, 1 << 16, 1 << 19}};
static const Series nothing = {OP_cast, call_nothing, 0, 0, {1}};

/* ---- time ---- */

static void call_once(Bench *b) {
    arena_release(&b->arena, 0);
    b->series->call(b);
}

static void call_batch(void *argument) {
    Bench *b = argument;
    for (int i = 0; i < b->calls; i++) call_once(b);
}

/* Returns the seconds of a batch of calls. */
static double batch_seconds(Bench *b) {
    const struct {
        const Series *series;
        int64_t rows, calls, type;
    } key = {b->series, b->rows, b->calls, b->type + (b->device->tf32 ? DTYPE_COUNT : 0)};
    double start = seconds_now();
    if (b->device->repeat)
        b->device->repeat(b->device, &key, sizeof key, false, call_batch, b);
    else
        call_batch(b);
    b->device->synchronize(b->device);
    return seconds_now() - start;
}

/* Counts the FLOPs and bytes of a call on the dry device and returns the bytes of memory that it needs. */
static size_t dry_call(Bench *b) {
    Bench dry = *b;
    OpCounter *counter;
    dry.device = dry_device_open();
    dry.device->half = b->device->half;
    dry.arena = arena_open(dry.device, 0, "dry run");
    call_once(&dry);
    counter = &dry.device->counters[b->series->op];
    b->flops = counter->flops;
    b->bytes = counter->bytes;
    size_t peak = dry.arena.peak;
    arena_close(&dry.arena);
    device_close(dry.device);
    return peak;
}

/* Writes offsets of sequences, or targets among `width` classes. */
static void make_ints(Bench *b) {
    const Series *s = b->series;
    for (int i = 0; i < INTS; i++) b->host_ints[i] = s->length ? i * s->length : s->width ? i % s->width : 0;
    b->device->upload(b->device, b->ints.data, b->host_ints, INTS * sizeof *b->host_ints);
}

/* Fills the memory that a call works in with noise. */
static void make_noise(Bench *b, size_t bytes) {
    int64_t all = (int64_t)(bytes / dtype_size(b->type));
    for (int64_t at = 0; at < all; at += NOISE) {
        int64_t n = all - at < NOISE ? all - at : NOISE;
        cast(b->device, tensor_1d(b->arena.base + (size_t)at * dtype_size(b->type), b->type, n),
             tensor_rows(b->noise, 0, n));
    }
}

/* Returns the seconds of a batch after warm-up batches, in which algorithms are chosen and caches filled; a device that
 * repeats batches records the second one. */
static double settled_seconds(Bench *b) {
    for (int i = 0; i < (b->device->repeat ? 2 : 1); i++) batch_seconds(b);
    return batch_seconds(b);
}

/* Returns the seconds of a call: the lower quartile over batches, because other programs make some slower, none faster.
 */
static double call_seconds(Bench *b) {
    double seconds[REPEATS] = {0};
    int n = 0;
    b->calls = 1;
    double once = settled_seconds(b), calls = b->share / REPEATS / once;
    b->calls = calls < 1 ? 1 : calls > MAX_CALLS ? MAX_CALLS : (int)calls;
    if (b->calls > 1) settled_seconds(b);
    double start = seconds_now();
    while (n < REPEATS && (n < 2 || seconds_now() - start < b->share)) seconds[n++] = batch_seconds(b) / b->calls;
    statistics_sort(seconds, n);
    return seconds[n / 4];
}

/* Returns half of the remaining time per remaining size; the other half is for warm-up. Negative: the time is over. */
static double share_of(const Bench *b) { return 0.5 * (b->end - seconds_now()) / (SIZES * b->left); }

/* Measures one size of a series; false if it would take too much time or memory. rate: the expected FLOP/s. */
static bool measure_size(Bench *b, const Series *series, int i, double rate) {
    enum { FIRST = 8, NEXT = 4 }; /* shares that a single call may take, which small calls leave over */
    b->series = series;
    b->rows = i < SIZES ? series->rows[i] : 0;
    /* The first size of a series and the moves must be measured: the rate of a kind of work depends on them. */
    b->share = i && series != &moves ? share_of(b) : fmax(share_of(b), b->least_share);
    if (!b->rows) return false;
    make_ints(b);
    size_t bytes = dry_call(b);
    if (bytes > b->arena.capacity || b->flops > rate * b->share * (i ? NEXT : FIRST)) return false;
    make_noise(b, bytes);
    double seconds = call_seconds(b), net = seconds - b->launch * work_kernels(series->op);
    /* If launches are nearly all of it, the difference of two similar numbers is not a measurement. */
    b->seconds = net > seconds / 8 ? net : seconds / 8;
    return true;
}

/* Measures the sizes of a series by their FLOPs, of the moves by their bytes. rate: the expected FLOP/s of the first.
 */
static void measure_sizes(Bench *b, const Series *series, double rate, RateCurve *curve) {
    for (int i = 0; measure_size(b, series, i, rate); i++) {
        curve->size[i] = series == &moves ? b->bytes : b->flops;
        curve->rate[i] = curve->size[i] / b->seconds;
        rate = b->flops / b->seconds;
        curve->n++;
    }
    b->left--;
}

static void measure_series(Bench *b, const Series *series, double expected_rate, RateCurve *curve) {
    for (int i = 0; i < SIZES && series->rows[i]; i++) b->rows = series->rows[i];
    b->series = series;
    make_ints(b);
    dry_call(b);
    curve->density =
        b->flops / b->bytes; /* of the largest call, even if not measured: the share of the weights is small there */
    measure_sizes(b, series, expected_rate, curve);
}

static bool is_product(int op) {
    WorkKind kind = work_kind(op);
    return kind <= WORK_GELU_PRODUCT_BACKWARD || kind == WORK_CONVOLUTION || kind == WORK_CONVOLUTION_BACKWARD ||
           kind == WORK_MUON;
}

/* Measures all series in numbers of a type. */
static void measure_type(Bench *b, Rates *rates, NumberType type) {
    double rate = INFINITY;
    b->type = type == NUMBERS_16_BITS ? b->device->half : DTYPE_F32;
    b->device->tf32 = type == NUMBERS_TF32;
    for (int i = 0; i < N_SERIES; i++) {
        const Series *series = &all_series[i];
        RateCurve *curves = rates->flops[work_kind(series->op)][type], curve = {0};
        if (type == NUMBERS_TF32 && !is_product(series->op)) continue;
        measure_series(b, series, rate, &curve);
        if (!i && curve.n) rate = curve.rate[0]; /* of narrow products: most other operations are at least as fast */
        int at = 0;
        while (at < CURVES - 1 && curves[at].n && curves[at].density < curve.density) at++;
        if (!curve.n || curves[CURVES - 1].n) continue;
        memmove(&curves[at + 1], &curves[at], (size_t)(CURVES - 1 - at) * sizeof curve);
        curves[at] = curve;
    }
}

/* Returns bytes/s from pinned memory of the host; 0 if the device reads the host's memory in place. */
static double measure_copy(Bench *b) {
    const size_t bytes = 64 << 20;
    double best = INFINITY;
    if (b->device->host_memory) return 0;
    void *host = b->device->allocate_host(b->device, bytes);
    memset(host, 1, bytes);
    for (int i = 0; i < REPEATS; i++) {
        double start = seconds_now();
        b->device->upload(b->device, b->arena.base, host, bytes);
        b->device->synchronize(b->device);
        best = fmin(best, seconds_now() - start);
    }
    b->device->release_host(b->device, host);
    return (double)bytes / best;
}

static Bench bench_open(Device *device, double seconds) {
    Bench b = {.device = device, .type = DTYPE_F32, .host_ints = xmalloc(INTS * sizeof *b.host_ints)};
    OWNED float *host = xmalloc(NOISE * sizeof *host);
    /* Above 0, as variances are; up to 1/8, so that the longest sum, of 16 cells' 903,168 products in the gradient of a
     * convolution's weights, is 3,500 and not beyond f16, in which cuDNN gives it. */
    for (int i = 0; i < NOISE; i++) host[i] = ((float)philox_bits(1, PURPOSE_SYNTHETIC, 0, (uint64_t)i) + 1) * 0x1p-35f;
    b.noise = tensor_1d(device->allocate(device, NOISE * sizeof *host), DTYPE_F32, NOISE);
    b.ints = tensor_1d(device->allocate(device, INTS * sizeof *b.host_ints), DTYPE_I32, INTS);
    device->upload(device, b.noise.data, host, NOISE * sizeof *host);
    device->synchronize(device);
    b.arena = arena_open(device, CAPACITY, "calibration");
    if (device->convolutions) device->convolutions(device); /* loads a library of some hundred megabytes */
    b.end = seconds_now() + seconds;
    b.left = 2 + N_SERIES * (1 + (device->half != DTYPE_F32));
    for (int i = 0; i < N_SERIES && device->tf32; i++) b.left += is_product(all_series[i].op);
    b.least_share = share_of(&b) / 2; /* earlier sizes may have taken more than their share */
    return b;
}

static void bench_close(Bench *b) {
    Device *device = b->device;
    if (device->forget) device->forget(device);
    arena_close(&b->arena);
    device->release(device, b->noise.data, tensor_bytes(b->noise));
    device->release(device, b->ints.data, tensor_bytes(b->ints));
    free(b->host_ints);
}

Rates rates_measure(Device *device, double seconds) {
    double start = seconds_now();
    bool tf32 = device->tf32;
    time_t now = time(NULL);
    Rates rates = {.half = device->half};
    Bench b = bench_open(device, seconds);
    rates_device_name(device, rates.device);
    strftime(rates.date, sizeof rates.date, "%Y-%m-%d", gmtime(&now));
    rates.memory = device->host_memory ? (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE)
                                       : (double)device->total_memory;
    rates.copy = measure_copy(&b);
    measure_size(&b, &nothing, 0, INFINITY);
    rates.launch = b.launch = b.seconds;
    b.left--;
    measure_sizes(&b, &moves, INFINITY, &rates.bytes);
    /* The most used type comes first: if libraries take long to choose algorithms, less time is left for the others. */
    if (device->half != DTYPE_F32) measure_type(&b, &rates, NUMBERS_16_BITS);
    if (tf32) measure_type(&b, &rates, NUMBERS_TF32);
    measure_type(&b, &rates, NUMBERS_F32);
    device->tf32 = tf32;
    bench_close(&b);
    rates.seconds = seconds_now() - start;
    return rates;
}
