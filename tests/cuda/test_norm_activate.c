/* The cuda device's halves of batch normalisation, and what follows it, against the cpu's: sums of two norms, leaky
 * ReLU, pools, dropout of channels; in f32, bf16 and f16, on a GPU or on the emulator. Overwritten outputs start as
 * NaN, accumulated ones as random numbers; sizes are no multiples of packs and blocks, and arrays are not aligned to
 * packs. Inputs are multiples of a half, so that frames are equal often; both devices get the same statistics. */
#include "tests/cuda/schedules.h"

static Pair of_shape(DType type, int64_t n, int64_t c, bool shift) {
    return shift ? shifted(poisoned(type, n * c + 1, 0), n, c) : poisoned(type, n, c);
}

static Pair halves(DType type, int64_t n, int64_t c, bool shift) {
    Pair x = shift ? shifted(normal(type, n * c + 1, 0), n, c) : normal(type, n, c);
    for (int64_t i = 0; i < n * c; i++) floats(x)[i] = roundf(2 * floats(x)[i]) / 2;
    pair_upload(&rig, x);
    return x;
}

typedef struct {
    Normed cpu, cuda;
    Pair dx, dgain, dbias;
} Operand;

/* Statistics from the cpu, after both have been compared. */
static Operand operand(DType type, int64_t n, int64_t c, bool shift, bool norm) {
    Operand o = {.dx = of_shape(type, n, c, shift), .dgain = pair_none(), .dbias = pair_none()};
    Pair x = halves(type, n, c, shift);
    o.cpu.x = x.cpu, o.cuda.x = x.cuda;
    if (!norm) return o;
    Pair mean = poisoned(DTYPE_F32, c, 0), rstd = poisoned(DTYPE_F32, c, 0), gain = normal(DTYPE_F32, c, 0);
    Pair bias = normal(DTYPE_F32, c, 0), running_mean = normal(DTYPE_F32, c, 0), running_var = normal(DTYPE_F32, c, 0);
    batchnorm_statistics(rig.cpu, (BatchStatistics){mean.cpu, rstd.cpu, running_mean.cpu, running_var.cpu, 0.1f},
                         x.cpu);
    batchnorm_statistics(rig.cuda, (BatchStatistics){mean.cuda, rstd.cuda, running_mean.cuda, running_var.cuda, 0.1f},
                         x.cuda);
    check_output("batchnorm_statistics mean", mean, sum_error(n, 8));
    check_output("batchnorm_statistics rstd", rstd, sum_error(n, 8));
    check_output("batchnorm_statistics running_mean", running_mean, sum_error(n, 8));
    check_output("batchnorm_statistics running_var", running_var, sum_error(n, 16));
    pair_upload(&rig, mean);
    pair_upload(&rig, rstd);
    o.cpu = (Normed){x.cpu, mean.cpu, rstd.cpu, gain.cpu, bias.cpu};
    o.cuda = (Normed){x.cuda, mean.cuda, rstd.cuda, gain.cuda, bias.cuda};
    o.dgain = normal(DTYPE_F32, c, 0);
    o.dbias = normal(DTYPE_F32, c, 0);
    return o;
}

typedef struct {
    int64_t samples, frames, plane, c;
    bool pool, average, shift;
    float slope, p;
} Sum;

static void expect_backward(DType type, int64_t n, Operand *a, Operand *b, Pair da, Pair db, Pair dy,
                            NormActivation how, NormActivation on_cuda) {
    norm_activate_backward(rig.cpu, (NormGradients){.dx = da.cpu, .dgain = a->dgain.cpu, .dbias = a->dbias.cpu},
                           (NormGradients){.dx = db.cpu, .dgain = b->dgain.cpu, .dbias = b->dbias.cpu}, dy.cpu, a->cpu,
                           b->cpu, how);
    norm_activate_backward(rig.cuda, (NormGradients){.dx = da.cuda, .dgain = a->dgain.cuda, .dbias = a->dbias.cuda},
                           (NormGradients){.dx = db.cuda, .dgain = b->dgain.cuda, .dbias = b->dbias.cuda}, dy.cuda,
                           a->cuda, b->cuda, on_cuda);
    check_output("norm_activate_backward da", da, error_in(type, n, 32));
    check_output("norm_activate_backward dgain_a", a->dgain, sum_error(n, 16));
    check_output("norm_activate_backward dbias_a", a->dbias, sum_error(n, 8));
    if (tensor_given(db.cpu)) check_output("norm_activate_backward db", db, error_in(type, n, 32));
    if (!tensor_given(b->dgain.cpu)) return;
    check_output("norm_activate_backward dgain_b", b->dgain, sum_error(n, 16));
    check_output("norm_activate_backward dbias_b", b->dbias, sum_error(n, 8));
}

static void check_sum(DType type, int operands, Sum s) {
    static const uint32_t step = 7;
    int64_t n = s.samples * s.frames * s.plane, tall = s.samples * (s.pool ? s.frames / 2 : s.frames) * s.plane;
    NormActivation how = {s.slope, s.frames, s.plane, s.pool, s.average, {s.p, 11, PURPOSE_DROPOUT | 3 << 8, &step}};
    NormActivation there = how;
    there.drop = on_cuda(&rig, how.drop);
    Operand a = operand(type, n, s.c, s.shift, true);
    Operand b = {.dx = pair_none(), .dgain = pair_none(), .dbias = pair_none()};
    if (operands > 1) b = operand(type, n, s.c, s.shift, operands == 3);
    Pair y = of_shape(type, tall, s.c, s.shift), dy = halves(type, tall, s.c, s.shift);
    norm_activate_forward(rig.cpu, y.cpu, a.cpu, b.cpu, how);
    norm_activate_forward(rig.cuda, y.cuda, a.cuda, b.cuda, there);
    check_output("norm_activate_forward", y, error_in(type, 0, 16));
    expect_backward(type, n, &a, &b, a.dx, b.dx, dy, how, there);
    /* Again in place. */
    Pair at_a = {a.cpu.x, a.cuda.x}, at_b = {b.cpu.x, b.cuda.x};
    expect_backward(type, n, &a, &b, s.pool ? at_a : dy, at_b, dy, how, there);
    rig_clear(&rig);
}

static void check_sums(DType type) {
    for (int operands = 1; operands <= 3; operands++) {
        check_sum(type, operands, (Sum){2, 3, 5, 35, false, false, false, 0.01f, 0.25f});
        check_sum(type, operands, (Sum){3, 5, 59, 64, true, false, false, 0.01f, 0.25f});
        check_sum(type, operands, (Sum){2, 4, 53, 24, true, true, true, 1, 0});
        check_sum(type, operands, (Sum){77, 1, 1, 64, false, false, false, 0.01f, 0.25f});
    }
    check_sum(type, 3, (Sum){2, 6, 13, 264, true, false, false, 0.01f, 0});
    check_sum(type, 2, (Sum){2, 2, 131, 40, false, false, true, 0, 0.5f});
    check_sum(type, 1, (Sum){3, 7, 1, 11, true, false, false, 0.5f, 0.5f});
    check_sum(type, 3, (Sum){2, 1, 5, 8, true, false, false, 0.01f, 0}); /* all frames are odd ones: no y */
}

static void check_running(DType type) {
    for (int64_t c = 1; c < 700; c += 300) {
        Pair variance = normal(type, c, 0), rstd = poisoned(type, c, 0);
        for (int64_t j = 0; j < c; j++) floats(variance)[j] = j ? fabsf(floats(variance)[j]) : 0;
        pair_upload(&rig, variance);
        batchnorm_from_running(rig.cpu, rstd.cpu, variance.cpu);
        batchnorm_from_running(rig.cuda, rstd.cuda, variance.cuda);
        check_output("batchnorm_from_running", rstd, 4 * U);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_in_every_type(sums, check_sums),
        test_in_f32(from_running_statistics, check_running),
    };
    return cmocka_run_group_tests(tests, open_rig, close_rig);
}
