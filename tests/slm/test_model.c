/* The text GPT: parameters, what a pass must and must not do, memory and work. (Values against another implementation:
 * test_golden.c.) */
#include <math.h>

#include "kernels/device_open.h"
#include "tests/slm/rig.h"

enum { ARENA = 64 << 20 };
static const int32_t lengths[] = {12, 5, 1, 12, 7};
enum { SEQUENCES = sizeof lengths / sizeof *lengths, ROWS = 37 };

static Model *open_small_model(float dropout) {
    SlmConfig config = slm_config_small(dropout);
    return slm_open(&config);
}

static ModelRig open_small(float dropout) {
    return model_rig_open(open_small_model(dropout), cpu_device_open(0), ARENA);
}

static Batch small_batch(void) { return slm_batch_random(53, 0, lengths, SEQUENCES); }

/* ---- parameters ---- */

static const SlmConfig slm = {
    .vocabulary = 30000, .context = 1024, .d_model = 768, .n_layers = 12, .n_heads = 12, .gelu = GELU_ERF};

/* Sizes as the reference counts them, and those of GPT-2 124M. */
TEST(models_have_the_reference_sizes) {
    SlmConfig short_context = slm, regular = slm, gpt2 = slm;
    short_context.context = 512;
    regular.d_model = 1024, regular.n_layers = 24, regular.n_heads = 16;
    gpt2.vocabulary = 50257, gpt2.biases = true;
    const struct {
        const SlmConfig *config;
        int64_t all, decayed;
        int tensors, decayed_tensors;
    } sizes[] = {{&slm, 108780288, 108761088, 75, 50},
                 {&short_context, 108387072, 108367872, 75, 50},
                 {&regular, 333808640, 333758464, 147, 98},
                 {&gpt2, 124439808, 124439808 - 121344, 148, 50}};
    for (int i = 0; i < 4; i++) {
        Model *model = slm_open(sizes[i].config);
        int64_t decayed = 0;
        int decayed_tensors = 0;
        for (int p = 0; p < model->params.count; p++) {
            const Param *param = &model->params.items[p];
            assert_int_equal(param->decay, param->rank == 2);
            if (param->decay) decayed += param->count, decayed_tensors++;
        }
        assert_int_equal(params_count(&model->params), sizes[i].all);
        assert_int_equal(model->params.count, sizes[i].tensors);
        assert_int_equal(decayed, sizes[i].decayed);
        assert_int_equal(decayed_tensors, sizes[i].decayed_tensors);
        model->close(model);
    }
}

TEST(tensors_have_the_reference_names_and_shapes) {
    static const struct {
        const char *name;
        int64_t dims[2];
    } want[] = {{"transformer.wte.weight", {30000, 768}},
                {"transformer.wpe.weight", {1024, 768}},
                {"transformer.h.0.ln_1.weight", {768}},
                {"transformer.h.0.attn.c_attn.weight", {2304, 768}},
                {"transformer.h.0.attn.c_proj.weight", {768, 768}},
                {"transformer.h.0.ln_2.weight", {768}},
                {"transformer.h.0.mlp.c_fc.weight", {3072, 768}},
                {"transformer.h.0.mlp.c_proj.weight", {768, 3072}},
                {"transformer.h.1.ln_1.weight", {768}}};
    enum { NAMES = sizeof want / sizeof *want };
    Model *model = slm_open(&slm);
    for (int i = 0; i < NAMES; i++) {
        const Param *param = &model->params.items[i];
        assert_string_equal(param->name, want[i].name);
        assert_int_equal(param->rank, want[i].dims[1] ? 2 : 1);
        for (int k = 0; k < param->rank; k++) assert_int_equal(param->dims[k], want[i].dims[k]);
    }
    assert_string_equal(model->params.items[model->params.count - 1].name, "transformer.ln_f.weight");
    assert_int_equal(params_find(&model->params, "lm_head.weight"), -1);
    model->close(model);
}

/* Every matrix is N(0, 0.02^2); with scaled_init those that end a branch are smaller by 1 / sqrt(2 layers). The
 * deviation of n numbers varies by 1 / sqrt(2 n). */
TEST(matrices_start_with_the_reference_deviation) {
    for (int scaled = 0; scaled < 2; scaled++) {
        SlmConfig config = slm_config_small(0);
        config.scaled_init = scaled;
        ModelRig rig = model_rig_open(slm_open(&config), cpu_device_open(1), ARENA);
        for (int p = 0; p < rig.model->params.count; p++) {
            const Param *param = &rig.model->params.items[p];
            const float *values = (float *)rig.model->weights.data + param->offset;
            double squares = 0, n = (double)param->count;
            for (int64_t e = 0; e < param->count; e++) squares += (double)values[e] * (double)values[e];
            bool ends_branch = strstr(param->name, "c_proj") != NULL;
            double want = param->rank == 1 ? 1 : scaled && ends_branch ? 0.01 : 0.02; /* two layers: sqrt(4) */
            assert_near(sqrt(squares / n), want, 5 * want / sqrt(2 * n));
        }
        model_rig_close(&rig);
    }
}

static void open_model(void *config) { slm_open(config); }

TEST(bad_configurations_are_refused_by_name) {
    SlmConfig bad[5];
    for (int i = 0; i < 5; i++) bad[i] = slm_config_small(0.1f);
    bad[0].n_heads = 5;
    bad[1].n_layers = 0;
    bad[2].dropout = 1;
    bad[3].vocabulary = 1;
    bad[4].context = 0;
    const char *const want[] = {"multiple of the number of heads, 5", "0 layers", "dropout 1 is not in [0, 1)",
                                "a vocabulary of 1 tokens", "a context of 0 tokens"};
    for (int i = 0; i < 5; i++) assert_dies(open_model, &bad[i], want[i]);
}

/* ---- what a pass does ---- */

/* The final norm gives rows of length sqrt(C), so that the logits at the start are N(0, C 0.02^2), nearly independent
 * of the targets: the expected loss is ln(V) + C 0.02^2 / 2, 10.46 for the reference's model. The mean over n rows lies
 * within 5 standard errors. */
TEST(the_loss_starts_at_its_expected_value) {
    enum { N = 512, WIDTH = 256, VOCABULARY = 4096 };
    SlmConfig config = {
        .vocabulary = VOCABULARY, .context = N, .d_model = WIDTH, .n_layers = 4, .n_heads = 4, .gelu = GELU_ERF};
    ModelRig rig = model_rig_open(slm_open(&config), cpu_device_open(0), ARENA);
    Batch batch = slm_batch_random(VOCABULARY, 0, (const int32_t[]){N / 2, N / 2}, 2);
    model_rig_run(&rig, &batch, &(Pass){.sums = rig.sums});
    double variance = WIDTH * 0.02 * 0.02, mean = (double)*(float *)rig.sums.data / N;
    print_message("first loss %.4f, expected %.4f\n", mean, log(VOCABULARY) + variance / 2);
    assert_near(mean, log(VOCABULARY) + variance / 2, 5 * sqrt(variance / N));
    batch_close(&batch);
    model_rig_close(&rig);
}

TEST(metrics_are_those_of_language_models) {
    ModelRig rig = open_small(0);
    Batch batch = small_batch();
    model_rig_run(&rig, &batch, &(Pass){.sums = rig.sums});
    const float *sums = rig.sums.data;
    double values[SLM_METRICS];
    for (int i = 0; i < SLM_METRICS; i++)
        values[i] = rig.model->metric_value(i, (double)sums[i] / batch.counts[rig.model->metrics[i].count]);
    assert_near(values[SLM_PERPLEXITY], exp(values[SLM_LOSS]), 1e-4);
    assert_near(values[SLM_BITS_PER_BYTE], values[SLM_LOSS] / log(2) / 4, 1e-6); /* a token is 4 bytes here */
    assert_true(values[SLM_TOP1] >= 0 && values[SLM_TOP1] <= 1);
    batch_close(&batch);
    model_rig_close(&rig);
}

/* Keeps the logits of a pass, which come in pieces. */
typedef struct {
    float *logits;
    int64_t n;
    int pieces;
    char names[512];
} Seen;

static void see(void *context, const char *name, Tensor t) {
    Seen *seen = context;
    size_t used = strlen(seen->names);
    snprintf(seen->names + used, sizeof seen->names - used, "%s ", name);
    if (strncmp(name, "logits", 6) != 0) return;
    seen->logits = xrealloc(seen->logits, (size_t)(seen->n + tensor_numel(t)) * sizeof(float));
    memcpy(seen->logits + seen->n, t.data, tensor_bytes(t));
    seen->n += tensor_numel(t);
    seen->pieces++;
}

static Seen see_logits(ModelRig *rig, const Batch *batch) {
    Seen seen = {.n = 0};
    model_rig_run(rig, batch, &(Pass){.sums = rig->sums, .dump = see, .dump_context = &seen});
    return seen;
}

/* Another id changes the logits of its row and of all later rows of its sequence, and not a bit of any other. */
TEST(a_token_is_seen_by_later_rows_of_its_sequence_only) {
    enum { CHANGED = 18 + 4, END = 30, VOCABULARY = 53 }; /* in the sequence of rows 18 .. 29 */
    ModelRig rig = open_small(0);
    Batch batch = small_batch();
    Seen before = see_logits(&rig, &batch);
    int32_t *id = (int32_t *)batch.fields[SLM_IDS].data + CHANGED;
    *id = (*id + 1) % VOCABULARY;
    Seen after = see_logits(&rig, &batch);
    assert_int_equal(before.n, ROWS * VOCABULARY);
    for (int row = 0; row < ROWS; row++) {
        size_t at = (size_t)row * VOCABULARY;
        bool same = !memcmp(before.logits + at, after.logits + at, VOCABULARY * sizeof(float));
        if (same != (row < CHANGED || row >= END)) fail_msg("row %d is %s", row, same ? "the same" : "another");
    }
    free(before.logits);
    free(after.logits);
    batch_close(&batch);
    model_rig_close(&rig);
}

TEST(packed_sequences_equal_each_alone) {
    ModelRig rig = open_small(0);
    Batch batch = small_batch();
    Seen together = see_logits(&rig, &batch);
    int64_t first = 0;
    for (int s = 0; s < SEQUENCES; s++) {
        Batch one = slm_batch_random(53, first, &lengths[s], 1);
        Seen alone = see_logits(&rig, &one);
        assert_close("logits", together.logits + first * 53, alone.logits, alone.n, 1e-6);
        first += lengths[s];
        free(alone.logits);
        batch_close(&one);
    }
    free(together.logits);
    batch_close(&batch);
    model_rig_close(&rig);
}

/* The rows behind the last one with a loss are as if they were not there. */
TEST(rows_without_a_target_have_no_loss) {
    ModelRig rig = open_small(0);
    Batch shorter = slm_batch_random(53, 0, (const int32_t[]){5}, 1);
    Batch masked = slm_batch_random(53, 0, (const int32_t[]){9}, 1);
    for (int i = 5; i < 9; i++) ((int32_t *)masked.fields[SLM_TARGETS].data)[i] = -1;
    Pass pass = model_rig_pass(&rig, shorter.counts, 1);
    model_rig_run(&rig, &shorter, &pass);
    float *gradients = copy_floats(rig.model->gradients), *sums = copy_floats(rig.sums);
    model_rig_clear_gradients(&rig);
    model_rig_run(&rig, &masked, &pass);
    assert_close("loss", rig.sums.data, sums, 1, 1e-6);
    assert_true(((float *)rig.sums.data)[SLM_TOP1] == sums[SLM_TOP1]);
    model_rig_check_gradients(&rig, gradients);
    free(gradients);
    free(sums);
    batch_close(&shorter);
    batch_close(&masked);
    model_rig_close(&rig);
}

static double mean_loss(ModelRig *rig, const Batch *batch) {
    model_rig_run(rig, batch, &(Pass){.sums = rig->sums});
    return (double)*(float *)rig->sums.data / batch->counts[SLM_COUNT_TOKENS];
}

/* The token table is used twice, as input and as head. Its gradient, along itself, is the slope of the loss there: by
 * central differences with the step h, whose error is h^2 in the loss's third derivative and 1e-6 / h in rounding. */
TEST(the_tied_table_has_the_gradient_of_both_its_uses) {
    const double h = 0.004;
    ModelRig rig = open_small(0);
    Batch batch = small_batch();
    const Param *param = &rig.model->params.items[params_find(&rig.model->params, "transformer.wte.weight")];
    float *table = (float *)rig.model->weights.data + param->offset;
    const float *gradient = (float *)rig.model->gradients.data + param->offset;
    for (int64_t e = 0; e < param->count; e++) table[e] *= 5;
    Pass pass = model_rig_pass(&rig, batch.counts, 1);
    model_rig_run(&rig, &batch, &pass);
    float *start = copy_floats(rig.model->weights);
    double squares = 0, losses[2];
    for (int64_t e = 0; e < param->count; e++) squares += (double)gradient[e] * (double)gradient[e];
    for (int side = 0; side < 2; side++) {
        double step = (side ? -h : h) / sqrt(squares);
        for (int64_t e = 0; e < param->count; e++)
            table[e] = (float)((double)start[param->offset + e] + step * (double)gradient[e]);
        losses[side] = mean_loss(&rig, &batch);
    }
    double slope = (losses[0] - losses[1]) / (2 * h);
    print_message("slope of the loss %.6f, norm of the gradient %.6f\n", slope, sqrt(squares));
    assert_near(slope, sqrt(squares), 1e-3 * sqrt(squares));
    free(start);
    batch_close(&batch);
    model_rig_close(&rig);
}

/* The head takes 8192 rows at a time. A batch of more has two pieces, and the sums and gradients of two batches that
 * have one piece each. */
TEST(a_head_in_pieces_gives_the_same) {
    enum { CONTEXT = 64, N = 130, PART = 65 };
    SlmConfig config = {
        .vocabulary = 11, .context = CONTEXT, .d_model = 8, .n_layers = 1, .n_heads = 2, .gelu = GELU_ERF};
    ModelRig rig = model_rig_open(slm_open(&config), cpu_device_open(0), ARENA);
    int32_t full[N];
    for (int i = 0; i < N; i++) full[i] = CONTEXT;
    Batch whole = slm_batch_random(11, 0, full, N);
    Seen seen = {.n = 0};
    Pass pass = model_rig_pass(&rig, whole.counts, 1);
    pass.dump = see;
    pass.dump_context = &seen;
    model_rig_run(&rig, &whole, &pass);
    assert_int_equal(seen.pieces, 2);
    assert_int_equal(seen.n, N * CONTEXT * 11);
    assert_contains(seen.names, "logits logits.8192 ");
    float *gradients = copy_floats(rig.model->gradients), *sums = copy_floats(rig.sums);
    double loss = 0, hits = 0;
    model_rig_clear_gradients(&rig);
    for (int first = 0; first < N; first += PART) {
        Batch part = slm_batch_random(11, (int64_t)first * CONTEXT, full, PART);
        seen.pieces = 0;
        model_rig_run(&rig, &part, &pass);
        assert_int_equal(seen.pieces, 1);
        loss += (double)((float *)rig.sums.data)[SLM_LOSS];
        hits += (double)((float *)rig.sums.data)[SLM_TOP1];
        batch_close(&part);
    }
    assert_near(loss, sums[SLM_LOSS], 1e-6 * loss);
    assert_near(hits, sums[SLM_TOP1], 0);
    model_rig_check_gradients(&rig, gradients);
    free(seen.logits);
    free(gradients);
    free(sums);
    batch_close(&whole);
    model_rig_close(&rig);
}

static Model *open_large(float dropout) {
    SlmConfig config = {.vocabulary = 997,
                        .context = 90,
                        .d_model = 64,
                        .n_layers = 2,
                        .n_heads = 2,
                        .biases = true,
                        .gelu = GELU_ERF,
                        .dropout = dropout};
    return slm_open(&config);
}

TEST(any_number_of_threads_gives_the_same_bits) {
    Batch batch = slm_batch_random(997, 0, (const int32_t[]){70, 1, 90, 39}, 4);
    model_rig_check_threads(open_large, &batch);
    batch_close(&batch);
}

/* ---- memory and work ---- */

/* 20 contexts of 1024 rows. A token costs 6 (12 L C^2 + V C) for the matrices and 6 L C (T + 1) for causal attention,
 * 704.5 MFLOP. Norms, GELU and the like, and the extra product in attention's backward are what the 2 % is for. */
TEST(full_model_runs_dry_and_its_work_is_known) {
    enum { B = 20, T = 1024 };
    ModelRig rig = model_rig_open(slm_open(&slm), dry_device_open(), 0);
    int32_t full[B];
    for (int i = 0; i < B; i++) full[i] = T;
    Batch batch = slm_batch_random(30000, 0, full, B);
    Pass pass = model_rig_pass(&rig, batch.counts, 1);
    double flops, bytes;
    device_reset_counters(rig.device);
    model_rig_run(&rig, &batch, &pass);
    device_totals(rig.device, &flops, &bytes);
    print_message("20 x 1024: %.1f MFLOP per token, %.2f GB of activations\n", flops / (B * T) / 1e6,
                  (double)rig.arena.peak / 1e9);
    assert_true(fabs(flops / (B * T * 704.5e6) - 1) < 0.02);
    size_t peak = rig.arena.peak;
    rig.arena.peak = 0;
    pass.recompute = true;
    model_rig_run(&rig, &batch, &pass);
    assert_true(rig.arena.peak < peak / 3);
    batch_close(&batch);
    model_rig_close(&rig);
}

static ModelCase small = {open_small_model, small_batch,
                          "embedded:1184 block.0.output:1184 block.1.output:1184 final:1184 logits:1961 "};

int main(void) {
    const struct CMUnitTest shared[] = {MODEL_TESTS(&small)};
    tests_add(shared, sizeof shared / sizeof *shared);
    return tests_run(NULL, NULL);
}
