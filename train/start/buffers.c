#include "train/start/buffers.h"

#include <stdio.h>

#include "base/format.h"
#include "train/plan/fit.h"
#include "train/start/device_data.h"

static Tensor flat_tensor(const Training *t, DType type) {
    int64_t n = t->spec.model->params.flat_count;
    Device *device = t->spec.device;
    return tensor_1d(device->allocate(device, (size_t)n * dtype_size(type)), type, n);
}

/* Allocates a second copy for models whose best checkpoints may come faster than they are written. */
static void allocate_staging(Training *t) {
    enum { SMALL = 1 << 28 }; /* bytes of weights */
    Device *device = t->spec.device;
    size_t bytes = (size_t)t->spec.model->params.flat_count * sizeof(float);
    size_t max_bytes = t->spec.max_staged ? t->spec.max_staged : SMALL;
    int copies = bytes <= max_bytes && !t->inference ? 2 : 1, parts = t->inference ? 1 : BUFFERS;
    if (copies == 1 && t->spec.validation && !device->host_memory && !t->inference)
        printf("[Run] checkpoints of this size wait for the disk: where a new best comes before the last one is "
               "written, so does the training\n");
    for (int i = 0; i < copies * parts && !device->host_memory; i++)
        t->staging[i / parts][i % parts] = device->allocate_host(device, bytes);
}

static void check_inference(const TrainSpec *spec, const MemoryPlan *plan) {
    char need[32], have[32], headroom[MEMORY_TEXT];
    size_t available = memory_available(spec->device);
    if (train_to_allocate(spec, plan) > available)
        die("the weights and a batch need %s and %s are available%s; give a smaller --val-batch-size",
            format_bytes((double)memory_total(plan), need), format_bytes((double)available, have),
            memory_headroom_text(spec->device, headroom));
}

static MemoryPlan make_plan(Training *t) {
    MemoryPlan plan = t->inference ? train_plan_inference(&t->spec) : train_plan(&t->spec);
    t->spec.device->peak_allocated = t->spec.device->allocated; /* the peak of this training alone */
    memory_print(&plan);
    memory_print_limit(t->spec.device);
    t->planned_bytes = memory_total(&plan);
    (t->inference ? check_inference : fit_check)(&t->spec, &plan);
    return plan;
}

void buffers_allocate(Training *t) {
    Model *model = t->spec.model;
    Device *device = t->spec.device;
    DType half = train_half(&t->spec);
    MemoryPlan plan = make_plan(t);
    size_t own = device->allocated;
    model->weights = flat_tensor(t, DTYPE_F32);
    if (half != DTYPE_F32) model->half_weights = flat_tensor(t, half);
    if (!t->inference) {
        model->gradients = flat_tensor(t, DTYPE_F32);
        t->m = flat_tensor(t, DTYPE_F32);
        t->v = flat_tensor(t, DTYPE_F32);
    }
    if (!t->inference && half == DTYPE_F16)
        model->loss_scale =
            tensor_1d(device->allocate(device, LOSS_SCALE_FIELDS * sizeof(float)), DTYPE_F32, LOSS_SCALE_FIELDS);
    t->activations = arena_open(device, plan.activations, "activations");
    device_data_add(t, t->spec.train);
    device_data_add(t, t->spec.validation);
    allocate_staging(t);
    if (device->reserve) device->reserve(device, plan.scratch - own, plan.batches);
}

void buffers_release(Training *t) {
    Device *device = t->spec.device;
    Model *model = t->spec.model;
    Tensor *parts[] = {&model->weights, &model->gradients, &t->m, &t->v, &model->half_weights, &model->loss_scale};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (tensor_given(*parts[i])) device->release(device, parts[i]->data, tensor_bytes(*parts[i]));
        *parts[i] = tensor_none();
    }
    arena_close(&t->activations);
    device_data_release(t, 0);
    for (int i = 0; i < 2 * BUFFERS; i++) {
        float *staged = t->staging[i / BUFFERS][i % BUFFERS];
        if (staged) device->release_host(device, staged);
    }
}

static Tensor buffer_of(const Training *t, int buffer) {
    const Tensor buffers[BUFFERS] = {t->spec.model->weights, t->m, t->v};
    return buffers[buffer];
}

CheckpointBuffers buffers_copy(const Training *t, int slot) {
    const Model *model = t->spec.model;
    float *const *copy = t->staging[slot];
    if (t->spec.device->host_memory)
        return (CheckpointBuffers){&model->params, model->weights.data, t->m.data, t->v.data};
    return (CheckpointBuffers){&model->params, copy[BUFFER_WEIGHTS], copy[BUFFER_M], copy[BUFFER_V]};
}

void buffers_upload(Training *t, int count) {
    Device *device = t->spec.device;
    for (int i = 0; i < count && !device->host_memory; i++) {
        Tensor buffer = buffer_of(t, i);
        device->upload(device, buffer.data, t->staging[0][i], tensor_bytes(buffer));
    }
}

void buffers_derive(Training *t) {
    Model *model = t->spec.model;
    Device *device = t->spec.device;
    if (tensor_given(model->half_weights)) cast(device, model->half_weights, model->weights);
    /* Tells the device AdamW's step, which a run without the loss scale keeps on the host. */
    if (tensor_given(model->loss_scale)) {
        t->state.loss_scale[LOSS_SCALE_DONE] = (float)(t->state.step - t->state.skipped_steps);
        device->upload(device, model->loss_scale.data, t->state.loss_scale, sizeof t->state.loss_scale);
    }
}
