/* Whole training steps of small text GPTs on the cuda device, real or emulated, against the cpu device: losses, every
 * gradient, what a validation says, and updates; in f32 and in the 16-bit types, with and without recomputation, with
 * dropout; and the same bits under another schedule and from a recording. */
#include "tests/cuda/step_rig.h"
#include "tests/slm/rig.h"

enum { LAYERS = 2, BATCHES = 2, UPDATES = 2, CONTEXT = 40 };

typedef struct {
    const char *name;
    SlmConfig config;
    int32_t lengths[4]; /* of the sequences of a batch; 0 ends */
} Case;

/* Packed contexts of the reference's model; documents of their own in GPT-2's, whose vocabulary is odd. */
static const Case cases[] = {
    {"packed", {128, CONTEXT, 32, LAYERS, 2, false, false, GELU_ERF, 0}, {CONTEXT, CONTEXT}},
    {"packed, dropout", {128, CONTEXT, 32, LAYERS, 2, false, false, GELU_ERF, 0.1f}, {CONTEXT, CONTEXT}},
    {"separate", {61, CONTEXT, 32, LAYERS, 2, true, true, GELU_TANH, 0}, {33, 1, 39, 7}},
    {"separate, dropout", {61, CONTEXT, 32, LAYERS, 2, true, true, GELU_TANH, 0.1f}, {33, 1, 39, 7}},
};
enum { CASES = sizeof cases / sizeof *cases };

static Side slm_side_open(const Case *c, Device *device, const Batch *batches, DType half) {
    Model *model = slm_open(&c->config);
    int64_t n = model->params.flat_count;
    float *weights = xaligned((size_t)n * 4);
    params_initialize(&model->params, weights, 7, 1);
    for (int i = 0; i < model->params.count; i++) { /* larger matrices, so that attention is not flat */
        const Param *p = &model->params.items[i];
        for (int64_t e = 0; p->rank == 2 && e < p->count; e++) weights[p->offset + e] *= 5;
    }
    Side side = side_open(device, model, weights, batches, BATCHES, half);
    free(weights);
    return side;
}

/* Hits of 16 bits may differ by a tie. */
static void assert_loss(const Side *got, const Side *want, double tolerance) {
    assert_near(got->host_sums[SLM_LOSS], want->host_sums[SLM_LOSS], tolerance * (double)want->host_sums[SLM_LOSS]);
}

static void compare_gradients(const Case *c, DType half, bool recompute, const Side *got, const Side *want,
                              double tolerance) {
    const char *where;
    double worst = largest_distance(&want->model->params, got->gradients, want->gradients, false, &where);
    print_message("%s, %s%s: gradients differ by %.2g at most, in %s (allowed %.2g)\n", c->name, dtype_name(half),
                  recompute ? ", recomputed" : "", worst, where, tolerance);
    assert_true(worst <= tolerance);
    assert_near(got->host_norm, want->host_norm, tolerance * (double)want->host_norm);
}

/* A gradient passes through about 12 roundings a block and as many on the way there. Every update adds to what the two
 * sides differ by what it made of the differences of its gradients. */
static void compare(const Case *c, DType half, bool recompute) {
    Rig rig = rig_open(half);
    if (!rig_has(&rig, half)) {
        rig_close(&rig);
        skip();
    }
    Batch batches[BATCHES];
    int n = 0;
    while (n < 4 && c->lengths[n]) n++;
    for (int b = 0; b < BATCHES; b++) batches[b] = slm_batch_random(c->config.vocabulary, 100 * b, c->lengths, n);
    Side want = slm_side_open(c, rig.cpu, batches, DTYPE_F32), got = slm_side_open(c, rig.cuda, batches, half);
    Side again = slm_side_open(c, rig.cuda, batches, half);
    double tolerance = tolerance_of(half, 24 * LAYERS + 12);
    again.repeat = true;
    for (int k = 0; k < UPDATES; k++) {
        side_step(&want, false);
        side_step_twice(&rig, &got, &again, recompute);
        if (!k) compare_gradients(c, half, recompute, &got, &want, tolerance);
        assert_loss(&got, &want, (k + 1) * tolerance);
    }
    for (int i = 0; i < 2 * BATCHES; i++) { /* recorded the second time, repeated for other batches */
        Side *sides[] = {&want, &got, &again};
        for (int s = 0; s < 3; s++) side_validate(sides[s], i % BATCHES);
        assert_loss(&got, &want, (UPDATES + 1) * tolerance);
        assert_memory_equal(again.host_sums, got.host_sums, sizeof got.host_sums);
    }
    for (int i = 0; i < 2; i++) assert_non_null(cuda_state(rig.cuda)->recordings[i].graph);
    side_close(&want);
    side_close(&got);
    side_close(&again);
    for (int b = 0; b < BATCHES; b++) batch_close(&batches[b]);
    rig_close(&rig);
}

static void compare_all(DType half) {
    for (int i = 0; i < CASES; i++) compare(&cases[i], half, i % 2);
}

int main(void) { return step_tests_run(compare_all); }
