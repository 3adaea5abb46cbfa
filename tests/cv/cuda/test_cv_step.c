/* Whole training steps of the FLIM classifier on the cuda device, real or emulated, against the cpu device, from photon
 * counts on: losses, every gradient, running statistics, logits, and updates; in f32 and in the 16-bit types, with and
 * without recomputation, with dropout and mixup; and the same bits under another schedule and from a recording. */
#include "model/cv/cv.h"
#include "tests/cuda/step_rig.h"
#include "tests/cv/rig.h"

enum { CELLS = 4, BATCHES = 2, DEVICE_CELLS = 6, UPDATES = 2 };

typedef struct {
    const char *name;
    CvConfig config;
} Case;

static const Case network = {"network",
                             {.channels = {8, 16, 24}, .bins = 18, .side = 7, .dropout = 0.2f, .head_dropout = 0.2f}};
static const Case linear = {"linear network", {.channels = {8, 16, 24}, .bins = 18, .side = 7, .linear = true}};

/* ---- batches, and two sides ---- */

typedef struct {
    uint8_t *counts;
    Batch batches[BATCHES];
} Cells;

/* Cells differ in brightness and in their slopes along each axis. No count is 0, and no border comes in: a constant
 * background would have its ties broken by rounding. */
static uint8_t count_of(const CvConfig *config, int64_t voxel) {
    int64_t side = config->side, cell = voxel / cv_rows(config, 1), place = voxel % cv_rows(config, 1);
    const int64_t at[] = {place / side / side, place / side % side, place % side}, n[] = {config->bins, side, side};
    double exponent = cv_golden_uniform(60, (uint64_t)cell) + 0.1 * cv_golden_uniform(50, (uint64_t)voxel);
    for (int i = 0; i < 3; i++)
        exponent += cv_golden_uniform(61 + (uint64_t)i, (uint64_t)cell) * ((double)(2 * at[i]) / (double)n[i] - 1);
    return (uint8_t)fmin(200, 2 + 30 * exp(exponent));
}

static Cells cells_open(const CvConfig *config) {
    int64_t voxels = cv_rows(config, 1);
    Cells c = {.counts = xmalloc((size_t)(DEVICE_CELLS * voxels))};
    for (int64_t i = 0; i < DEVICE_CELLS * voxels; i++) c.counts[i] = count_of(config, i);
    for (int b = 0; b < BATCHES; b++) {
        static const float share = 0.85f, labels[CELLS] = {0, 1, 1, 0};
        static const int32_t partners[BATCHES][CELLS] = {{1, 3, 0, 2}, {3, 2, 1, 0}};
        float targets[CELLS];
        for (int i = 0; i < CELLS; i++)
            targets[i] = 0.025f + 0.95f * (share * labels[i] + (1 - share) * labels[partners[b][i]]);
        Batch *batch = &c.batches[b];
        *batch = cv_batch(config, NULL, targets, labels, CELLS);
        memcpy(batch_push_1d(batch, CV_PARTNERS, DTYPE_I32, CELLS).data, partners[b], sizeof partners[b]);
        memcpy(batch_push_1d(batch, CV_SHARE, DTYPE_F32, 1).data, &share, sizeof share);
        batch->fields[batch->n_fields] = tensor_2d(c.counts, DTYPE_U8, DEVICE_CELLS, voxels);
        AugmentDraws *draws = batch->fields[CV_DRAWS].data;
        for (int i = 0; i < CELLS; i++) {
            ((int32_t *)batch->fields[CV_CELLS].data)[i] = (3 * b + i) % DEVICE_CELLS;
            draws[i] = (AugmentDraws){.scale = 1.25f, .turns = i, .flips = 3 - i, .blur = 0.6f};
        }
    }
    return c;
}

static void cells_close(Cells *c) {
    for (int b = 0; b < BATCHES; b++) batch_close(&c->batches[b]);
    free(c->counts);
}

static Side cv_side(const Case *c, const Cells *cells, Device *device, DType half) {
    Model *model = cv_open(&c->config);
    float *weights = xaligned((size_t)model->params.flat_count * 4);
    params_initialize(&model->params, weights, 7, 1); /* the buffers */
    cv_fill_parameters(&model->params, weights);
    for (int i = 0; i < model->params.count; i++) { /* as small as variances are here: logits of cells differ then */
        const Param *p = &model->params.items[i];
        for (int64_t k = 0; strstr(p->name, "running_var") && k < p->count; k++) weights[p->offset + k] = 0.1f;
    }
    Side side = side_open(device, model, weights, cells->batches, BATCHES, half);
    free(weights);
    return side;
}

/* ---- cuda against cpu ---- */

/* Relative errors: of the mean loss; of logits, to the largest; of gradients and running statistics, to their norms. */
typedef struct {
    double loss, logits, gradients, statistics;
} Tolerance;

/* Roundings of a 16-bit type on the longest path: of the input, of 8 layers' weights and outputs, of what 7 activations
 * and the mean give, of the logit; and of the gradients on the way back. */
enum { FORWARD = 1 + 2 * 8 + 8 + 1, THERE_AND_BACK = FORWARD + 2 * 8 };

/* Loss and logits in f32 are sums in another order, in 16 bits as specified.
 *
 * Gradients of the linear network: in f32 as against float64 (tests/cv/test_model.c); in 16 bits what roundings cost,
 * times 8, for a norm takes from the gradient behind it its mean and its part along the norm's output, of which the
 * smaller ones leave an eighth. In the real one, an activation that the forward's error e (of a standard deviation of
 * 1) brings to the other side of 0 has another slope and changes its gradient by all of it. So near to 0 lie 0.8 e of a
 * normal distribution, the 7 activations are independent: sqrt(7 x 0.8 e), and 3 for how unevenly they fall. */
static Tolerance tolerance_in(DType half, bool kinks) {
    double e = sqrt(FORWARD) * rounding_of(half), kinked = 3 * sqrt(7 * 0.8 * e);
    if (half == DTYPE_F32) return (Tolerance){1e-5, 1e-4, kinks ? kinked : 4e-4, 1e-5};
    return (Tolerance){1e-2, 2e-2, kinks ? kinked : 8 * tolerance_of(half, THERE_AND_BACK),
                       tolerance_of(half, FORWARD)};
}

static void assert_loss(const Side *got, const Side *want, double tolerance) {
    assert_near(got->host_sums[0] / CELLS, want->host_sums[0] / CELLS, tolerance);
}

/* But for what is 0 but for rounding: in the linear network the biases at the last block's end, which add the same to
 * all cells, so that the head's norm takes it away. */
static double largest_gradient_distance(const Side *got, const Side *want, const char **where) {
    const ParamTable *table = &want->model->params;
    double worst = 0;
    *where = "";
    for (int i = 0; i < table->count; i++) {
        const Param *p = &table->items[i];
        const float *g = want->gradients + p->offset;
        double squares = 0;
        for (int64_t k = 0; k < p->count; k++) squares += (double)g[k] * (double)g[k];
        if (p->buffer || sqrt(squares) < 1e-5 * (double)want->host_norm) continue;
        double d = distance(got->gradients + p->offset, g, p->count);
        if (!isnan(worst) && !(d <= worst)) worst = d, *where = p->name;
    }
    return worst;
}

/* Gradients, norm and loss of a step, and the statistics of its batches. */
static void compare_step(const char *name, DType half, const Side *got, const Side *want, Tolerance allowed) {
    const char *where, *whose;
    double worst = largest_gradient_distance(got, want, &where);
    double statistics = largest_distance(&want->model->params, got->weights, want->weights, true, &whose);
    print_message("%s, %s: gradients differ by %.2g at most, in %s (allowed %.2g); statistics by %.2g, in %s\n", name,
                  dtype_name(half), worst, where, allowed.gradients, statistics, whose);
    assert_true(worst <= allowed.gradients);
    assert_true(statistics <= allowed.statistics);
    assert_near(got->host_norm, want->host_norm, allowed.gradients * (double)want->host_norm);
    assert_loss(got, want, allowed.loss);
}

static void compare_logits(Side *got, Side *want, Side *again, int batch, double tolerance) {
    side_validate(want, batch);
    side_validate(got, batch);
    side_validate(again, batch);
    double size = 0, spread = 0;
    for (int i = 0; i < CELLS; i++) {
        size = fmax(size, fabs((double)want->host_outputs[i]));
        spread = fmax(spread, fabs((double)want->host_outputs[i] - (double)want->host_outputs[0]));
    }
    assert_true(spread > 2 * tolerance * size); /* of other cells, other logits */
    for (int i = 0; i < CELLS; i++) assert_near(got->host_outputs[i], want->host_outputs[i], tolerance * size);
    assert_memory_equal(again->host_outputs, got->host_outputs, CELLS * sizeof *got->host_outputs);
    assert_memory_equal(again->host_sums, got->host_sums, sizeof got->host_sums);
}

/* Every update adds to what the two sides differ by what it made of the differences of its gradients. */
static void compare(const Case *c, DType half, bool recompute) {
    Tolerance allowed = tolerance_in(half, !c->config.linear);
    Rig rig = rig_open(half);
    if (!rig_has(&rig, half)) {
        rig_close(&rig);
        skip();
    }
    Cells cells = cells_open(&c->config);
    Side want = cv_side(c, &cells, rig.cpu, DTYPE_F32), got = cv_side(c, &cells, rig.cuda, half);
    Side again = cv_side(c, &cells, rig.cuda, half);
    again.repeat = true; /* recorded the second time, repeated for other batches */
    for (int i = 0; i < 2 * BATCHES; i++) compare_logits(&got, &want, &again, i % BATCHES, allowed.logits);
    for (int k = 0; k < UPDATES; k++) {
        side_step(&want, false);
        side_step_twice(&rig, &got, &again, recompute);
        if (!k) compare_step(c->name, half, &got, &want, allowed);
        assert_loss(&got, &want, (k + 1) * allowed.loss);
    }
    for (int i = 0; i < 2; i++) assert_non_null(cuda_state(rig.cuda)->recordings[i].graph);
    side_close(&want);
    side_close(&got);
    side_close(&again);
    cells_close(&cells);
    rig_close(&rig);
}

static void compare_both(DType half) {
    compare(&linear, half, half == DTYPE_BF16);
    compare(&network, half, half != DTYPE_BF16);
}

int main(void) { return step_tests_run(compare_both); }
