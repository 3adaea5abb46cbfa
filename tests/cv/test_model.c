/* The FLIM classifier against an independent implementation in torch, float64 (tests/reference/make_golden_cv.py):
 * the whole network and a small one, with and without what makes gradients jump; and its parameters, starts and work.
 */
#include "kernels/device_open.h"
#include "kernels/ops_table.h"
#include "kernels/philox.h"
#include "tests/cv/rig.h"
#include "tests/model_rig.h"
#include "tests/norm.h"

enum { CELLS = CV_GOLDEN_CELLS, STEPS = 3 };
static const double norm_of_clip = 35, learning_rate = 1e-3, weight_decay = 1e-3;

/* A model in float32, its batch, and the golden file. */
typedef struct {
    TensorFile file;
    ModelRig rig;
    Batch batch;
    float *x;
} CvRig;

static CvRig cv_rig_open(const char *golden, const CvConfig *config, float *x, const float *targets,
                         const float *labels) {
    return (CvRig){.file = open_golden(golden),
                   .rig = model_rig_open(cv_open_for_inputs(config), cpu_device_open(0), (size_t)1 << 30),
                   .batch = cv_batch(config, x, targets, labels, CELLS),
                   .x = x};
}

static void cv_rig_close(CvRig *r) {
    batch_close(&r->batch);
    tensor_file_close(&r->file);
    model_rig_close(&r->rig);
    free(r->x);
}

static void step(CvRig *r, float *logits, bool recompute) {
    Pass pass = model_rig_pass(&r->rig, r->batch.counts, 1);
    pass.outputs = tensor_2d(logits, DTYPE_F32, CELLS, 1);
    pass.recompute = recompute;
    model_rig_check_first_pass(&r->rig, &r->batch, &pass);
    model_rig_run(&r->rig, &r->batch, &pass);
}

static void evaluate(CvRig *r, float *logits) {
    Pass pass = model_rig_pass(&r->rig, r->batch.counts, 1);
    pass.train = false;
    pass.outputs = tensor_2d(logits, DTYPE_F32, CELLS, 1);
    model_rig_run(&r->rig, &r->batch, &pass);
}

static double mean_loss(const CvRig *r) { return (double)((float *)r->rig.sums.data)[0] / CELLS; }

static double gradient_norm(const Model *model) {
    double sum = 0;
    for (int i = 0; i < model->params.count; i++) {
        const Param *p = &model->params.items[i];
        const float *g = (const float *)model->gradients.data + p->offset;
        for (int64_t k = 0; !p->buffer && k < p->count; k++) sum += (double)g[k] * (double)g[k];
    }
    return sqrt(sum);
}

static void assert_logits(const CvRig *r, const char *name, const float *got, double tolerance) {
    float *want = floats(&r->file, "", name);
    for (int i = 0; i < CELLS; i++) assert_near(got[i], want[i], tolerance);
    free(want);
}

static float number(const CvRig *r, const char *prefix, const char *name, int i) {
    float *all = floats(&r->file, prefix, name), value = all[i];
    free(all);
    return value;
}

/* ---- the whole network ---- */

/* After a module: mean, root mean square, and an element. */
typedef struct {
    const char *name;
    int frames, side;
    double got[3];
} Stage;

static Stage stages[] = {
    {"downsample1", 128, 21, {0}}, {"res_block1", 128, 21, {0}}, {"pool2", 64, 11, {0}}, {"pool3", 32, 6, {0}}};
enum { STAGES = sizeof stages / sizeof *stages };

static void look(void *context, const char *name, Tensor t) {
    (void)context;
    for (int i = 0; i < STAGES; i++) {
        Stage *s = &stages[i];
        if (strcmp(name, s->name)) continue;
        const float *x = t.data;
        double sum = 0, squares = 0;
        int64_t n = tensor_numel(t);
        assert_int_equal(t.dims[0], (int64_t)CELLS * s->frames * s->side * s->side);
        for (int64_t e = 0; e < n; e++) sum += (double)x[e], squares += (double)x[e] * (double)x[e];
        int row = ((3 * s->frames + s->frames / 4) * s->side + s->side / 2) * s->side + s->side / 2;
        s->got[0] = sum / (double)n, s->got[1] = sqrt(squares / (double)n), s->got[2] = (double)x[row * t.dims[1] + 1];
    }
}

/* A biased mean is what moves the reference's running mean: see cv_absorb_bias. */
static void unabsorb(const CvRig *r, float *flat) {
    float bias[512];
    for (int layer = 0; layer < CV_DEAD_BIASES; layer++) {
        uint64_t j = 4 * (uint64_t)layer + 1;
        for (uint64_t k = 0; k < 512; k++) bias[k] = (float)(-0.1 * cv_golden_uniform(j, k));
        cv_absorb_bias(&r->rig.model->params, flat, layer, bias);
    }
}

/* float32 is off by 2e-6 in logits, and in gradients by up to 3e-3, for the kinks of the leaky ReLU and the ties of the
 * pools lie on a constant background: some fall to the other side. */
TEST(whole_network_is_the_references) {
    static const float targets[CELLS] = {0.025f, 0.975f, 0.025f, 0.975f}, labels[CELLS] = {0, 1, 0, 1};
    CvRig r = cv_rig_open("flim_full", &cv_full_config, cv_golden_cells(), targets, labels);
    Model *model = r.rig.model;
    float logits[CELLS];
    cv_fill_parameters(&model->params, model->weights.data);
    evaluate(&r, logits);
    assert_logits(&r, "eval.logits", logits, 1e-4);
    Pass pass = model_rig_pass(&r.rig, r.batch.counts, 1);
    pass.outputs = tensor_2d(logits, DTYPE_F32, CELLS, 1);
    pass.dump = look;
    model_rig_clear_gradients(&r.rig);
    model_rig_run(&r.rig, &r.batch, &pass);
    assert_logits(&r, "logits", logits, 1e-4);
    assert_near(mean_loss(&r), number(&r, "", "loss", 0), 1e-4);
    assert_near(gradient_norm(model), number(&r, "", "norm", 0), 1e-2 * 33.3);
    for (int i = 0; i < STAGES; i++)
        for (int k = 0; k < 3; k++) assert_near(stages[i].got[k], number(&r, "stage.", stages[i].name, k), 1e-5);
    assert_int_equal(
        compare_within(1e-2, "full network", &r.file, "grad.", &model->params, model->gradients.data, NULL), 35);
    unabsorb(&r, model->gradients.data);
    assert_int_equal(
        compare_parameters("running statistics", &r.file, "running.", &model->params, model->gradients.data, NULL), 22);
    cv_rig_close(&r);
}

/* ---- the small network ---- */

/* Absorbs `times` times the biases of a set of weights in the file: see cv_absorb_bias. */
static void absorb_biases(const CvRig *r, const char *prefix, float *flat, float times) {
    for (int layer = 0; layer < CV_DEAD_BIASES; layer++) {
        char name[64];
        snprintf(name, sizeof name, "%s.bias", cv_network_dead_biases()[layer].layer);
        float *bias = floats(&r->file, prefix, name);
        for (int64_t c = 0; c < find(&r->file, prefix, name)->count; c++) bias[c] *= times;
        cv_absorb_bias(&r->rig.model->params, flat, layer, bias);
        free(bias);
    }
}

/* The weights of the file. */
static void read_weights(CvRig *r) {
    const ParamTable *table = &r->rig.model->params;
    float *flat = r->rig.model->weights.data;
    for (int i = 0; i < table->count; i++) {
        const Param *p = &table->items[i];
        if (p->buffer) continue;
        const StoredTensor *stored = find(&r->file, "", p->name);
        assert_int_equal(stored->rank, p->rank);
        for (int k = 0; k < p->rank; k++) assert_int_equal(stored->dims[k], p->dims[k]);
        float *values = floats(&r->file, "", p->name);
        memcpy(flat + p->offset, values, (size_t)p->count * sizeof *flat);
        free(values);
    }
    absorb_biases(r, "", flat, 1);
}

static CvRig small_rig(bool linear) {
    CvConfig config = cv_small_config;
    config.linear = linear;
    TensorFile file = open_golden("flim_small");
    float *x = floats(&file, "batch.", "x"), *targets = floats(&file, "batch.", "targets");
    int64_t positions = cv_rows(&config, 1);
    const float labels[CELLS] = {0, 1, 0, 1};
    CvRig r = cv_rig_open("flim_small", &config, cv_channels_last(x, CELLS, positions), targets, labels);
    free(x);
    free(targets);
    tensor_file_close(&file);
    read_weights(&r);
    return r;
}

/* A step's losses, logits, gradients and running statistics; recomputed, the same bits. In the linear network norms
 * take away what a bias adds to all positions alike: its gradient, from borders alone, is a thirtieth of its gain's,
 * and rounding is 30 times as much of it (torch in float32: 4e-5). */
static void check_first_step(CvRig *r, const char *prefix, double tolerance) {
    Model *model = r->rig.model;
    float logits[CELLS], *once = xmalloc(tensor_bytes(model->gradients));
    char *name = kept_format("%slogits", prefix), *grad = kept_format("%sgrad.", prefix),
         *running = kept_format("%srunning.", prefix);
    step(r, logits, false);
    assert_logits(r, name, logits, 1e-5);
    memcpy(once, model->gradients.data, tensor_bytes(model->gradients));
    step(r, logits, true);
    assert_memory_equal(once, model->gradients.data, tensor_bytes(model->gradients));
    assert_true(compare_within(tolerance, grad, &r->file, grad, &model->params, once, NULL) >= 33);
    absorb_biases(r, "", once, -1);
    assert_int_equal(compare_within(1e-4, running, &r->file, running, &model->params, once, NULL), 22);
    free(once);
}

/* ---- three steps of Adam ---- */

/* The reference's bias before a norm, whose gradient is the decay's part alone, through the same steps: what of it is
 * in its norm's running mean then, and the bias itself, less than what ours made of the first one (cv_absorb_bias).
 */
static void walk_bias(const float *start, const float *end, int64_t n, float *difference) {
    for (int64_t c = 0; c < n; c++) {
        double b = (double)start[c], m = 0, v = 0, in_mean = 0;
        for (int k = 1; k <= STEPS; k++) {
            double g = weight_decay * b;
            in_mean = 0.9 * in_mean + 0.1 * b;
            m = 0.9 * m + 0.1 * g, v = 0.999 * v + 0.001 * g * g;
            b -= learning_rate * (m / (1 - pow(0.9, k))) / (sqrt(v / (1 - pow(0.999, k))) + 1e-8);
        }
        assert_near(b, end[c], 1e-6);
        difference[c] = (float)(in_mean - b + pow(0.9, STEPS) * (double)start[c]);
    }
}

/* Ours then has the running means that the reference's, less its biases, come to. */
static void take_walks(CvRig *r, const char *prefix) {
    const ParamTable *table = &r->rig.model->params;
    for (int layer = 0; layer < CV_DEAD_BIASES; layer++) {
        char name[64];
        snprintf(name, sizeof name, "%s.bias", cv_network_dead_biases()[layer].layer);
        int64_t n = find(&r->file, "", name)->count;
        float *start = floats(&r->file, "", name), *end = floats(&r->file, prefix, name);
        walk_bias(start, end, n, end);
        for (int64_t c = 0; c < n; c++) end[c] = -end[c];
        cv_absorb_bias(table, r->rig.model->weights.data, layer, end);
        free(start);
        free(end);
    }
}

/* Losses and norms of the steps, the weights behind them, and what an evaluation says then. Adam divides a gradient by
 * its own size: where it is 0 but for rounding, a weight's step may have any size up to the rate. Torch in float32 is
 * off by 6e-4 of the weights' norm for that; others may be three times as unlucky. In the linear network the biases at
 * the last block's end have no gradient but the decay's: if one of the 32 goes the other way in every step, that is
 * 6e-3 of their norm of 0.33. */
static void check_steps(CvRig *r, const char *prefix, double tolerance) {
    Model *model = r->rig.model;
    Device *device = r->rig.device;
    Tensor m = model_rig_flat(&r->rig), v = model_rig_flat(&r->rig),
           norm = tensor_1d(device->allocate(device, 64), DTYPE_F32, 1);
    float logits[CELLS], last[1] = {0};
    Segment *segments;
    int n = params_segments(&model->params, (float)weight_decay, &segments);
    for (int i = 0; i < n; i++) segments[i].learning_rate = (float)learning_rate;
    for (int k = 0; k < STEPS; k++) {
        step(r, logits, false);
        global_norm(device, norm, model->gradients, tensor_none(), segments, n);
        last[0] = *(float *)norm.data;
        assert_near(mean_loss(r), number(r, prefix, "losses", k), 1e-4 * (double)number(r, prefix, "losses", k));
        assert_near(last[0], number(r, prefix, "norms", k), 1e-4 * (double)number(r, prefix, "norms", k));
        AdamW adam = {0.9f, 0.999f, 1e-8f, (float)norm_of_clip, k + 1, .coupled = true};
        adamw_update(device, (AdamWBuffers){.params = model->weights, .m = m, .v = v, .grads = model->gradients}, norm,
                     tensor_none(), segments, n, adam);
        model_rig_copy_moving(&r->rig, true, norm);
    }
    char *after = kept_format("%safter.", prefix), *logits_name = kept_format("%seval_logits", after);
    take_walks(r, after);
    evaluate(r, logits);
    assert_logits(r, logits_name, logits, 1e-3);
    absorb_biases(r, after, model->weights.data, -1);
    assert_int_equal(compare_within(tolerance, after, &r->file, after, &model->params, model->weights.data, NULL), 57);
    model_rig_release_moments(&r->rig, m, v, norm);
    free(segments);
}

TEST(small_network_is_the_references) {
    CvRig r = small_rig(false);
    check_first_step(&r, "", 1e-4);
    check_steps(&r, "", 2e-3);
    cv_rig_close(&r);
}

/* All tensors but one are within 1e-4. What the second block's last bias adds, the norms behind it take away again but
 * at the edges: its gradient is what sums thirty times as large leave, and is as much less exact. */
TEST(linear_network_is_the_references) {
    CvRig r = small_rig(true);
    check_first_step(&r, "linear.", 4e-4);
    check_steps(&r, "linear.", 2e-2);
    cv_rig_close(&r);
}

/* ---- dropout ---- */

static const struct {
    const char *name;
    int channels, site;
} dropped[] = {{"res_block1", 8, 0}, {"pool2", 16, 1}, {"pool3", 32, 2}};

/* Channels of a cell are 0 where the numbers of the place say so, and nowhere else. */
static void look_for_dropout(void *context, const char *name, Tensor t) {
    int *seen = context;
    for (int i = 0; i < 3; i++) {
        if (strcmp(name, dropped[i].name)) continue;
        int64_t channels = dropped[i].channels, rows = t.dims[0] / CELLS;
        assert_int_equal(t.dims[1], channels);
        for (int64_t e = 0; e < CELLS * channels; e++) {
            const float *x = (const float *)t.data + e / channels * rows * channels + e % channels;
            uint32_t purpose = PURPOSE_DROPOUT | (uint32_t)dropped[i].site << 8;
            bool kept = philox_bits(11, purpose, 5, (uint64_t)e) >= 1u << 30, any = false;
            for (int64_t row = 0; row < rows; row++) any |= x[row * channels] != 0;
            assert_int_equal(any, kept);
        }
        seen[i]++;
    }
}

TEST(whole_channels_are_dropped_in_training_alone) {
    CvRig r = small_rig(false), with;
    CvConfig config = cv_small_config;
    float plain[CELLS], got[CELLS], again[CELLS];
    int seen[3] = {0};
    config.dropout = config.head_dropout = 0.25f;
    with = r;
    with.rig = model_rig_open(cv_open_for_inputs(&config), cpu_device_open(0), (size_t)64 << 20);
    memcpy(with.rig.model->weights.data, r.rig.model->weights.data, tensor_bytes(r.rig.model->weights));
    evaluate(&r, plain);
    evaluate(&with, got);
    assert_memory_equal(plain, got, sizeof plain);
    Pass pass = model_rig_pass(&with.rig, with.batch.counts, 1);
    pass.outputs = tensor_2d(got, DTYPE_F32, CELLS, 1);
    pass.dump = look_for_dropout;
    pass.dump_context = seen;
    model_rig_run(&with.rig, &with.batch, &pass);
    for (int i = 0; i < 3; i++) assert_int_equal(seen[i], 1);
    pass.outputs.data = again;
    pass.dump = NULL;
    with.rig.numbers->step++;
    model_rig_run(&with.rig, &with.batch, &pass);
    for (int i = 0; i < CELLS; i++) assert_true(got[i] != again[i]);
    model_rig_close(&with.rig);
    cv_rig_close(&r);
}

/* ---- from photon counts on ---- */

enum { DEVICE_CELLS = 6 };

TEST(cells_are_augmented_and_mixed) {
    static const int32_t which[CELLS] = {5, 0, 3, 0}, partners[CELLS] = {2, 0, 3, 1};
    static const float share = 0.25f;
    const CvConfig *config = &cv_small_config;
    int64_t voxels = cv_rows(config, 1), plane = (int64_t)config->side * config->side;
    CvRig r = small_rig(false);
    uint8_t *counts = xmalloc((size_t)(DEVICE_CELLS * voxels));
    float given[CELLS], got[CELLS];
    for (int64_t i = 0; i < DEVICE_CELLS * voxels; i++) /* a corner is empty */
        counts[i] = i % plane < 12 ? 0 : (uint8_t)(i * 7919 / 13 % (2 + i / voxels));
    for (int64_t i = 0; i < CELLS * voxels; i++)
        for (int part = 0; part < 2; part++) {
            int64_t cell = which[part ? partners[i / voxels] : i / voxels], at = cell * voxels + i % voxels;
            float now = logf(1 + (float)counts[at]) / 10, lit = i % plane >= 12, of = part ? 1 - share : share;
            r.x[2 * i] = of * now + (part ? r.x[2 * i] : 0);
            r.x[2 * i + 1] = of * lit + (part ? r.x[2 * i + 1] : 0);
        }
    step(&r, given, false);
    Batch batch = cv_batch(config, r.x, r.batch.fields[CV_TARGETS].data, r.batch.fields[CV_LABELS].data, CELLS);
    memcpy(batch.fields[CV_CELLS].data, which, sizeof which);
    memcpy(batch_push_1d(&batch, CV_PARTNERS, DTYPE_I32, CELLS).data, partners, sizeof partners);
    memcpy(batch_push_1d(&batch, CV_SHARE, DTYPE_F32, 1).data, &share, sizeof share);
    batch.fields[batch.n_fields] = tensor_2d(counts, DTYPE_U8, DEVICE_CELLS, voxels);
    Model *cells = cv_open(config);
    r.rig.model->forward_backward = cells->forward_backward;
    cells->close(cells);
    batch_close(&r.batch);
    r.batch = batch;
    step(&r, got, false);
    for (int i = 0; i < CELLS; i++) assert_near(got[i], given[i], 1e-4);
    assert_true(fabs((double)got[0] - (double)got[1]) > 0.01); /* other cells, other logits */
    free(counts);
    cv_rig_close(&r);
}

/* ---- sizes, starts, work ---- */

TEST(parameters_are_as_many_as_the_reference_has) {
    Model *model = cv_open(&cv_full_config);
    const ParamTable *table = &model->params;
    int64_t dead = 0;
    int moving = 0;
    for (int i = 0; i < CV_DEAD_BIASES; i++) {
        char *mean = kept_format("%s.running_mean", cv_network_dead_biases()[i].norm);
        char *bias = kept_format("%s.bias", cv_network_dead_biases()[i].layer);
        assert_int_equal(params_find(table, bias), -1);
        assert_true(params_find(table, mean) >= 0);
        dead += table->items[params_find(table, mean)].count;
    }
    for (int i = 0; i < table->count; i++) {
        assert_int_equal(table->items[i].decay, !table->items[i].buffer);
        moving += table->items[i].moves > 0;
    }
    assert_int_equal(params_n_trained(table), 46 - CV_DEAD_BIASES);
    assert_int_equal(moving, 2 * CV_DEAD_BIASES);
    assert_int_equal(params_count(table), 908289);
    assert_int_equal(params_count(table) + dead, 909057);
    model->close(model);
}

static void assert_start(const Model *model, const char *name, InitKind kind, double scale) {
    const Param *p = &model->params.items[params_find(&model->params, name)];
    assert_int_equal(p->init, kind);
    assert_near(p->init_scale, scale, 5e-6); /* the digits that the specification prints */
}

TEST(weights_begin_as_the_configurations_say) {
    static const struct {
        const char *name;
        double uniform, normal;
    } starts[] = {{"stem.0.weight", .26726, .09449},
                  {"downsample1.0.weight", .10206, .14434},
                  {"res_block1.conv1.weight", .03402, .04811},
                  {"res_block1.conv2.weight", .03402, .04811},
                  {"res_block2.conv1.weight", .03402, .03402},
                  {"res_block2.conv2.weight", .02406, .03402},
                  {"res_block2.shortcut.0.weight", .17678, .17678},
                  {"res_block3.conv1.weight", .02406, .02406},
                  {"res_block3.conv2.weight", .01701, .02406},
                  {"res_block3.shortcut.0.weight", .125, .125},
                  {"classifier.0.weight", .08839, .17678}};
    for (int init = 0; init < 3; init++) {
        CvConfig config = cv_full_config;
        config.init = (CvInit)init;
        Model *model = cv_open(&config);
        bool torch = init == CV_INIT_TORCH, kaiming = init == CV_INIT_KAIMING;
        for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
            assert_start(model, starts[i].name, torch ? INIT_UNIFORM : INIT_NORMAL,
                         torch ? starts[i].uniform : starts[i].normal);
        assert_start(model, "classifier.4.weight", kaiming ? INIT_NORMAL : INIT_UNIFORM, kaiming ? 1.414214 : .125);
        assert_start(model, "classifier.4.bias", kaiming ? INIT_ZERO : INIT_UNIFORM, .125);
        assert_start(model, "stem.1.weight", INIT_ONE, 0);
        assert_start(model, "stem.1.running_mean", INIT_ZERO, 0);
        assert_start(model, "stem.1.running_var", INIT_ONE, 0);
        model->close(model);
    }
}

/* Pairs of an output and a tap that sees an input, along an axis. */
static double pairs(int in, int taps, int stride) {
    double n = 0;
    for (int p = 0; p * stride + taps - taps / 2 * 2 <= in; p++)
        for (int k = 0; k < taps; k++) n += p * stride + k - taps / 2 >= 0 && p * stride + k - taps / 2 < in;
    return n;
}

/* Multiply-adds of a cell: in time so many bins and taps, in the plane so many pixels along a side, taps and stride. */
static double work_of(int in, int out, int bins, int taps_t, int stride_t, int side, int taps, int stride) {
    double plane = pairs(side, taps, stride);
    return (double)in * out * pairs(bins, taps_t, stride_t) * plane * plane;
}

/* Convolutions without the products with padding: the specification's 6,635.7 million multiply-adds of a cell forward,
 * twice as many backward but for the gradient of the input. */
TEST(work_is_that_of_the_layers) {
    enum { BATCH = 64 };
    static float x[1], targets[BATCH], labels[BATCH];
    double stem = work_of(2, 32, 256, 7, 1, 21, 1, 1), halving = work_of(32, 32, 256, 3, 2, 21, 1, 1),
           all = stem + halving;
    all += 2 * work_of(32, 32, 128, 3, 1, 21, 3, 1);
    all += work_of(32, 64, 128, 3, 1, 21, 3, 2) + work_of(64, 64, 128, 3, 1, 11, 3, 1) +
           work_of(32, 64, 128, 1, 1, 21, 1, 2);
    all += work_of(64, 128, 64, 3, 1, 11, 3, 2) + work_of(128, 128, 64, 3, 1, 6, 3, 1) +
           work_of(64, 128, 64, 1, 1, 11, 1, 2);
    assert_near(all / 1e6, 6635.7, 0.05);
    ModelRig rig = model_rig_open(cv_open_for_inputs(&cv_full_config), dry_device_open(), 0);
    Batch batch = cv_batch(&cv_full_config, x, targets, labels, BATCH);
    Pass pass = model_rig_pass(&rig, batch.counts, 1);
    model_rig_run(&rig, &batch, &pass);
    const OpCounter *counters = rig.device->counters;
    double first = stem + halving, blocks = all - first, between = 32. * 256 * 21 * 21; /* numbers behind the stem */
    double sums = 2 * 32 * 128. * 21 * 21 + 64 * 64. * 11 * 11; /* of two branches, at each block's input */
    assert_near(counters[OP_conv3d_forward].flops, BATCH * 2 * blocks, 1);
    assert_near(counters[OP_conv3d_backward].flops, BATCH * (4 * blocks + sums), 1);
    assert_int_equal(counters[OP_conv3d_forward].calls, 8);
    /* The stem's output is made again instead of its input's gradient. Norm and leaky ReLU are 4 and 6 FLOPs a number;
     * what is done to a channel, not to a position, is nothing beside that. */
    assert_near(counters[OP_stem_forward].flops, BATCH * (2 * first + 4 * between), 1);
    assert_near(counters[OP_stem_backward].flops, BATCH * (4 * first + 6 * between), 1e5);
    /* 20.5 million numbers of a cell are kept, of 27 that an eager framework keeps, and 3 less if they are recomputed.
     */
    double kept = (double)rig.arena.peak / (BATCH * sizeof(float) * 1e6);
    assert_near(kept, 20.5, 0.15);
    rig.arena.peak = 0;
    pass.recompute = true;
    model_rig_run(&rig, &batch, &pass);
    assert_near((double)rig.arena.peak / (BATCH * sizeof(float) * 1e6), kept - 2.95, 0.05);
    batch_close(&batch);
    model_rig_close(&rig);
}
