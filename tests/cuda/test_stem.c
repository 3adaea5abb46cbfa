/* The cuda device's temporal stem against the cpu's, in f32, bf16 and f16, on a GPU or on the emulator. Overwritten
 * outputs start as NaN, accumulated ones as random numbers; sizes divide no tile. */
#include "tests/cuda/schedules.h"

/* The second channel is 0 or 1, and the same in all frames. */
static Pair inputs(DType type, int64_t samples, int64_t frames, int64_t plane) {
    Pair x = normal(type, samples * frames * plane, 2);
    for (int64_t i = 0; i < x.cpu.dims[0]; i++)
        floats(x)[2 * i + 1] = (i / (frames * plane) * plane + i % plane) % 3 ? 1 : 0;
    pair_upload(&rig, x);
    return x;
}

/* Returns the tensor as one row, so that the tolerance is relative to the mean square of all numbers. */
static Pair whole(Pair p) {
    int64_t n = tensor_numel(p.cpu);
    return (Pair){tensor_1d(p.cpu.data, DTYPE_F32, n), tensor_1d(p.cuda.data, DTYPE_F32, n)};
}

/* Copies the cpu's result to the cuda device, so that later operations start from the same numbers on both. */
static void copy_over(Pair p) { pair_upload(&rig, p); }

/* Near `middle`, so that all channels have numbers of one size, to which tolerances are relative. */
static Pair around(float middle, int64_t n) {
    Pair p = pair_normal(&rig, DTYPE_F32, n, 0, 0.125f);
    for (int64_t i = 0; i < n; i++) floats(p)[i] += middle;
    pair_upload(&rig, p);
    return p;
}

static int ascending(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Moves each channel's bias until zero, where the leaky ReLU's slope jumps, is in the middle of the widest gap near it
 * between the numbers there: rounding must not put one on the other side. */
static void keep_off_the_kink(Pair bias, Pair x, Pair w, Pair mean, Pair rstd, Pair gain, Stem stem) {
    int64_t n = x.cpu.dims[0], c = w.cpu.dims[0];
    float *s = xmalloc((size_t)(n * c) * sizeof *s), *v = xmalloc((size_t)n * sizeof *v);
    Convolution first = {{(int)stem.frames, (int)stem.plane, 1}, {STEM_TAPS, 1, 1}, {1, 1, 1}, {STEM_TAPS / 2, 0, 0}};
    conv3d_forward(rig.cpu, tensor_2d(s, DTYPE_F32, n, c), x.cpu, w.cpu, tensor_none(), first);
    for (int64_t i = 0; i < c; i++) {
        float middle = 0, widest = 0, scale = floats(rstd)[i] * floats(gain)[i];
        for (int64_t row = 0; row < n; row++) v[row] = (s[row * c + i] - floats(mean)[i]) * scale + floats(bias)[i];
        qsort(v, (size_t)n, sizeof *v, ascending);
        for (int64_t row = 1; row < n; row++)
            if (fabsf(v[row]) < 0.1f && v[row] - v[row - 1] > widest) {
                widest = v[row] - v[row - 1];
                middle = (v[row] + v[row - 1]) / 2;
            }
        floats(bias)[i] -= middle;
    }
    pair_upload(&rig, bias);
    free(s), free(v);
}

/* Tolerances. Statistics: sums of 32 frames, a warp's and a block's, 40 roundings at the worst, of what cancels at most
 * to a tenth here. In 16-bit types what is between the layers is rounded once more, and so is its gradient: by errors
 * of random sign and at most r = rounding_of(type), r / sqrt(3) in the mean. Every output is a sum of these numbers
 * times others, so that relative to it the error is 0.58 r, too, and 4 r is seven times that. */
static void check_stem(DType type, int64_t samples, int64_t frames, int64_t plane, int64_t c, int64_t o) {
    Stem stem = {frames, plane, 0.01f};
    int64_t rows = samples * frames * plane, tall = samples * stem_frames(stem) * plane;
    Pair x = inputs(type, samples, frames, plane), w = normal(type, c, STEM_WINDOW), w2 = normal(type, o, 3 * c);
    Pair mean = poisoned(DTYPE_F32, c, 0), rstd = poisoned(DTYPE_F32, c, 0);
    Pair moments = poisoned(DTYPE_F32, STEM_MOMENTS, 0), none = pair_none();
    Pair running_mean = normal(DTYPE_F32, c, 0), running_var = normal(DTYPE_F32, c, 0);
    Pair gain = around(1, c), bias = around(0, c);
    Pair y = poisoned(type, tall, o), dy = normal(type, tall, o);
    Pair dw = normal(DTYPE_F32, c, STEM_WINDOW), dgain = normal(DTYPE_F32, c, 0), dbias = normal(DTYPE_F32, c, 0);
    Pair dw2 = normal(DTYPE_F32, o, 3 * c);
    stem_statistics(rig.cpu, (BatchStatistics){mean.cpu, rstd.cpu, running_mean.cpu, running_var.cpu, 0.1f},
                    moments.cpu, x.cpu, w.cpu, stem);
    stem_statistics(rig.cuda, (BatchStatistics){mean.cuda, rstd.cuda, none.cuda, none.cuda, 0.1f}, moments.cuda, x.cuda,
                    w.cuda, stem);
    check_output("stem_statistics mean", mean, 400 * U);
    stem_statistics(rig.cuda, (BatchStatistics){mean.cuda, rstd.cuda, running_mean.cuda, running_var.cuda, 0.1f},
                    moments.cuda, x.cuda, w.cuda, stem);
    check_output("stem_statistics mean", mean, 400 * U);
    check_output("stem_statistics rstd", rstd, 400 * U);
    check_output("stem_statistics running_mean", running_mean, 400 * U);
    check_output("stem_statistics running_var", running_var, 400 * U);
    copy_over(mean), copy_over(rstd);
    keep_off_the_kink(bias, x, w, mean, rstd, gain, stem);
    stem_forward(rig.cpu, y.cpu, x.cpu, (StemWeights){w.cpu, mean.cpu, rstd.cpu, gain.cpu, bias.cpu, w2.cpu}, stem);
    stem_forward(rig.cuda, y.cuda, x.cuda, (StemWeights){w.cuda, mean.cuda, rstd.cuda, gain.cuda, bias.cuda, w2.cuda},
                 stem);
    double between = type == DTYPE_F32 ? 0 : 4 * rounding_of(type);
    check_output("stem_forward", y, error_in(type, 3 * c, 24) + between);
    stem_backward(rig.cpu, (StemGradients){dw.cpu, dgain.cpu, dbias.cpu, dw2.cpu}, dy.cpu, x.cpu,
                  (StemWeights){w.cpu, mean.cpu, rstd.cpu, gain.cpu, bias.cpu, w2.cpu}, moments.cpu, stem);
    stem_backward(rig.cuda, (StemGradients){dw.cuda, dgain.cuda, dbias.cuda, dw2.cuda}, dy.cuda, x.cuda,
                  (StemWeights){w.cuda, mean.cuda, rstd.cuda, gain.cuda, bias.cuda, w2.cuda}, moments.cuda, stem);
    check_output("stem_backward dw2", whole(dw2), sum_error(rows, 24) + between);
    check_output("stem_backward dbias", dbias, sum_error(rows, 24) + between);
    check_output("stem_backward dgain", dgain, sum_error(rows, 32) + between);
    check_output("stem_backward dw", whole(dw), sum_error(rows, 40) + between);
}

TEST_IN_EVERY_TYPE(of_few_positions) {
    check_stem(type, 2, 9, 4, 8, 8);
    check_stem(type, 3, 6, 7, 32, 32);
    check_stem(type, 2, 1, 3, 16, 24); /* one frame: windows of nothing else */
    check_stem(type, 5, 2, 1, 24, 16);
}

/* More than a block's columns, and than its frames: pieces of time, the last of which is short. */
TEST_IN_EVERY_TYPE(of_pieces) {
    check_stem(type, 3, 75, 45, 32, 32);
    check_stem(type, 1, 38, 19, 64, 64);
    check_stem(type, 2, 21, 18, 48, 32);
    check_stem(type, 2, 20, 18, 16, 40);
}

int main(void) { return tests_run(open_rig, close_rig); }
