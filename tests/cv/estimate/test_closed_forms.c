/* The work of a step of the FLIM classifier against closed forms, and these beside the specification's own numbers,
 * with the reason where ours differ by design. */
#include "tests/closed_forms_rig.h"

enum { CELLS = 64, FRAMES = 256, SIDE = 21, CHANNELS = 32, WINDOW = 14, MOMENTS = 2 * (WINDOW + WINDOW * WINDOW) };
enum { CV_PARAMETERS = 909057 - 768, RUNNING = 2 * 768 }; /* without the biases that norms take away again */

typedef struct {
    double frames, side, channels;
} Volume;

static double positions(Volume v) { return CELLS * v.frames * v.side * v.side; }
static double numbers(Volume v) { return positions(v) * v.channels; }

/* Pairs of an output and a tap that sees an input, along an axis. */
static double pairs(double in, int taps, int stride) {
    double n = 0;
    for (int at = 0; at < in; at += stride)
        for (int k = -(taps / 2); k <= taps / 2; k++) n += at + k >= 0 && at + k < in;
    return n;
}

/* Multiply-adds, without those with padding. */
static double products(Volume x, Volume y, int taps_t, int taps) {
    int stride_t = (int)ceil(x.frames / y.frames), stride = (int)ceil(x.side / y.side);
    double plane = pairs(x.side, taps, stride);
    return CELLS * x.channels * y.channels * pairs(x.frames, taps_t, stride_t) * plane * plane;
}

static void statistics(double n, double c, double bytes) {
    forms_call(OP_batchnorm_statistics, 4 * n, bytes * n + 24 * c);
}

static void convolve(Volume x, Volume y, int taps) {
    double w = x.channels * y.channels * taps * taps * taps;
    forms_call(OP_conv3d_forward, 2 * products(x, y, taps, taps), HALF * (numbers(x) + numbers(y) + w));
    statistics(numbers(y), y.channels, HALF);
}

static void convolve_back(Volume x, Volume y, int taps, bool add) {
    double w = x.channels * y.channels * taps * taps * taps;
    forms_call(OP_conv3d_backward, 4 * products(x, y, taps, taps) + (add ? numbers(x) : 0),
               HALF * (numbers(y) + (2 + add) * numbers(x) + w) + 8 * w);
}

/* Between convolutions: norm, leaky ReLU; the same backward, which finds the sum's sign again. */
static void activate(double n, double c, double bytes, bool drop, double dropped) {
    forms_call(OP_norm_activate_forward, 3 * n + n + (drop ? n + dropped : 0), 2 * bytes * n + 16 * c);
    forms_call(OP_norm_activate_backward, 3 * n + n + (drop ? n + dropped : 0) + n + 8 * n, 3 * bytes * n + 32 * c);
}

/* At a block's end: the second norm and what is added, which is the block's input or, with a norm of its own, its
 * shortcut; leaky ReLU; with a shortcut the larger of two frames; dropout of whole channels. n: numbers before it. */
static void end_block(Volume v, bool shortcut) {
    double n = numbers(v), out = shortcut ? n / 2 : n, dropped = CELLS * v.channels, c = v.channels;
    double behind = n + (shortcut ? out : 0) + out + dropped, sums = n * (shortcut ? 7 : 4);
    forms_call(OP_norm_activate_forward, sums + behind, HALF * (2 * n + out) + (shortcut ? 32 : 16) * c);
    forms_call(OP_norm_activate_backward, sums + behind + n + (shortcut ? 2 : 1) * 8 * n,
               HALF * (out + 2 * n) + (shortcut ? 64 : 32) * c + HALF * (n + n));
}

/* From x to y behind the pool. */
static void block(Volume x, Volume y) {
    bool shortcut = x.channels != y.channels;
    convolve(x, y, 3);
    activate(numbers(y), y.channels, HALF, false, 0);
    convolve(y, y, 3);
    if (shortcut) convolve(x, y, 1);
    end_block(y, shortcut);
    convolve_back(y, y, 3, false);
    if (shortcut) convolve_back(x, y, 1, false);
    convolve_back(x, y, 3, true);
}

/* The first two layers at once: the first one's output is made where it is wanted, and never stored. Behind it is the
 * norm, 3 FLOPs, and leaky ReLU. Its statistics follow from those of the windows of 14 numbers that it sees. */
static void stem(Volume x, Volume y) {
    Volume between = {x.frames, x.side, CHANNELS};
    double n = WINDOW, first = products(x, between, 7, 1), second = products(between, y, 3, 1),
           inside = numbers(between);
    double w = CHANNELS * n, w2 = CHANNELS * CHANNELS * 3, columns = 4 * CHANNELS;
    forms_call(OP_stem_statistics, positions(x) * (n + n * (n + 1)) + CHANNELS * (2 * n + 2 * n * (n + 1) + 2),
               HALF * (numbers(x) + w) + 4 * MOMENTS + 6 * columns);
    forms_call(OP_stem_forward, 2 * first + 4 * inside + 2 * second,
               HALF * (numbers(x) + numbers(y) + w + w2) + 4 * columns);
    forms_call(OP_stem_backward, 4 * first + 4 * second + 6 * inside + CHANNELS * (2 * n * n + 2 * n + 8 * n),
               HALF * (numbers(x) + numbers(y) + w + w2) + 4 * MOMENTS + 8 * columns + 8 * (w + w2));
    statistics(numbers(y), y.channels, HALF);
    activate(numbers(y), y.channels, HALF, false, 0);
}

/* A product of f32 rows. */
static void linear_f32(double n, double in, double out, bool bias) {
    forms_call(OP_linear_forward, 2 * n * in * out + bias * n * out, 4 * (n * in + in * out + n * out + bias * out));
    forms_call(OP_linear_backward, 4 * n * in * out + bias * n * out,
               4 * (2 * n * in + n * out + in * out) + 8 * (in * out + bias * out));
}

/* Means over all positions, two layers in f32, the loss. */
static void head(Volume x) {
    double means = CELLS * x.channels, hidden = 64;
    forms_call(OP_mean_rows_forward, numbers(x), HALF * (numbers(x) + means));
    forms_call(OP_mean_rows_backward, means, HALF * (numbers(x) + means));
    forms_call(OP_cast, 0, (HALF + 4) * means), forms_call(OP_cast, 0, (HALF + 4) * means);
    linear_f32(CELLS, x.channels, hidden, false);
    statistics(CELLS * hidden, hidden, 4);
    activate(CELLS * hidden, hidden, 4, true, CELLS * hidden);
    linear_f32(CELLS, hidden, 1, true);
    forms_call(OP_binary_cross_entropy_forward_backward, 9 * CELLS, 6 * 4 * CELLS);
    forms_sum(CELLS), forms_sum(CELLS);
}

static const Volume cv_input = {FRAMES, SIDE, 2};

static void cv_step(void) {
    Volume x = {FRAMES / 2, SIDE, 32}, second = {FRAMES / 2, 11, 64}, third = {FRAMES / 4, 6, 128};
    forms_start();
    forms_call(OP_augment_volumes, 2 * positions(cv_input),
               2 * positions(cv_input) + HALF * numbers(cv_input) +
                   CELLS * (4.0 + sizeof(AugmentDraws))); /* u16 counts */
    stem(cv_input, x);
    block(x, x);
    block(x, second);
    block((Volume){FRAMES / 4, 11, 64}, third);
    head((Volume){FRAMES / 8, 6, 128});
    forms_update(CV_PARAMETERS, CV_PARAMETERS + 15 + RUNNING, 128 * 64 + 64, 0);
    forms_call(OP_copy_segments, 0, 8 * RUNNING), forms_call(OP_copy_segments, 0, 8 * RUNNING + 4);
}

/* A layer's output with the mean and the deviation of its channels. */
static double layer(Volume v) { return forms_line(HALF * numbers(v)) + 2 * forms_f32(v.channels); }

/* All at the end of the forward, with the gradients' first steps: the input, as it is and mixed (the plan's batch is,
 * the step's is not); two buffers, each as large as the largest volume behind the stem, for gradients in turn; what
 * layers say and what the next are given. */
static double cv_activations(void) {
    Volume x = {FRAMES / 2, SIDE, 32}, second = {FRAMES / 2, 11, 64}, given = {FRAMES / 4, 11, 64},
           third = {FRAMES / 4, 6, 128}, last = {FRAMES / 8, 6, 128};
    double whole = forms_line(HALF * numbers(x)), bytes = 2 * forms_line(HALF * numbers(cv_input)) + 2 * whole;
    bytes += 2 * forms_f32(CHANNELS) + forms_f32(MOMENTS) + layer(x) + whole; /* the stem */
    bytes += 2 * layer(x) + whole + whole; /* two layers, what is between them; the next's input */
    bytes += 3 * layer(second) + forms_line(HALF * numbers(second)) + forms_line(HALF * numbers(given));
    bytes += 3 * layer(third) + forms_line(HALF * numbers(third)) + forms_line(HALF * numbers(last));
    bytes += 3 * forms_f32(CELLS * 64) + 2 * forms_f32(64); /* the hidden layer, activated, its gradient */
    bytes +=
        2 * forms_line(HALF * CELLS * 128) + 2 * forms_f32(CELLS * 128); /* means, in both types; their gradients */
    return bytes + 3 * forms_f32(CELLS);                                 /* logits, losses, hits */
}

TEST(cv_at_batch_64) {
    json_t *root = forms_estimate("train_cv -b 64 -g 1");
    forms_expect("parameters", forms_number(root, "parameters"), CV_PARAMETERS);
    cv_step();
    forms_expect_operations(root);
    forms_expect_states(root, CV_PARAMETERS + 15 + RUNNING);
    forms_expect("activations", forms_memory(root, "activations"), cv_activations());
    forms_expect("data", forms_memory(root, "data"), 2 * positions(cv_input)); /* the typical data are one batch */
    json_decref(root);
}

/* Multiply-adds of a cell with those with padding, of the convolutions' products; sum of those without. */
static double padded_products(Volume x, Volume y, int taps_t, int taps, double *inside) {
    *inside += products(x, y, taps_t, taps) / CELLS;
    return y.frames * y.side * y.side * x.channels * y.channels * taps_t * taps * taps;
}

/* The specification: 7,494,033,472 multiply-adds a cell forward, of which 6,635.7 million are not with padding; three
 * times that a step, as the first layer is done once more instead of its input's gradient. And 17.1 GB a step in 16
 * bits if the stem is made again and sums come with the convolutions. Ours needs less, as the stem's norm is never
 * read, its gradient never written, and a block's end finds its sum again instead of storing it; and more, 1.2 GB, as
 * what convolutions say is read again for its sums. */
TEST(flims_step_is_below_the_specifications) {
    Volume a = {FRAMES, SIDE, 32}, b = {FRAMES / 2, SIDE, 32}, c = {FRAMES / 2, 11, 64}, d = {FRAMES / 4, 11, 64},
           e = {FRAMES / 4, 6, 128};
    double inside = 0, all = 128 * 64 + 64; /* the head's */
    all += padded_products(cv_input, a, 7, 1, &inside) + padded_products(a, b, 3, 1, &inside);
    for (int i = 0; i < 2; i++) all += padded_products(b, b, 3, 3, &inside);
    all += padded_products(b, c, 3, 3, &inside) + padded_products(c, c, 3, 3, &inside);
    all += padded_products(b, c, 1, 1, &inside) + padded_products(d, e, 3, 3, &inside);
    all += padded_products(e, e, 3, 3, &inside) + padded_products(d, e, 1, 1, &inside);
    forms_expect("multiply-adds with padding, by the specification", all, 7494033472);
    assert_near(inside / 1e6, 6635.7, 0.05);
    cv_step();
    /* Norms and leaky ReLU between the stem's layers are 4 and 6 FLOPs a number; shortcuts' gradients are added to
     * those of the blocks' inputs, 1 a number. What is of channels, not of positions, is less than a millionth. */
    double others = 10 * numbers(a) + 2 * numbers(b) + numbers(d), done = -others;
    const int ops[] = {OP_conv3d_forward, OP_conv3d_backward, OP_stem_forward, OP_stem_backward};
    for (int i = 0; i < 4; i++) done += forms_want[ops[i]].flops;
    assert_near(done, 3 * 2 * CELLS * inside, 1e-6 * done);
    assert_near(forms_total().bytes / 1e9, 14.1, 0.05);
    assert_near(forms_want[OP_batchnorm_statistics].bytes / 1e9, 1.2, 0.05);
}

TEST(products_are_aligned) {
    static const char *const lines[] = {"train_cv", "train_cv --config configs/flim_l4.yaml",
                                        "train_cv --config configs/flim_reference_a.yaml",
                                        "train_cv --config configs/flim_reference_b.yaml"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) forms_expect_aligned(lines[i]);
}
