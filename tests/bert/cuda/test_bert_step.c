/* Whole training steps of small encoders on the cuda device, real or emulated, against the cpu device: losses, every
 * gradient, what a validation says and the logits, and updates; with a frozen layer; in f32 and in the 16-bit types,
 * with and without recomputation, with dropout; and the same bits under another schedule and from a recording. */
#include "tests/bert/rig.h"
#include "tests/cuda/step_rig.h"

enum { LAYERS = 2, BATCHES = 2, UPDATES = 2, VOCABULARY = 61 };
static const int32_t lengths[] = {33, 2, 39, 7};
enum { TEXTS = sizeof lengths / sizeof *lengths };

typedef struct {
    const char *name;
    int classes;
    float dropout;
    bool recompute;
    int frozen; /* layers */
} Case;

static const Case cases[] = {
    {"classes", 3, 0, false, 0},
    {"classes, dropout, recomputed", 3, 0.1f, true, 0},
    {"classes, one layer", 3, 0.1f, false, 1},
    {"masked", 0, 0, true, 0},
    {"masked, dropout", 0, 0.1f, false, 0},
};
enum { CASES = sizeof cases / sizeof *cases };

static Side bert_side_open(const Case *c, Device *device, const Batch *batches, DType half) {
    BertConfig config = bert_config_small(c->classes, c->dropout);
    config.vocabulary = VOCABULARY;
    config.positions = 41;
    config.frozen_layers = c->frozen;
    Model *model = bert_open(&config);
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

static void assert_loss(const Side *got, const Side *want, double tolerance) {
    assert_near(got->host_sums[BERT_LOSS], want->host_sums[BERT_LOSS], tolerance * (double)want->host_sums[BERT_LOSS]);
}

/* The bias of the keys has no gradient but rounding. */
static void clear_key_biases(const Side *side) {
    for (int i = 0; i < side->model->params.count; i++) {
        const Param *p = &side->model->params.items[i];
        if (strstr(p->name, "self.key.bias")) memset(side->gradients + p->offset, 0, (size_t)p->count * 4);
    }
}

static void compare_gradients(const Case *c, DType half, const Side *got, const Side *want, double tolerance) {
    const char *where;
    clear_key_biases(got);
    clear_key_biases(want);
    double worst = largest_distance(&want->model->params, got->gradients, want->gradients, false, &where);
    print_message("%s, %s: gradients differ by %.2g at most, in %s (allowed %.2g)\n", c->name, dtype_name(half), worst,
                  where, tolerance);
    assert_true(worst <= tolerance);
    assert_near(got->host_norm, want->host_norm, tolerance * (double)want->host_norm);
}

static void compare_validations(const Case *c, Side *want, Side *got, Side *again, double tolerance) {
    for (int i = 0; i < 2 * BATCHES; i++) { /* recorded the second time, repeated for other batches */
        Side *sides[] = {want, got, again};
        for (int s = 0; s < 3; s++) side_validate(sides[s], i % BATCHES);
        assert_loss(got, want, tolerance);
        assert_memory_equal(again->host_sums, got->host_sums, sizeof got->host_sums);
        if (c->classes) assert_true(distance(got->host_outputs, want->host_outputs, TEXTS * c->classes) <= tolerance);
    }
}

/* A gradient passes through about 12 roundings a block and as many on the way there. Every update adds to what the two
 * sides differ by what it made of the differences of its gradients. */
static void compare(const Case *c, DType half) {
    Rig rig = rig_open(half);
    if (!rig_has(&rig, half)) {
        rig_close(&rig);
        skip();
    }
    Batch batches[BATCHES];
    for (int b = 0; b < BATCHES; b++) batches[b] = bert_batch_random(VOCABULARY, c->classes, 100 * b, lengths, TEXTS);
    Side want = bert_side_open(c, rig.cpu, batches, DTYPE_F32), got = bert_side_open(c, rig.cuda, batches, half);
    Side again = bert_side_open(c, rig.cuda, batches, half);
    double tolerance = tolerance_of(half, 24 * LAYERS + 12);
    again.repeat = true;
    for (int k = 0; k < UPDATES; k++) {
        side_step(&want, false);
        side_step_twice(&rig, &got, &again, c->recompute);
        if (!k) compare_gradients(c, half, &got, &want, tolerance);
        assert_loss(&got, &want, (k + 1) * tolerance);
    }
    compare_validations(c, &want, &got, &again, (UPDATES + 1) * tolerance);
    for (int i = 0; i < 2; i++) assert_non_null(cuda_state(rig.cuda)->recordings[i].graph);
    side_close(&want);
    side_close(&got);
    side_close(&again);
    for (int b = 0; b < BATCHES; b++) batch_close(&batches[b]);
    rig_close(&rig);
}

static void compare_all(DType half) {
    for (int i = 0; i < CASES; i++) compare(&cases[i], half);
}

int main(void) { return step_tests_run(compare_all); }
