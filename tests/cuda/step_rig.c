#include "tests/cuda/step_rig.h"
#include "tests/norm.h"

#include "model/context.h"

static const float loss_scale_start = 1024; /* of f16 */

static Tensor flat(Device *device, DType type, int64_t n) {
    return tensor_1d(device->allocate(device, (size_t)n * dtype_size(type)), type, n);
}

static Tensor upload_device_data(Device *device, Tensor host) {
    if (!tensor_given(host)) return host;
    Tensor t = tensor_2d(device->allocate(device, tensor_bytes(host)), host.dtype, host.dims[0], host.dims[1]);
    device->upload(device, t.data, host.data, tensor_bytes(host));
    return t;
}

Side side_open(Device *device, Model *model, const float *start, const Batch *batches, int n_batches, DType half) {
    Side side = {.device = device, .model = model, .batches = batches, .n_batches = n_batches};
    int64_t n = model->params.flat_count, n_outputs = batches->n_sequences * model->n_outputs;
    for (int i = 0; i < n_batches; i++) assert_int_equal(batches[i].size, batches->size);
    side.weights = xaligned((size_t)n * 4);
    side.gradients = xaligned((size_t)n * 4);
    side.host_outputs = xaligned((size_t)(n_outputs + 1) * 4);
    memcpy(side.weights, start, (size_t)n * 4);
    model->weights = flat(device, DTYPE_F32, n);
    model->gradients = flat(device, DTYPE_F32, n);
    side.m = flat(device, DTYPE_F32, n);
    side.v = flat(device, DTYPE_F32, n);
    side.norm = flat(device, DTYPE_F32, 1);
    side.sums = flat(device, DTYPE_F32, model->n_metrics);
    if (n_outputs) side.outputs = flat(device, DTYPE_F32, n_outputs);
    if (n_outputs) side.outputs = tensor_2d(side.outputs.data, DTYPE_F32, batches->n_sequences, model->n_outputs);
    side.device_data = upload_device_data(device, batches->fields[batches->n_fields]);
    side.numbers = device->allocate(device, sizeof *side.numbers);
    side.memory = device->allocate(device, batches->size);
    device->upload(device, model->weights.data, side.weights, (size_t)n * 4);
    if (half != DTYPE_F32) {
        model->half_weights = flat(device, half, n);
        cast(device, model->half_weights, model->weights);
    }
    if (half == DTYPE_F16) {
        const float scale[LOSS_SCALE_FIELDS] = {loss_scale_start, 0, 0, 0};
        model->loss_scale = flat(device, DTYPE_F32, LOSS_SCALE_FIELDS);
        device->upload(device, model->loss_scale.data, scale, sizeof scale);
    }
    side.arena = arena_open(device, (size_t)16 << 20, "activations");
    side.updates = params_updates(&model->params, device, 0.01f, false);
    side.unwritten = xcalloc((size_t)model->params.count, sizeof *side.unwritten);
    side.n_moving = params_moving(&model->params, &side.moving);
    return side;
}

void side_close(Side *side) {
    Device *device = side->device;
    Model *model = side->model;
    Tensor all[] = {model->weights,      model->gradients, side->m,       side->v,
                    side->norm,          side->sums,       side->outputs, side->device_data,
                    model->half_weights, model->loss_scale};
    if (device->forget) device->forget(device);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (tensor_given(all[i])) device->release(device, all[i].data, tensor_bytes(all[i]));
    device->release(device, side->numbers, sizeof *side->numbers);
    device->release(device, side->memory, side->batches->size);
    arena_close(&side->arena);
    free(side->weights);
    free(side->gradients);
    free(side->host_outputs);
    params_updates_free(&side->updates);
    free(side->unwritten);
    free(side->moving);
    model->close(model);
}

typedef struct {
    Model *model;
    const Batch *batch;
    const Tensor *fields;
    const Context *context;
} ModelCall;

static void call_model(void *argument) {
    const ModelCall *c = argument;
    context_begin(c->context);
    c->model->forward_backward(c->model, c->context->device, c->context->arena, c->batch, c->fields, c->context->pass);
    context_end(c->context);
}

/* Runs a pass over one batch as the loop does: copies the batch to the device, and may repeat a recording. */
static void side_pass(Side *side, const Batch *batch, Pass pass) {
    Device *device = side->device;
    Tensor fields[BATCH_MAX_FIELDS + 1] = {{0}};
    device->upload(device, side->memory, batch->buffer, batch->size);
    for (int i = 0; i < batch->n_fields; i++) {
        fields[i] = batch->fields[i];
        if (fields[i].data) fields[i].data = side->memory + ((char *)fields[i].data - batch->buffer);
    }
    fields[batch->n_fields] = side->device_data;
    pass.seed = 3;
    pass.step = &side->numbers->step;
    pass.loss_scale = tensor_1d(side->numbers->loss_scale, DTYPE_F32, side->model->n_metrics);
    pass.sums = side->sums;
    const void *key[] = {side->memory, side, pass.train ? side : NULL, pass.recompute ? side : NULL, pass.unwritten};
    const Context context = context_of(side->model, device, &side->arena, &pass);
    ModelCall call = {side->model, batch, fields, &context};
    if (side->repeat)
        device->repeat(device, key, sizeof key, false, call_model, &call);
    else
        call_model(&call);
    assert_int_equal(side->arena.used, 0);
}

void side_steps(Side *side, bool recompute, uint32_t micro_batches) {
    Device *device = side->device;
    Model *model = side->model;
    ParamUpdates *u = &side->updates;
    Tensor none = tensor_none();
    memset(side->gradients, 0xff, tensor_bytes(model->gradients)); /* NaN, which nothing must read */
    device->upload(device, model->gradients.data, side->gradients, tensor_bytes(model->gradients));
    clear_segments(device, model->gradients, u->cleared, u->n_cleared);
    if (side->n_moving) copy_segments(device, model->gradients, model->weights, none, side->moving, side->n_moving);
    for (uint32_t micro = 0; micro < micro_batches; micro++) {
        const Batch *batch = &side->batches[micro % (uint32_t)side->n_batches];
        PassNumbers numbers = {.step = micro};
        for (int i = 0; i < model->n_metrics; i++)
            numbers.loss_scale[i] =
                model->metrics[i].weight / ((float)micro_batches * (float)batch->counts[model->metrics[i].count]);
        device->upload(device, side->numbers, &numbers, sizeof numbers);
        device->synchronize(device);
        side_pass(side, batch,
                  (Pass){.train = true, .unwritten = micro ? NULL : side->unwritten, .recompute = recompute});
    }
    global_norm(device, side->norm, model->gradients, model->loss_scale, u->segments, u->n_segments);
    for (int i = 0; i < u->n_segments; i++) u->segments[i].learning_rate = 1e-3f;
    AdamW adamw = {0.9f, 0.999f, 1e-8f, 1.0f, ++side->n_updates, false};
    AdamWBuffers buffers = {
        .params = model->weights, .copy = model->half_weights, .m = side->m, .v = side->v, .grads = model->gradients};
    adamw_update(device, buffers, side->norm, model->loss_scale, u->segments, u->n_segments, adamw);
    if (side->n_moving)
        copy_segments(device, model->weights, model->gradients, side->norm, side->moving, side->n_moving);
    if (tensor_given(model->loss_scale)) loss_scale_update(device, model->loss_scale, side->norm, none);
    device->download(device, side->weights, model->weights.data, tensor_bytes(model->weights));
    device->download(device, side->gradients, model->gradients.data, tensor_bytes(model->gradients));
    device->download(device, &side->host_norm, side->norm.data, 4);
    device->download(device, side->host_sums, side->sums.data, tensor_bytes(side->sums));
    assert_no_reports();
    for (int64_t i = 0; tensor_given(model->loss_scale) && i < model->params.flat_count; i++)
        side->gradients[i] /= loss_scale_start;
}

void side_step(Side *side, bool recompute) { side_steps(side, recompute, 2); }

void side_step_twice(Rig *rig, Side *got, Side *again, bool recompute) {
    size_t bytes = tensor_bytes(got->model->weights);
    side_step(got, recompute);
    change_schedule(rig);
    side_step(again, recompute);
    assert_memory_equal(again->gradients, got->gradients, bytes);
    assert_memory_equal(again->weights, got->weights, bytes);
}

void side_validate(Side *side, int batch) {
    Device *device = side->device;
    side_pass(side, &side->batches[batch], (Pass){.outputs = side->outputs});
    device->download(device, side->host_sums, side->sums.data, tensor_bytes(side->sums));
    if (tensor_given(side->outputs))
        device->download(device, side->host_outputs, side->outputs.data, tensor_bytes(side->outputs));
    assert_no_reports();
}

double distance(const float *got, const float *want, int64_t n) {
    double difference = 0, length = 0;
    for (int64_t i = 0; i < n; i++) {
        difference += ((double)got[i] - (double)want[i]) * ((double)got[i] - (double)want[i]);
        length += (double)want[i] * (double)want[i];
    }
    return length > 0 ? sqrt(difference / length) : sqrt(difference);
}

double largest_distance(const ParamTable *table, const float *got, const float *want, bool buffers,
                        const char **where) {
    double worst = 0;
    *where = "";
    for (int i = 0; i < table->count; i++) {
        const Param *p = &table->items[i];
        if (p->buffer != buffers) continue;
        double d = distance(got + p->offset, want + p->offset, p->count);
        if (!isnan(worst) && !(d <= worst)) worst = d, *where = p->name;
    }
    return worst;
}

double tolerance_of(DType half, int roundings) {
    return half == DTYPE_F32 ? 1e-5 : 4 * sqrt(roundings) * rounding_of(half);
}

typedef struct {
    void (*compare)(DType half);
    DType half;
} StepComparison;

static void compare_steps(void **comparison) {
    const StepComparison *c = *comparison;
    c->compare(c->half);
}

int step_tests_run(void (*compare)(DType half)) {
    StepComparison f32 = {compare, DTYPE_F32}, bf16 = {compare, DTYPE_BF16}, f16 = {compare, DTYPE_F16};
    const struct CMUnitTest tests[] = {
        {"f32_steps", compare_steps, NULL, NULL, &f32},
        {"bf16_steps", compare_steps, NULL, NULL, &bf16},
        {"f16_steps", compare_steps, NULL, NULL, &f16},
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
