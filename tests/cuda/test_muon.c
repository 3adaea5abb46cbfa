/* Muon on the cuda device, against the cpu's, on a GPU or on the emulator.
 *
 * Tolerances of an update. X and A are rounded to the type some four times in each of five steps. The slope of the
 * polynomial multiplies what is there; over the singular values its root mean square is about 2. Twenty independent
 * roundings so become 2 sqrt(20), and the largest of many elements has 4 times as much: 36 roundings. In f32 products
 * of K terms have sum_error(K, 4) instead. */
#include "tests/cuda/schedules.h"

static double update_error(DType type, int64_t side) {
    return 36 * (type == DTYPE_F32 ? sum_error(side, 4) / 4 : rounding_of(type));
}

static Pair number(float x) {
    Pair p = poisoned(DTYPE_F32, 1, 0);
    *floats(p) = x;
    pair_upload(&rig, p);
    return p;
}

typedef struct {
    Pair p, m, g, copy, norm, loss_scale;
} Buffers;

static Buffers open_buffers(DType type, int64_t n, float norm, float factor) {
    Buffers b = {.p = normal(DTYPE_F32, n, 0), .m = normal(DTYPE_F32, n, 0), .g = normal(DTYPE_F32, n, 0)};
    b.copy = type == DTYPE_F32 ? pair_none() : poisoned(type, n, 0);
    b.norm = number(norm);
    b.loss_scale = factor > 0 ? poisoned(DTYPE_F32, LOSS_SCALE_FIELDS, 0) : pair_none();
    for (int64_t i = 0; i < n && factor > 0; i++) floats(b.g)[i] *= factor;
    if (factor > 0) memcpy(b.loss_scale.cpu.data, (float[]){factor, 0, 41, 2}, LOSS_SCALE_FIELDS * sizeof(float));
    if (factor > 0) pair_upload(&rig, b.loss_scale);
    pair_upload(&rig, b.g);
    return b;
}

static bool in_matrix(MuonMatrix w, int64_t i) {
    int64_t at = i - w.offset;
    return at >= 0 && at / w.stride < w.rows && at % w.stride < w.columns;
}

/* The copy is the new parameters rounded inside the matrix; elsewhere it keeps its NaN. */
static void check_copy(const Buffers *b, DType type, MuonMatrix w, bool updated) {
    float *params = pair_download(&rig, b->p), *copied = pair_download(&rig, b->copy);
    for (int64_t i = 0; i < tensor_numel(b->p.cuda); i++)
        if (updated && in_matrix(w, i) ? copied[i] != through_type(type, params[i]) : !isnan(copied[i]))
            fail_msg("the copy of parameter %lld is %g, the parameter %g", (long long)i, (double)copied[i],
                     (double)params[i]);
    free(params);
    free(copied);
}

static void update(const Buffers *b, MuonMatrix w, Muon o) {
    AdamWBuffers on_cpu = {.params = b->p.cpu, .m = b->m.cpu, .grads = b->g.cpu},
                 on_cuda = {.params = b->p.cuda, .copy = b->copy.cuda, .m = b->m.cuda, .grads = b->g.cuda};
    muon_update(rig.cpu, on_cpu, b->norm.cpu, b->loss_scale.cpu, w, o);
    muon_update(rig.cuda, on_cuda, b->norm.cuda, b->loss_scale.cuda, w, o);
}

/* Two updates, the first with a decay that removes the parameters, so that only the update is left of them. */
static void check_matrix(DType type, MuonMatrix w, float norm, float factor, Muon o) {
    Buffers b = open_buffers(type, w.offset + w.rows * w.stride + 3, norm, factor);
    int64_t side = w.rows < w.columns ? w.rows : w.columns, n = tensor_numel(b.p.cpu);
    float *before = pair_download(&rig, b.p);
    for (int time = 0; time < 2; time++) {
        w.weight_decay = time ? 0.25f : 1 / w.learning_rate;
        update(&b, w, o);
        check_output("muon_update m", b.m, 16 * U);
        check_output("muon_update params", b.p, update_error(type, side));
    }
    float *after = pair_download(&rig, b.p);
    for (int64_t i = 0; i < n; i++)
        if (!in_matrix(w, i) || !isfinite(norm)) assert_true(after[i] == before[i]);
    if (type != DTYPE_F32) check_copy(&b, type, w, isfinite(norm));
    free(before);
    free(after);
}

TEST_IN_EVERY_TYPE(matrices) {
    const Muon plain = {0.95f, 0}, clipped = {0.9f, 1};
    check_matrix(type, (MuonMatrix){16, 64, 48, 64, 0, 0.5f, 0}, 3, 0, plain);
    check_matrix(type, (MuonMatrix){5, 24, 67, 24, 0, 1, 0}, 3, 0, clipped); /* tall, of no multiple of 16 bytes */
    check_matrix(type, (MuonMatrix){16, 70, 23, 70, 0, 2, 0}, 0.5f, 1024, clipped);
    check_matrix(type, (MuonMatrix){0, 96, 32, 32, 0, 2, 0}, 3, 1024, clipped); /* the first of three side by side */
    check_matrix(type, (MuonMatrix){64, 96, 32, 32, 0, 0.5f, 0}, 3, 0, plain);  /* the last */
    check_matrix(type, (MuonMatrix){3, 9, 1, 9, 0, 0.5f, 0}, 3, 0, plain);
    check_matrix(type, (MuonMatrix){3, 1, 9, 1, 0, 0.5f, 0}, 3, 0, plain);
}

/* Sums of several blocks, and products whose sums are divided among blocks, in scratch beside X and A. */
TEST_IN_EVERY_TYPE(large_matrix) {
    check_matrix(type, (MuonMatrix){0, 600, 40, 600, 0, 0.5f, 0}, 3, 0, (Muon){0.95f, 0});
}

TEST_IN_EVERY_TYPE(overflows) {
    const float norms[] = {INFINITY, NAN};
    for (int i = 0; i < 2; i++) {
        const MuonMatrix w = {16, 20, 12, 20, 0.1f, 0.5f, 0};
        Buffers b = open_buffers(type, 300, norms[i], i ? 1024 : 0);
        floats(b.g)[20] = norms[i];
        pair_upload(&rig, b.g);
        update(&b, w, (Muon){0.95f, 1});
        check_output("muon_update params", b.p, 0);
        check_output("muon_update m", b.m, 0);
        if (type != DTYPE_F32) check_copy(&b, type, w, false);
    }
}

TEST_IN_EVERY_TYPE(zeros) {
    const MuonMatrix w = {0, 20, 12, 20, 0.5f, 0.5f, 0};
    Buffers b = open_buffers(type, 240, 0, 0);
    for (int64_t i = 0; i < 240; i++) floats(b.g)[i] = floats(b.m)[i] = 0;
    pair_upload(&rig, b.g);
    pair_upload(&rig, b.m);
    update(&b, w, (Muon){0.95f, 1});
    check_output("muon_update params without a gradient", b.p, 0);
}

/* A rate on the device gives the bits of the same rate in the argument, on either device. */
TEST_IN_EVERY_TYPE(rates_on_the_device) {
    MuonMatrix w = {16, 20, 12, 20, 0.5f, 0.125f, 0};
    Buffers b[2];
    Pair rates = pair_normal(&rig, DTYPE_F32, 3, 0, 1);
    floats(rates)[2] = 0.25f;
    pair_upload(&rig, rates);
    for (int i = 0; i < 2; i++) {
        rig.draws = 70;
        b[i] = open_buffers(type, 300, 3, 0);
        AdamWBuffers on_cpu = {.params = b[i].p.cpu, .m = b[i].m.cpu, .grads = b[i].g.cpu},
                     on_cuda = {.params = b[i].p.cuda, .copy = b[i].copy.cuda, .m = b[i].m.cuda, .grads = b[i].g.cuda};
        if (i) w.learning_rate = 0.5f, w.group = 2, on_cpu.rates = rates.cpu, on_cuda.rates = rates.cuda;
        muon_update(rig.cpu, on_cpu, b[i].norm.cpu, tensor_none(), w, (Muon){0.95f, 1});
        muon_update(rig.cuda, on_cuda, b[i].norm.cuda, tensor_none(), w, (Muon){0.95f, 1});
    }
    expect_same_bits(&rig, "muon_update params by a rate on the device", b[0].p, b[1].p);
    assert_memory_equal(b[0].p.cpu.data, b[1].p.cpu.data, 300 * sizeof(float));
}

/* ---- scratch that an operation keeps while it calls others ---- */

static void update_at_nowhere(void *argument) {
    const MuonMatrix *w = argument;
    static float nothing __attribute__((aligned(256)));
    Tensor flat = tensor_1d(&nothing, DTYPE_F32, w->rows * w->columns), one = tensor_1d(&nothing, DTYPE_F32, 1);
    muon_update(rig.cuda, (AdamWBuffers){.params = flat, .m = flat, .grads = flat}, one, tensor_none(), *w,
                (Muon){0.95f, 1});
}

/* X, the next X, A and A A must be there beside what a product needs; and an update that was planned allocates nothing.
 */
TEST(scratch_is_planned) {
    rig_clear(&rig);
    MuonMatrix w = {0, 600, 60, 600, 0, 1, 0};
    CudaState *cuda = cuda_state(rig.cuda);
    Device *device = rig.cuda;
    size_t planned = device->measure(device, update_at_nowhere, &w);
    assert_true(cuda->measured >= sizeof(float) * (2 * 60 * 600 + 2 * 60 * 60));
    assert_int_equal(cuda->kept, 0);
    if (device->reserve) device->reserve(device, planned, 0);
    Buffers b = open_buffers(DTYPE_F32, 60 * 600, 1, 0);
    int64_t calls = device->allocation_calls;
    update(&b, w, (Muon){0.95f, 1});
    assert_int_equal(device->allocation_calls, calls);
    assert_int_equal(cuda->kept, 0);
    rig_clear(&rig);
}

int main(void) { return tests_run(open_rig, close_rig); }
