/* A whole training step of a small TTS GPT on the cuda device, real or emulated, against the cpu device: loss, every
 * gradient and the updated weights, in f32 and in the 16-bit types, with and without recomputation, packed and ragged;
 * and the same bits under another schedule. */
#include "data/gpt/dataset.h"
#include "model/gpt.h"
#include "tests/cuda/step_rig.h"
#include "tests/test.h"

enum { D = 32, LAYERS = 2, HEADS = 2, TEXT = 37, CODES = 59, SEQUENCES = 3 };

static const GptLayout layout = {.d_model = D,
                                 .n_conditioning = 32,
                                 .max_text = 40,
                                 .max_codes = 61,
                                 .text_vocabulary = TEXT,
                                 .audio_vocabulary = CODES,
                                 .start_text = 0,
                                 .stop_text = 1,
                                 .start_mel = CODES,
                                 .stop_mel = CODES + 1};

static Batch make_batch(void) {
    const int32_t text[SEQUENCES] = {5, 17, 1}, codes[SEQUENCES] = {33, 2, 58}, samples[SEQUENCES] = {0, 1, 2};
    Error error;
    Dataset *data = gpt_dataset_synthetic(&layout, text, codes, SEQUENCES);
    Batch batch = batch_open(data->batch_bytes(data, samples, SEQUENCES), SEQUENCES);
    if (!data->fill(data, &batch, samples, SEQUENCES, &error)) fail_msg("%s", error.text);
    data->close(data);
    return batch;
}

static Side open_side(Device *device, const Batch *batch, DType half, float dropout) {
    Model *model = gpt_open(&(GptConfig){.d_model = D,
                                         .n_layers = LAYERS,
                                         .n_heads = HEADS,
                                         .text_vocabulary = TEXT,
                                         .mel_codes = CODES + 2,
                                         .max_text_tokens = 40,
                                         .max_mel_tokens = 60,
                                         .dropout = dropout,
                                         .text_weight = 0.2f,
                                         .mel_weight = 0.8f});
    int64_t n = model->params.flat_count;
    float *weights = xaligned((size_t)n * 4);
    params_initialize(&model->params, weights, 7, 1);
    for (int64_t i = 0; i < n; i++) weights[i] *= 3; /* so that attention is not flat */
    Side side = side_open(device, model, weights, batch, 1, half);
    free(weights);
    return side;
}

/* A gradient passes through about 12 roundings a block and as many on the way there. */
static double gradient_tolerance(DType half) { return tolerance_of(half, 24 * LAYERS + 12); }

static void compare(DType half, bool recompute, float dropout) {
    Rig rig = rig_open(half);
    if (!rig_has(&rig, half)) {
        rig_close(&rig);
        skip();
    }
    Batch batch = make_batch();
    Side want = open_side(rig.cpu, &batch, DTYPE_F32, dropout), got = open_side(rig.cuda, &batch, half, dropout);
    Side again = open_side(rig.cuda, &batch, half, dropout);
    int64_t n = got.model->params.flat_count;
    side_step(&want, false);
    side_step(&got, recompute);
    change_schedule(&rig);
    side_step(&again, recompute);
    assert_memory_equal(again.gradients, got.gradients, (size_t)n * 4);
    assert_memory_equal(again.weights, got.weights, (size_t)n * 4);
    const char *where;
    double tolerance = gradient_tolerance(half);
    double worst = largest_distance(&got.model->params, got.gradients, want.gradients, false, &where);
    print_message("%s%s%s: gradients differ by %.2g at most, in %s (allowed %.2g)\n", dtype_name(half),
                  recompute ? ", recomputed" : "", dropout > 0 ? ", dropout" : "", worst, where, tolerance);
    assert_true(worst <= tolerance);
    for (int i = 0; i < 2; i++) /* the two losses; the hits of 16 bits may differ by a tie */
        assert_true(fabs((double)(got.host_sums[i] - want.host_sums[i])) <= tolerance * (double)want.host_sums[i]);
    assert_true(fabs((double)(got.host_norm - want.host_norm)) <= tolerance * (double)want.host_norm);
    side_close(&want);
    side_close(&got);
    side_close(&again);
    batch_close(&batch);
    rig_close(&rig);
}

TEST(f32) {
    compare(DTYPE_F32, false, 0);
    compare(DTYPE_F32, true, 0.1f);
}

TEST(bf16_step) {
    compare(DTYPE_BF16, false, 0);
    compare(DTYPE_BF16, true, 0.1f);
}

TEST(f16_step) {
    compare(DTYPE_F16, false, 0);
    compare(DTYPE_F16, true, 0.1f);
}

/* Gradients that overflow f16 change nothing but the scale. */
TEST(an_overflow_is_skipped) {
    Rig rig = rig_open(DTYPE_F16);
    if (!rig_has(&rig, DTYPE_F16)) {
        rig_close(&rig);
        skip();
    }
    Batch batch = make_batch();
    Side side = open_side(rig.cuda, &batch, DTYPE_F16, 0);
    float scale[LOSS_SCALE_FIELDS] = {1e30f, 5, 0, 0};
    int64_t n = side.model->params.flat_count;
    float *before = xmalloc((size_t)n * 4);
    memcpy(before, side.weights, (size_t)n * 4);
    rig.cuda->upload(rig.cuda, side.model->loss_scale.data, scale, sizeof scale);
    side_step(&side, false);
    assert_false(isfinite(side.host_norm));
    assert_memory_equal(before, side.weights, (size_t)n * 4);
    rig.cuda->download(rig.cuda, scale, side.model->loss_scale.data, sizeof scale);
    assert_true(scale[LOSS_SCALE_FACTOR] == 0.5e30f && scale[LOSS_SCALE_GOOD] == 0 && scale[LOSS_SCALE_DONE] == 0 &&
                scale[LOSS_SCALE_SKIPPED] == 1);
    free(before);
    side_close(&side);
    batch_close(&batch);
    rig_close(&rig);
}

/* A graph that is run again computes with the numbers of its time: another dropout, other weights of the losses. */
TEST(a_repeated_graph_takes_the_numbers_of_its_time) {
    Batch batch = make_batch();
    Rig rig = rig_open(DTYPE_F32);
    Device *device = rig.cuda;
    DType half = device->half = rig_half(&rig);
    Side plain = open_side(device, &batch, half, 0.1f), repeated = open_side(device, &batch, half, 0.1f);
    int64_t n = plain.model->params.flat_count;
    double flops[2], bytes[2];
    repeated.repeat = true;
    for (int step = 0; step < 2; step++) {
        device_reset_counters(device);
        side_steps(&plain, step, 4);
        device_totals(device, &flops[0], &bytes[0]);
        device_reset_counters(device);
        change_schedule(&rig);
        side_steps(&repeated, step, 4);
        device_totals(device, &flops[1], &bytes[1]);
        assert_memory_equal(plain.gradients, repeated.gradients, (size_t)n * 4);
        assert_memory_equal(plain.weights, repeated.weights, (size_t)n * 4);
        assert_memory_equal(plain.host_sums, repeated.host_sums, sizeof plain.host_sums);
        assert_true(flops[0] == flops[1] && bytes[0] == bytes[1]);
        int recorded = 0; /* not the first micro-batch, which comes once a step */
        for (int i = 0; i < RECORDINGS; i++) recorded += cuda_state(device)->recordings[i].graph != NULL;
        assert_int_equal(recorded, step + 1);
    }
    side_close(&plain);
    side_close(&repeated);
    batch_close(&batch);
    rig_close(&rig);
}
