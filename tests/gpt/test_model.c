/* The TTS GPT: parameters, what a pass must and must not do, memory and work. (Values against another implementation:
 * test_golden.c.) */
#include <math.h>

#include "kernels/device_open.h"
#include "kernels/ops_table.h"
#include "tests/gpt/rig.h"

static GptConfig full_config(int text_vocabulary) {
    return (GptConfig){.d_model = 1280,
                       .n_layers = 24,
                       .n_heads = 20,
                       .text_vocabulary = text_vocabulary,
                       .mel_codes = 8194,
                       .max_text_tokens = 600,
                       .max_mel_tokens = 1815,
                       .dropout = 0.1f,
                       .text_weight = 0.2f,
                       .mel_weight = 0.8f};
}

static GptConfig small_config(float dropout) { return gpt_config_small(64, 4, dropout); }

enum { SMALL_ARENA = 64 << 20 };
static const int32_t small_text[6] = {3, 14, 1, 7, 7, 2}, small_codes[6] = {9, 5, 1, 20, 11, 8};

static Model *open_small_model(float dropout) {
    GptConfig config = small_config(dropout);
    return gpt_open(&config);
}

static ModelRig open_small(float dropout) {
    return model_rig_open(open_small_model(dropout), cpu_device_open(0), SMALL_ARENA);
}

static Batch samples(int first, int n) {
    GptConfig config = small_config(0);
    return gpt_batch_random(&config, first, n, small_text + first, small_codes + first);
}

static Batch small_batch(void) { return samples(0, 6); }

/* ---- parameters ---- */

TEST(full_model_has_the_reference_tensors) {
    GptConfig config = full_config(24000);
    Model *model = gpt_open(&config);
    char *list = kept_text("tests/reference/trained_names.tsv"), *rest = list, *line;
    int n = 0;
    while ((line = strsep(&rest, "\n")) && *line) {
        assert_true(n < model->params.count);
        const Param *param = &model->params.items[n++];
        char *want = kept_format(param->rank == 2 ? "%s\t%lldx%lld" : "%s\t%lld", param->name,
                                 (long long)param->dims[0], (long long)param->dims[1]);
        assert_string_equal(line, want);
        assert_true(param->decay);
        assert_int_equal(param->frozen_rows, 0);
    }
    assert_int_equal(n, 301);
    assert_int_equal(model->params.count, 301);
    assert_int_equal(params_count(&model->params), 557815235);
    model->close(model);

    config = full_config(12000);
    model = gpt_open(&config);
    assert_int_equal(model->params.count, 301);
    assert_int_equal(params_count(&model->params), 527083235);
    model->close(model);
}

/* Elements that the optimizer changes when these tables have this many frozen rows. */
static int64_t covered(Model *model, const char *const *tables, int n_tables, int64_t rows) {
    for (int i = 0; i < n_tables; i++) model->params.items[params_find(&model->params, tables[i])].frozen_rows = rows;
    Segment *segments;
    int n = params_segments(&model->params, 0.01f, &segments);
    int64_t count = 0;
    for (int i = 0; i < n; i++) count += segments[i].end - segments[i].begin;
    free(segments);
    return count;
}

TEST(frozen_rows_take_no_part) {
    static const char *const tables[] = {"text_embedding.weight", "text_head.weight", "text_head.bias"};
    GptConfig config = full_config(24000);
    Model *model = gpt_open(&config);
    assert_int_equal(covered(model, tables, 3, 0), 557815235);
    assert_int_equal(covered(model, tables, 1, 12000), 557815235 - 12000 * 1280);
    assert_int_equal(covered(model, tables, 3, 12000), 557815235 - 12000 * (2 * 1280 + 1));
    model->close(model);
}

static void open_model(void *config) { gpt_open(config); }

TEST(bad_configurations_are_refused_by_name) {
    GptConfig bad[6];
    for (int i = 0; i < 6; i++) bad[i] = small_config(0.1f);
    bad[0].n_heads = 5;
    bad[1].n_layers = 0;
    bad[2].dropout = 1;
    bad[3].text_vocabulary = 2;
    bad[4].mel_codes = 2;
    bad[5].mel_weight = -1;
    const char *const want[] = {"multiple of the number of heads, 5",
                                "0 layers",
                                "dropout 1 is not in [0, 1)",
                                "text vocabulary of 2",
                                "2 mel codes",
                                "loss weights 0.2 (text) and -1"};
    for (int i = 0; i < 6; i++) assert_dies(open_model, &bad[i], want[i]);
}

/* ---- what a pass does ---- */

/* At initialisation the final norm gives rows of length sqrt(C), and the head's weights and bias U(-1/sqrt(C),
 * 1/sqrt(C)) make of them logits of variance s2 = 1/3 + 1/(3C), nearly normal: the expected loss is ln(classes) + s2 /
 * 2, and the mean over n rows lies within 5 standard errors sqrt(s2 / n), with 2/classes for the finite sum in the
 * softmax. */
TEST(losses_start_near_those_of_a_uniform_guess) {
    ModelRig rig = open_small(0);
    Batch batch = small_batch();
    Pass pass = {.sums = rig.sums};
    model_rig_run(&rig, &batch, &pass);
    const int classes[2] = {51, 42};
    for (int i = 0; i < 2; i++) {
        double n = (double)batch.counts[rig.model->metrics[i].count], s2 = 1.0 / 3 + 1.0 / (3 * 64);
        double mean = (double)((float *)rig.sums.data)[i] / n, expected = log(classes[i]) + s2 / 2;
        print_message("%s %.4f, expected %.4f\n", rig.model->metrics[i].name, mean, expected);
        assert_true(fabs(mean - expected) <= 5 * sqrt(s2 / n) + 2.0 / classes[i]);
    }
    batch_close(&batch);
    model_rig_close(&rig);
}

TEST(accumulated_micro_batches_equal_one_batch) {
    ModelRig rig = open_small(0);
    Batch whole = small_batch();
    Pass pass = model_rig_pass(&rig, whole.counts, 1);
    model_rig_clear_gradients(&rig);
    model_rig_run(&rig, &whole, &pass);
    float *want = copy_floats(rig.model->gradients);
    model_rig_clear_gradients(&rig);
    for (int first = 0; first < 6; first += 2) {
        Batch part = samples(first, 2);
        model_rig_run(&rig, &part, &pass);
        batch_close(&part);
    }
    model_rig_check_gradients(&rig, want);
    free(want);
    batch_close(&whole);
    model_rig_close(&rig);
}

/* A cpu whose operations note which dropout they were given. */
static const DeviceOps *real;
static uint32_t recorded[64];
static int n_recorded;

static void record(Dropout drop) {
    if (drop.p > 0 && n_recorded < 64) recorded[n_recorded++] = drop.purpose;
}

static void record_dropout(Device *device, Tensor y, Tensor x, Dropout drop) {
    record(drop);
    real->dropout(device, y, x, drop);
}

static void record_residual(Device *device, Tensor sum, Tensor x, Tensor branch, Dropout drop) {
    record(drop);
    real->residual_forward(device, sum, x, branch, drop);
}

static void record_residual_layernorm(Device *device, Tensor sum, LayerNormOutput output, Tensor x, Tensor branch,
                                      Tensor gain, Tensor bias, Dropout drop) {
    record(drop);
    real->residual_layernorm_forward(device, sum, output, x, branch, gain, bias, drop);
}

static void record_attention(Device *device, Tensor out, Tensor lse, Tensor qkv, Sequences sequences,
                             Attention attention, Dropout drop) {
    record(drop);
    real->attention_forward(device, out, lse, qkv, sequences, attention, drop);
}

static void record_attention_backward(Device *device, Tensor dqkv, Tensor dout, AttentionActivations forward,
                                      Sequences sequences, Attention attention, Dropout drop) {
    record(drop);
    real->attention_backward(device, dqkv, dout, forward, sequences, attention, drop);
}

/* Embedding 0; block l: attention 1 + 4l, projection 2 + 4l, MLP 4 + 4l (3 + 4l, behind the GELU, is not GPT-2's). The
 * backward draws the same ones in reverse. */
TEST(every_dropout_has_its_own_site) {
    ModelRig rig = open_small(0.1f);
    Batch batch = samples(0, 2);
    real = rig.device->ops;
    DeviceOps recording = *real;
    recording.dropout = record_dropout;
    recording.residual_forward = record_residual;
    recording.residual_layernorm_forward = record_residual_layernorm;
    recording.attention_forward = record_attention;
    recording.attention_backward = record_attention_backward;
    rig.device->ops = &recording;
    n_recorded = 0;
    Pass pass = model_rig_pass(&rig, batch.counts, 1);
    model_rig_run(&rig, &batch, &pass);
    const uint32_t sites[] = {0, 1, 2, 4, 5, 6, 8, 9, 10, 12};
    assert_int_equal(n_recorded, 20);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(recorded[i], PURPOSE_DROPOUT | sites[i] << 8);
        assert_int_equal(recorded[19 - i], recorded[i]);
    }
    batch_close(&batch);
    model_rig_close(&rig);
}

/* ---- memory and work ---- */

/* Eight sequences of 388 rows: 100 text tokens, 251 codes. Forward, by hand: 2 x 471 859 200 block weights a row;
 * causal attention 2 x 388^2 x 1280 a layer and sequence; heads over the 101 and 252 rows that have a target. The
 * backward is twice the forward. Norms, GELU and the like, and the extra product in attention's backward are what
 * the 1 % is for. */
TEST(full_model_runs_dry_and_its_work_is_known) {
    GptConfig config = full_config(24000);
    ModelRig rig = gpt_rig_open(&config, dry_device_open(), 0);
    int32_t text[8], codes[8];
    for (int i = 0; i < 8; i++) {
        text[i] = 100;
        codes[i] = 251;
    }
    Batch batch = gpt_batch_random(&config, 0, 8, text, codes);
    assert_int_equal(batch.n_tokens, 8 * 388);
    Pass pass = model_rig_pass(&rig, batch.counts, 1);
    double start = seconds_now(), flops, bytes;
    device_reset_counters(rig.device);
    model_rig_run(&rig, &batch, &pass);
    double seconds = seconds_now() - start;
    device_totals(rig.device, &flops, &bytes);
    double forward =
        8 * (388 * 2 * 471859200.0 + 24 * 2 * 388.0 * 388 * 1280 + 2 * 1280 * (24001.0 * 101 + 8194.0 * 252));
    print_message("full model, 8 x 388 rows: %.3f TFLOP (3 x forward by hand: %.3f), %.3f GB moved, %.3f GB of "
                  "activations, %.0f us dry\n",
                  flops / 1e12, 3 * forward / 1e12, bytes / 1e9, (double)rig.arena.peak / 1e9, seconds * 1e6);
    assert_true(fabs(flops / (3 * forward) - 1) < 0.01);
    size_t peak = rig.arena.peak;
    rig.arena.peak = 0;
    pass.recompute = true;
    model_rig_run(&rig, &batch, &pass);
    assert_true(rig.arena.peak < peak / 5);
    batch_close(&batch);
    model_rig_close(&rig);
}

/* 310 rows of 64; heads over 40 rows with 51 text tokens and 60 with 42 codes. */
static ModelCase small = {open_small_model, small_batch,
                          "embedded:19840 block.0.output:19840 block.1.output:19840 block.2.output:19840 "
                          "text.final:2560 text.logits:2040 mel.final:3840 mel.logits:2520 "};

int main(void) {
    const struct CMUnitTest shared[] = {MODEL_TESTS(&small)};
    tests_add(shared, sizeof shared / sizeof *shared);
    return tests_run(NULL, NULL);
}
