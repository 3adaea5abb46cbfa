/* A whole training step of a small TTS GPT on the cuda device, real or emulated, against the cpu device: loss, every
 * gradient and the updated weights, in f32 and in the 16-bit types, with and without recomputation, packed and ragged;
 * and the same bits under another schedule. */
#include "kernels/cuda/cuda.h"
#include "tests/cuda/rig.h"

#include "data/tts_dataset.h"
#include "model/gpt.h"

enum { D = 32, LAYERS = 2, HEADS = 2, TEXT = 37, CODES = 59, SEQUENCES = 3 };

static const TtsLayout layout = {.d_model = D,
                                 .n_conditioning = 32,
                                 .max_text = 40,
                                 .max_codes = 61,
                                 .text_vocabulary = TEXT,
                                 .audio_vocabulary = CODES,
                                 .start_text = 0,
                                 .stop_text = 1,
                                 .start_mel = CODES,
                                 .stop_mel = CODES + 1};

/* One device's side of a run. */
typedef struct {
    Device *device;
    Model *model;
    Arena arena;
    Tensor m, v, norm, sums;
    PassNumbers *numbers; /* on the device */
    Batch *batch;
    Segment *segments;
    int n_segments;
    float *weights, *gradients; /* on the host, after a step */
    float host_norm, host_sums[MODEL_MAX_METRICS];
    bool repeat; /* micro-batches by Device.repeat */
} Side;

static Tensor flat(Device *device, DType type, int64_t n) {
    return tensor_1d(device->allocate(device, (size_t)n * dtype_size(type)), type, n);
}

static Batch make_batch(void) {
    const int32_t text[SEQUENCES] = {5, 17, 1}, codes[SEQUENCES] = {33, 2, 58}, samples[SEQUENCES] = {0, 1, 2};
    Error error;
    Dataset *data = tts_dataset_synthetic(&layout, text, codes, SEQUENCES);
    Batch batch = batch_open(data->batch_bytes(data, samples, SEQUENCES), SEQUENCES);
    if (!data->fill(data, &batch, samples, SEQUENCES, &error)) fail_msg("%s", error.text);
    data->close(data);
    return batch;
}

static Side side_open(Device *device, Batch *batch, DType half, float dropout) {
    Side side = {.device = device, .batch = batch};
    side.model = tts_gpt_open(&(TtsGptConfig){.d_model = D,
                                              .n_layers = LAYERS,
                                              .n_heads = HEADS,
                                              .text_vocabulary = TEXT,
                                              .mel_codes = CODES + 2,
                                              .max_text_tokens = 40,
                                              .max_mel_tokens = 60,
                                              .dropout = dropout,
                                              .text_weight = 0.2f,
                                              .mel_weight = 0.8f});
    Model *model = side.model;
    int64_t n = model->params.flat_count;
    side.weights = xaligned((size_t)n * 4);
    side.gradients = xaligned((size_t)n * 4);
    params_initialize(&model->params, side.weights, 7);
    for (int64_t i = 0; i < n; i++) side.weights[i] *= 3; /* so that attention is not flat */
    model->weights = flat(device, DTYPE_F32, n);
    model->gradients = flat(device, DTYPE_F32, n);
    side.m = flat(device, DTYPE_F32, n);
    side.v = flat(device, DTYPE_F32, n);
    side.norm = flat(device, DTYPE_F32, 1);
    side.sums = flat(device, DTYPE_F32, model->n_metrics);
    side.numbers = device->allocate(device, sizeof *side.numbers);
    device->upload(device, model->weights.data, side.weights, (size_t)n * 4);
    if (half != DTYPE_F32) {
        model->half_weights = flat(device, half, n);
        cast(device, model->half_weights, model->weights);
    }
    if (half == DTYPE_F16) {
        const float start[LOSS_SCALE_FIELDS] = {1024, 0, 0, 0};
        model->loss_scale = flat(device, DTYPE_F32, LOSS_SCALE_FIELDS);
        device->upload(device, model->loss_scale.data, start, sizeof start);
    }
    side.arena = arena_open(device, (size_t)16 << 20, "activations");
    side.n_segments = params_segments(&model->params, 0.01f, &side.segments);
    return side;
}

static void side_close(Side *side) {
    Device *device = side->device;
    Model *model = side->model;
    Tensor all[] = {model->weights, model->gradients,    side->m,          side->v, side->norm,
                    side->sums,     model->half_weights, model->loss_scale};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (tensor_given(all[i])) device->release(device, all[i].data, tensor_bytes(all[i]));
    device->release(device, side->numbers, sizeof *side->numbers);
    arena_close(&side->arena);
    free(side->weights);
    free(side->gradients);
    free(side->segments);
    model->close(model);
}

typedef struct {
    Side *side;
    const Tensor *fields;
    const Pass *pass;
} ModelCall;

static void call_model(void *argument) {
    const ModelCall *c = argument;
    Side *side = c->side;
    side->model->run(side->model, side->device, &side->arena, side->batch, c->fields, c->pass);
}

/* `micro_batches` and an update; what came of it is in the host's buffers. */
static void side_steps(Side *side, bool recompute, uint32_t micro_batches) {
    Device *device = side->device;
    Model *model = side->model;
    Batch *batch = side->batch;
    Tensor fields[BATCH_MAX_FIELDS + 1] = {{0}};
    char *memory = device->allocate(device, batch->size);
    device->upload(device, memory, batch->buffer, batch->size);
    for (int i = 0; i < batch->n_fields; i++) {
        fields[i] = batch->fields[i];
        if (fields[i].data) fields[i].data = memory + ((char *)fields[i].data - batch->buffer);
    }
    const void *key[] = {memory, side, recompute ? side : NULL};
    device->clear(device, model->gradients.data, tensor_bytes(model->gradients));
    for (uint32_t micro = 0; micro < micro_batches; micro++) {
        PassNumbers numbers = {.step = micro};
        Pass pass = {.train = true,
                     .recompute = recompute,
                     .seed = 3,
                     .step = &side->numbers->step,
                     .loss_scale = tensor_1d(side->numbers->loss_scale, DTYPE_F32, model->n_metrics),
                     .sums = side->sums};
        for (int i = 0; i < model->n_metrics; i++)
            numbers.loss_scale[i] =
                model->metrics[i].weight / ((float)micro_batches * (float)batch->counts[model->metrics[i].count]);
        device->set(device, side->numbers, &numbers, sizeof numbers);
        ModelCall call = {side, fields, &pass};
        if (side->repeat)
            device->repeat(device, key, sizeof key, call_model, &call);
        else
            call_model(&call);
    }
    global_norm(device, side->norm, model->gradients, model->loss_scale, side->segments, side->n_segments);
    AdamW adamw = {1e-3f, 0.9f, 0.999f, 1e-8f, 1.0f, 1};
    adamw_update(device, model->weights, model->half_weights, side->m, side->v, model->gradients, side->norm,
                 model->loss_scale, side->segments, side->n_segments, adamw);
    if (tensor_given(model->loss_scale)) loss_scale_update(device, model->loss_scale, side->norm, tensor_none());
    device->download(device, side->weights, model->weights.data, tensor_bytes(model->weights));
    device->download(device, side->gradients, model->gradients.data, tensor_bytes(model->gradients));
    device->download(device, &side->host_norm, side->norm.data, 4);
    device->download(device, side->host_sums, side->sums.data, tensor_bytes(side->sums));
    device->release(device, memory, batch->size);
    for (int64_t i = 0; tensor_given(model->loss_scale) && i < model->params.flat_count; i++)
        side->gradients[i] /= 1024;
}

static void side_step(Side *side, bool recompute) { side_steps(side, recompute, 2); }

/* |got - want| / |want| over one parameter. */
static double distance(const float *got, const float *want, int64_t n) {
    double difference = 0, length = 0;
    for (int64_t i = 0; i < n; i++) {
        difference += ((double)got[i] - (double)want[i]) * ((double)got[i] - (double)want[i]);
        length += (double)want[i] * (double)want[i];
    }
    return length > 0 ? sqrt(difference / length) : sqrt(difference);
}

/* What the 16-bit types may cost: a gradient passes through about 12 roundings a block and as many on the way there,
 * and each adds its relative error as an independent one: sqrt(24 LAYERS + 12) of them, and 4 for how unevenly they
 * fall. */
static double gradient_tolerance(DType half) {
    return half == DTYPE_F32 ? 1e-5 : 4 * sqrt(24 * LAYERS + 12) * rounding_of(half);
}

static void compare(DType half, bool recompute, float dropout) {
    Rig rig = rig_open(half);
    if (!rig_has(&rig, half)) {
        rig_close(&rig);
        skip();
    }
    Batch batch = make_batch();
    Side want = side_open(rig.cpu, &batch, DTYPE_F32, dropout), got = side_open(rig.cuda, &batch, half, dropout);
    Side again = side_open(rig.cuda, &batch, half, dropout);
    int64_t n = got.model->params.flat_count;
    side_step(&want, false);
    side_step(&got, recompute);
    change_schedule(&rig);
    side_step(&again, recompute);
    assert_memory_equal(again.gradients, got.gradients, (size_t)n * 4);
    assert_memory_equal(again.weights, got.weights, (size_t)n * 4);
    double tolerance = gradient_tolerance(half), worst = 0;
    const char *where = "";
    for (int i = 0; i < got.model->params.count; i++) {
        const Param *p = &got.model->params.items[i];
        double d = distance(got.gradients + p->offset, want.gradients + p->offset, p->count);
        if (!(d <= worst)) worst = d, where = p->name;
    }
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

static void f32(void **state) {
    (void)state;
    compare(DTYPE_F32, false, 0);
    compare(DTYPE_F32, true, 0.1f);
}

static void bf16_step(void **state) {
    (void)state;
    compare(DTYPE_BF16, false, 0);
    compare(DTYPE_BF16, true, 0.1f);
}

static void f16_step(void **state) {
    (void)state;
    compare(DTYPE_F16, false, 0);
    compare(DTYPE_F16, true, 0.1f);
}

/* Gradients that overflow f16 change nothing but the scale. */
static void an_overflow_is_skipped(void **state) {
    (void)state;
    Rig rig = rig_open(DTYPE_F16);
    if (!rig_has(&rig, DTYPE_F16)) {
        rig_close(&rig);
        skip();
    }
    Batch batch = make_batch();
    Side side = side_open(rig.cuda, &batch, DTYPE_F16, 0);
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
static void repeated_is_called_anew(void **state) {
    (void)state;
    Batch batch = make_batch();
    Rig rig = rig_open(DTYPE_BF16);
    Device *device = rig.cuda;
    Side plain = side_open(device, &batch, DTYPE_BF16, 0.1f), repeated = side_open(device, &batch, DTYPE_BF16, 0.1f);
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
        assert_non_null(cuda_state(device)->recordings[0].graph);
    }
    side_close(&plain);
    side_close(&repeated);
    batch_close(&batch);
    rig_close(&rig);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f32),
        cmocka_unit_test(bf16_step),
        cmocka_unit_test(f16_step),
        cmocka_unit_test(an_overflow_is_skipped),
        cmocka_unit_test(repeated_is_called_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
