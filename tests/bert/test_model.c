/* The encoder: parameters, what a pass must and must not do, memory and work. (Values against another implementation:
 * test_golden.c.) */
#include <math.h>

#include "data/bert/lengths.h"
#include "kernels/device_open.h"
#include "kernels/ops_table.h"
#include "tests/bert/rig.h"
#include "train/plan/memory.h"

enum { ARENA = 64 << 20, VOCABULARY = 53, CLASSES = 3, TASKS = 2 };
static const int32_t lengths[] = {12, 5, 2, 16, 7};
enum { TEXTS = sizeof lengths / sizeof *lengths, ROWS = 42 };
static const int classes_of[TASKS] = {CLASSES, 0};

static ModelRig open_config(const BertConfig *config) {
    return model_rig_open(bert_open(config), cpu_device_open(0), ARENA);
}

static ModelRig open_small(int classes, float dropout) {
    BertConfig config = bert_config_small(classes, dropout);
    return open_config(&config);
}

static Batch small_batch(int classes) { return bert_batch_random(VOCABULARY, classes, 0, lengths, TEXTS); }

/* ---- parameters ---- */

static const BertConfig base = {.vocabulary = 64001,
                                .positions = 258,
                                .d_model = 768,
                                .n_layers = 12,
                                .n_heads = 12,
                                .d_ff = 3072,
                                .dropout = 0.1f,
                                .head_dropout = 0.1f,
                                .classes = 2};

TEST(models_have_the_reference_sizes) {
    const struct {
        int classes;
        int64_t all, undecayed;
        int tensors, undecayed_tensors;
    } sizes[] = {{2, 134999810, 122114, 201, 124}, {0, 135063809, 121344 + 768 + 1536 + 64001, 202, 126}};
    for (int i = 0; i < TASKS; i++) {
        BertConfig config = base;
        config.classes = sizes[i].classes;
        Model *model = bert_open(&config);
        int64_t undecayed = 0;
        int tensors = 0;
        for (int p = 0; p < model->params.count; p++) {
            const Param *param = &model->params.items[p];
            assert_int_equal(param->decay, param->rank == 2);
            if (!param->decay) undecayed += param->count, tensors++;
        }
        assert_int_equal(params_count(&model->params), sizes[i].all);
        assert_int_equal(params_trainable_count(&model->params), sizes[i].all);
        assert_int_equal(model->params.count, sizes[i].tensors);
        assert_int_equal(undecayed, sizes[i].undecayed);
        assert_int_equal(tensors, sizes[i].undecayed_tensors);
        model->close(model);
    }
}

typedef struct {
    const char *name;
    int64_t dims[2]; /* second 0: a vector */
} Shape;

/* Checks a tensor, whose name has the number of a layer where the format has %d, and takes it off the rest. */
static void expect_tensor(const ParamTable *table, const Shape *want, int layer, int group, int *rest) {
    char *name = kept_format(want->name, layer);
    int index = params_find(table, name);
    if (index < 0) fail_msg("no tensor %s", name);
    const Param *param = &table->items[index];
    assert_int_equal(param->rank, want->dims[1] ? 2 : 1);
    for (int k = 0; k < param->rank; k++) assert_int_equal(param->dims[k], want->dims[k]);
    assert_int_equal(param->group, group);
    --*rest;
}

/* The names and shapes that Hugging Face's class gives them; a group of parameters for each layer. */
TEST(tensors_have_the_reference_names_and_shapes) {
    enum { C = 768, F = 3072 };
#define LAYER "roberta.encoder.layer.%d."
    static const Shape embeddings[] = {{"roberta.embeddings.word_embeddings.weight", {64001, C}},
                                       {"roberta.embeddings.position_embeddings.weight", {258, C}},
                                       {"roberta.embeddings.token_type_embeddings.weight", {1, C}},
                                       {"roberta.embeddings.LayerNorm.weight", {C}},
                                       {"roberta.embeddings.LayerNorm.bias", {C}}},
                       layer[] = {{LAYER "attention.self.query.weight", {C, C}},
                                  {LAYER "attention.self.query.bias", {C}},
                                  {LAYER "attention.self.key.weight", {C, C}},
                                  {LAYER "attention.self.key.bias", {C}},
                                  {LAYER "attention.self.value.weight", {C, C}},
                                  {LAYER "attention.self.value.bias", {C}},
                                  {LAYER "attention.output.dense.weight", {C, C}},
                                  {LAYER "attention.output.dense.bias", {C}},
                                  {LAYER "attention.output.LayerNorm.weight", {C}},
                                  {LAYER "attention.output.LayerNorm.bias", {C}},
                                  {LAYER "intermediate.dense.weight", {F, C}},
                                  {LAYER "intermediate.dense.bias", {F}},
                                  {LAYER "output.dense.weight", {C, F}},
                                  {LAYER "output.dense.bias", {C}},
                                  {LAYER "output.LayerNorm.weight", {C}},
                                  {LAYER "output.LayerNorm.bias", {C}}},
                       head[] = {{"classifier.dense.weight", {C, C}},
                                 {"classifier.dense.bias", {C}},
                                 {"classifier.out_proj.weight", {2, C}},
                                 {"classifier.out_proj.bias", {2}}};
#undef LAYER
    Model *model = bert_open(&base);
    int rest = model->params.count;
    for (size_t i = 0; i < sizeof embeddings / sizeof *embeddings; i++)
        expect_tensor(&model->params, &embeddings[i], 0, 0, &rest);
    for (int l = 0; l < base.n_layers; l++)
        for (size_t i = 0; i < sizeof layer / sizeof *layer; i++)
            expect_tensor(&model->params, &layer[i], l, 1 + l, &rest);
    for (size_t i = 0; i < sizeof head / sizeof *head; i++)
        expect_tensor(&model->params, &head[i], 0, base.n_layers + 1, &rest);
    assert_int_equal(rest, 0);
    model->close(model);
}

/* Every matrix is N(0, 0.02^2), whose deviation over n numbers varies by 0.02 / sqrt(2 n). */
TEST(matrices_start_with_the_reference_deviation) {
    for (int t = 0; t < TASKS; t++) {
        ModelRig rig = open_small(classes_of[t], 0);
        for (int p = 0; p < rig.model->params.count; p++) {
            const Param *param = &rig.model->params.items[p];
            const float *values = (float *)rig.model->weights.data + param->offset;
            bool gain = param->rank == 1 && strstr(param->name, "orm.weight");
            double squares = 0, n = (double)param->count, want = param->rank == 2 ? 0.02 : gain;
            for (int64_t e = 0; e < param->count; e++) squares += (double)values[e] * (double)values[e];
            assert_near(sqrt(squares / n), want, param->rank == 2 ? 5 * want / sqrt(2 * n) : 0);
        }
        model_rig_close(&rig);
    }
}

static void open_model(void *config) { bert_open(config); }

TEST(bad_configurations_are_refused_by_name) {
    char output[512];
    const char *const want[] = {"multiple of the number of heads, 5",
                                "0 layers",
                                "dropout 1 is not in [0, 1)",
                                "a vocabulary of 1 tokens",
                                "2 positions; at least 3",
                                "1 classes; at least 2",
                                "head dropout -1",
                                "width 24 must be a multiple of 16",
                                "3 frozen layers of 2",
                                "embeddings cannot be frozen"};
    enum { BAD = sizeof want / sizeof *want };
    BertConfig bad[BAD];
    for (int i = 0; i < BAD; i++) bad[i] = bert_config_small(CLASSES, 0.1f);
    bad[0].n_heads = 5;
    bad[1].n_layers = 0;
    bad[2].dropout = 1;
    bad[3].vocabulary = 1;
    bad[4].positions = 2;
    bad[5].classes = 1;
    bad[6].head_dropout = -1;
    bad[7].d_model = 24;
    bad[8].frozen_layers = 3;
    bad[9].classes = 0;
    bad[9].frozen_layers = 1;
    for (int i = 0; i < BAD; i++) {
        assert_int_equal(run_function(output, sizeof output, open_model, &bad[i]), 2);
        assert_contains(output, want[i]);
    }
}

/* ---- what a pass does ---- */

/* Masked words: a norm gives rows of length sqrt(C), so that the logits at the start are N(0, C 0.02^2), nearly
 * independent of the labels: the expected loss is ln(V) + C 0.02^2 / 2, and the mean over n rows lies within 5 standard
 * errors. Classes: the logits are some hundredths, and the loss is ln(classes) nearly. */
TEST(the_loss_starts_at_its_expected_value) {
    enum { N = 600, WIDTH = 256, IDS = 4096 };
    for (int t = 0; t < TASKS; t++) {
        BertConfig config = base;
        config.vocabulary = IDS, config.positions = N / 2 + 2, config.d_model = WIDTH, config.d_ff = 4 * WIDTH;
        config.n_layers = 2, config.n_heads = 4, config.classes = classes_of[t];
        ModelRig rig = open_config(&config);
        Batch batch = bert_batch_random(IDS, classes_of[t], 0, (const int32_t[]){N / 2, N / 2}, 2);
        model_rig_run(&rig, &batch, &(Pass){.sums = rig.sums});
        double rows = batch.counts[BERT_COUNT_ROWS], mean = (double)*(float *)rig.sums.data / rows,
               variance = WIDTH * 0.02 * 0.02, want = classes_of[t] ? log(CLASSES) : log(IDS) + variance / 2;
        print_message("first loss %.4f, expected %.4f\n", mean, want);
        assert_near(mean, want, classes_of[t] ? 0.1 : 5 * sqrt(variance / rows));
        batch_close(&batch);
        model_rig_close(&rig);
    }
}

/* Keeps the logits of a pass. */
typedef struct {
    float *logits;
    int64_t n, width;
} Seen;

static void see(void *context, const char *name, Tensor t) {
    Seen *seen = context;
    if (strcmp(name, "logits") != 0) return;
    seen->n = t.dims[0];
    seen->width = t.dims[1];
    seen->logits = copy_floats(t);
}

static Seen see_logits(ModelRig *rig, const Batch *batch) {
    Seen seen = {.n = 0};
    model_rig_run(rig, batch, &(Pass){.sums = rig->sums, .dump = see, .dump_context = &seen});
    return seen;
}

/* Another id changes the logits of every row of its text, before and behind it, and not a bit of any other text's. */
TEST(a_token_is_seen_by_its_text_only) {
    enum { CHANGED = 19 + 4, BEGIN = 19, END = 35 };
    for (int t = 0; t < TASKS; t++) {
        ModelRig rig = open_small(classes_of[t], 0);
        Batch batch = small_batch(classes_of[t]);
        const int32_t *rows = batch.fields[BERT_ROWS].data;
        Seen before = see_logits(&rig, &batch);
        int32_t *id = (int32_t *)batch.fields[BERT_IDS].data + CHANGED;
        *id = (*id + 1) % VOCABULARY;
        Seen after = see_logits(&rig, &batch);
        assert_int_equal(before.n, classes_of[t] ? TEXTS : ROWS / 3);
        for (int64_t i = 0; i < before.n; i++) {
            size_t width = (size_t)before.width;
            bool same = !memcmp(before.logits + i * before.width, after.logits + i * after.width, width * 4);
            if (same != (rows[i] < BEGIN || rows[i] >= END)) fail_msg("row %d is %s", rows[i], same ? "same" : "other");
        }
        free(before.logits);
        free(after.logits);
        batch_close(&batch);
        model_rig_close(&rig);
    }
}

/* Every third row is predicted, counted from the first row of a batch: texts of whole thirds are cut alike alone. */
TEST(packed_texts_equal_each_alone) {
    static const int32_t thirds[] = {12, 6, 3, 15, 9};
    for (int t = 0; t < TASKS; t++) {
        ModelRig rig = open_small(classes_of[t], 0);
        Batch batch = bert_batch_random(VOCABULARY, classes_of[t], 0, thirds, TEXTS);
        Seen together = see_logits(&rig, &batch);
        int64_t first = 0, done = 0;
        for (int s = 0; s < TEXTS; s++) {
            Batch one = bert_batch_random(VOCABULARY, classes_of[t], first, &thirds[s], 1);
            Seen alone = see_logits(&rig, &one);
            assert_close("logits", together.logits + done * together.width, alone.logits, alone.n * alone.width, 1e-6);
            first += thirds[s];
            done += alone.n;
            free(alone.logits);
            batch_close(&one);
        }
        assert_int_equal(done, together.n);
        free(together.logits);
        batch_close(&batch);
        model_rig_close(&rig);
    }
}

/* The outputs are the logits, with labels and without; without, the sums are 0. */
TEST(texts_without_labels_have_logits) {
    ModelRig rig = open_small(CLASSES, 0);
    assert_int_equal(rig.model->n_outputs, CLASSES);
    float outputs[2][TEXTS * CLASSES];
    Seen seen = {.n = 0};
    for (int labelled = 0; labelled < 2; labelled++) {
        Batch batch = small_batch(CLASSES);
        if (!labelled) batch.fields[BERT_LABELS] = batch.fields[BERT_TARGETS] = tensor_none();
        memset(rig.sums.data, 0xff, tensor_bytes(rig.sums));
        Pass pass = {.sums = rig.sums, .outputs = tensor_2d(outputs[labelled], DTYPE_F32, TEXTS, CLASSES)};
        model_rig_run(&rig, &batch, &pass);
        for (int i = 0; i < BERT_METRICS && !labelled; i++) assert_true(((float *)rig.sums.data)[i] == 0);
        if (labelled) seen = see_logits(&rig, &batch);
        batch_close(&batch);
    }
    assert_true(((float *)rig.sums.data)[BERT_LOSS] > 0);
    assert_memory_equal(outputs[0], outputs[1], sizeof outputs[0]);
    assert_memory_equal(outputs[0], seen.logits, sizeof outputs[0]);
    free(seen.logits);
    model_rig_close(&rig);
}

static double mean_loss(ModelRig *rig, const Batch *batch) {
    model_rig_run(rig, batch, &(Pass){.sums = rig->sums});
    return (double)*(float *)rig->sums.data / batch->counts[BERT_COUNT_WEIGHTS];
}

/* Returns the slope of the loss along a direction (a unit vector of one parameter) by central differences. */
static double slope(ModelRig *rig, const Batch *batch, const Param *param, const float *direction, double h) {
    float *weights = (float *)rig->model->weights.data + param->offset, *start = xmalloc((size_t)param->count * 4);
    double losses[2];
    memcpy(start, weights, (size_t)param->count * 4);
    for (int side = 0; side < 2; side++) {
        for (int64_t e = 0; e < param->count; e++)
            weights[e] = (float)((double)start[e] + (side ? -h : h) * (double)direction[e]);
        losses[side] = mean_loss(rig, batch);
    }
    memcpy(weights, start, (size_t)param->count * 4);
    free(start);
    return (losses[0] - losses[1]) / (2 * h);
}

/* The gradient of a parameter, along itself, is the slope of the loss there: by central differences with the step h,
 * whose error is h^2 in the loss's third derivative and 2e-7 / h in rounding. */
TEST(gradients_are_slopes) {
    for (int t = 0; t < TASKS; t++) {
        ModelRig rig = open_small(classes_of[t], 0);
        Batch batch = small_batch(classes_of[t]);
        float *weights = rig.model->weights.data, worst = 0;
        for (int i = 0; i < rig.model->params.count; i++) {
            const Param *param = &rig.model->params.items[i];
            for (int64_t e = 0; param->rank == 2 && e < param->count; e++) weights[param->offset + e] *= 5;
        }
        Pass pass = model_rig_pass(&rig, batch.counts, 1);
        model_rig_run(&rig, &batch, &pass);
        float *gradients = copy_floats(rig.model->gradients);
        for (int i = 0; i < rig.model->params.count; i++) {
            const Param *param = &rig.model->params.items[i];
            if (strstr(param->name, "self.key.bias")) continue; /* zero but for rounding */
            float *direction = gradients + param->offset;
            double squares = 0;
            for (int64_t e = 0; e < param->count; e++) squares += (double)direction[e] * (double)direction[e];
            double length = sqrt(squares);
            if (length == 0) fail_msg("%s has no gradient", param->name);
            for (int64_t e = 0; e < param->count; e++) direction[e] = (float)((double)direction[e] / length);
            double got = slope(&rig, &batch, param, direction, 0.01), error = fabs(got - length);
            if (!(error <= 5e-3 * length + 1e-4)) fail_msg("%s: slope %.6f, gradient %.6f", param->name, got, length);
            worst = fmaxf(worst, (float)(error / length));
        }
        print_message("slopes differ from gradients by %.2g at most\n", (double)worst);
        free(gradients);
        batch_close(&batch);
        model_rig_close(&rig);
    }
}

/* Fails unless frozen parameters have no gradient, and all others the bits of a model in which all are trained. Returns
 * how many elements are frozen. */
static int64_t check_frozen(const ModelRig *rig, const float *want) {
    const float *gradients = rig->model->gradients.data;
    int64_t frozen = 0;
    for (int i = 0; i < rig->model->params.count; i++) {
        const Param *param = &rig->model->params.items[i];
        const float *got = gradients + param->offset;
        if (param->frozen_rows) {
            assert_int_equal(param->frozen_rows, param->rows);
            frozen += param->count;
            for (int64_t e = 0; e < param->count; e++) assert_true(got[e] == 0);
        } else if (memcmp(got, want + param->offset, (size_t)param->count * sizeof *got) != 0) {
            fail_msg("%s has another gradient", param->name);
        }
    }
    return frozen;
}

TEST(frozen_parts_have_no_gradient_and_change_no_other) {
    enum { EMBEDDINGS = (VOCABULARY + 18 + 1 + 2) * 32, LAYER = 4 * (32 * 32 + 32) + 2 * 32 * 64 + 64 + 32 + 4 * 32 };
    const struct {
        int layers;
        bool embeddings;
        int64_t frozen;
    } cases[] = {{0, true, EMBEDDINGS},
                 {1, false, EMBEDDINGS + LAYER},
                 {1, true, EMBEDDINGS + LAYER},
                 {2, false, EMBEDDINGS + 2 * LAYER}};
    ModelRig all = open_small(CLASSES, 0.1f);
    Batch batch = small_batch(CLASSES);
    Pass pass = model_rig_pass(&all, batch.counts, 1);
    model_rig_run(&all, &batch, &pass);
    for (int i = 0; i < 8; i++) {
        BertConfig config = bert_config_small(CLASSES, 0.1f);
        config.frozen_layers = cases[i / 2].layers;
        config.frozen_embeddings = cases[i / 2].embeddings;
        ModelRig rig = open_config(&config);
        pass = model_rig_pass(&rig, batch.counts, 1);
        pass.recompute = i % 2;
        model_rig_run(&rig, &batch, &pass);
        assert_int_equal(check_frozen(&rig, all.model->gradients.data), cases[i / 2].frozen);
        assert_int_equal(params_count(&rig.model->params) - params_trainable_count(&rig.model->params),
                         cases[i / 2].frozen);
        assert_memory_equal(rig.sums.data, all.sums.data, tensor_bytes(all.sums));
        assert_true(rig.arena.peak < all.arena.peak);
        model_rig_close(&rig);
    }
    batch_close(&batch);
    model_rig_close(&all);
}

TEST(muon_updates_the_matrices_of_layers_that_are_trained) {
    for (int frozen = 0; frozen < 2; frozen++) {
        BertConfig config = bert_config_small(CLASSES, 0);
        config.frozen_layers = frozen;
        Model *model = bert_open(&config);
        ParamUpdates updates = params_updates(&model->params, NULL, 0.01f, true);
        assert_int_equal(updates.n_matrices, 6 * (config.n_layers - frozen));
        params_updates_free(&updates);
        model->close(model);
    }
}

static Model *open_wide(int classes, float dropout) {
    BertConfig config = bert_config_small(classes, dropout);
    config.vocabulary = 997, config.positions = 92, config.d_model = 64, config.d_ff = 256;
    return bert_open(&config);
}

static Model *open_wide_classes(float dropout) { return open_wide(CLASSES, dropout); }
static Model *open_wide_masked(float dropout) { return open_wide(0, dropout); }

TEST(any_number_of_threads_gives_the_same_bits) {
    for (int t = 0; t < TASKS; t++) {
        Batch batch = bert_batch_random(997, classes_of[t], 0, (const int32_t[]){70, 1, 90, 39}, 4);
        model_rig_check_threads(classes_of[t] ? open_wide_classes : open_wide_masked, &batch);
        batch_close(&batch);
    }
}

/* ---- memory and work ---- */

/* A text of T tokens takes 12 (2 T (4 C^2 + 2 C F) + 4 T^2 C) + 2 C^2 + 4 C forward, three times that in
 * training: 67.05 GFLOP for 128 tokens. The projection and the MLP of the last layer are computed for one row only: 2
 * (T - 1) (C^2 + 2 C F) less. Norms, GELU and the like, and the extra product in attention's backward are what the 2 %
 * is for. */
TEST(full_model_runs_dry_and_its_work_is_known) {
    enum { B = 32, T = 128 };
    const double C = 768, F = 3072,
                 whole = 3 * (12 * (2 * T * (4 * C * C + 2 * C * F) + 4.0 * T * T * C) + 2 * C * C + 4 * C),
                 saved = 3 * 2 * (T - 1) * (C * C + 2 * C * F);
    assert_near(whole / 1e9, 67.05, 0.01);
    ModelRig rig = model_rig_open(bert_open(&base), dry_device_open(), 0);
    int32_t full[B];
    for (int i = 0; i < B; i++) full[i] = T;
    Batch batch = bert_batch_random(base.vocabulary, base.classes, 0, full, B);
    Pass pass = model_rig_pass(&rig, batch.counts, 1);
    double flops, bytes;
    device_reset_counters(rig.device);
    model_rig_run(&rig, &batch, &pass);
    device_totals(rig.device, &flops, &bytes);
    print_message("32 x 128: %.2f GFLOP per text, %.2f GB of activations\n", flops / B / 1e9,
                  (double)rig.arena.peak / 1e9);
    assert_true(fabs(flops / (B * (whole - saved)) - 1) < 0.02);
    size_t peak = rig.arena.peak;
    rig.arena.peak = 0;
    pass.recompute = true;
    model_rig_run(&rig, &batch, &pass);
    assert_true(rig.arena.peak < peak / 3);
    batch_close(&batch);
    model_rig_close(&rig);
}

/* Bytes that a step of PhoBERT base moves to and from the memory for a parameter's gradient and update: those that
 * products overwrite are written once, tables are cleared; the norm's squares, and 30 bytes of AdamW. */
static double update_bytes(double cache) {
    enum { LENGTH = 16, B = 32 };
    static const int ops[] = {OP_clear_segments, OP_sum_squares, OP_finish_norm, OP_adamw_update};
    TokenizedTexts texts = bert_synthetic_texts(B, base.vocabulary, LENGTH, LENGTH);
    Dataset *data = bert_labelled_open(&texts, (int32_t[B]){0}, &(BertLoss){.classes = 2});
    Model *model = bert_open(&base);
    Batch batch = bert_largest_batch(data, B, 0);
    Device *dry = dry_device_open();
    double bytes = 0;
    dry->half = DTYPE_BF16;
    device_follow(dry);
    memory_dry_step(model, dry, &batch, 1, (StepOptions){0});
    for (int i = 0; i < 4; i++) bytes += device_dram_bytes(dry, ops[i], cache);
    for (int i = 0; i < model->params.count; i++)
        if (param_is_overwritten(&model->params.items[i])) bytes += 4 * (double)model->params.items[i].count;
    bytes /= (double)params_count(&model->params);
    batch_close(&batch);
    model->close(model);
    data->close(data);
    texts_free(&texts);
    device_close(dry);
    return bytes;
}

/* Gradients of layers are overwritten, and their squares summed while they lie in the cache of an L4, half of which
 * counts.
 */
TEST(a_step_moves_36_bytes_a_parameter) {
    double without = update_bytes(0), with = update_bytes(24 << 20);
    print_message("%.2f bytes a parameter without a cache, %.2f with one\n", without, with);
    assert_true(with <= 36 && without > 37);
}

static Model *open_model_of(int classes, float dropout, float head_dropout) {
    BertConfig config = bert_config_small(classes, dropout);
    config.head_dropout = head_dropout;
    return bert_open(&config);
}

static Model *open_classes(float dropout) { return open_model_of(CLASSES, dropout, dropout); }
static Model *open_masked(float dropout) { return open_model_of(0, dropout, dropout); }
static Model *open_dropping_head(float dropout) { return open_model_of(CLASSES, 0, dropout); }
static Batch batch_of_classes(void) { return small_batch(CLASSES); }
static Batch batch_of_masks(void) { return small_batch(0); }

static ModelCase classes = {open_classes, batch_of_classes,
                            "embedded:1344 block.0.output:1344 block.1.output:160 logits:15 "},
                 masked = {open_masked, batch_of_masks,
                           "embedded:1344 block.0.output:1344 block.1.output:448 logits:742 "},
                 dropping_head = {open_dropping_head, batch_of_classes, NULL};

int main(void) {
    const struct CMUnitTest shared[] = {MODEL_TESTS(&classes), MODEL_TESTS(&masked),
                                        cmocka_unit_test_prestate(dropout_is_drawn_from_seed_and_step, &dropping_head)};
    tests_add(shared, sizeof shared / sizeof *shared);
    return tests_run(NULL, NULL);
}
