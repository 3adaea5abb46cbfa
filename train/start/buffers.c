#include "train/start/buffers.h"

#include <stdio.h>
#include <string.h>

#include "base/format.h"
#include "train/parallel/ranks.h"
#include "train/plan/fit.h"
#include "train/start/device_data.h"

static Tensor numbers(Device *device, DType type, int64_t n) {
    return tensor_1d(device->allocate(device, (size_t)n * dtype_size(type)), type, n);
}

static Tensor flat_tensor(const Training *t, DType type) {
    return numbers(t->spec.device, type, t->spec.model->params.flat_count);
}

/* Allocates the moments: all of them, or this rank's. */
static void allocate_moments(Training *t) {
    const TrainOptions *o = t->spec.options;
    Device *device = t->spec.device;
    bool bf16 = !strcmp(o->reduce_type, "bf16");
    const ExchangeOptions exchange = {.micro_batches = o->grad_accumulation,
                                      .muon = t->spec.optimizer.muon,
                                      .sharded = !strcmp(o->zero, "1"),
                                      .bucket_mb = o->bucket_mb,
                                      .half = bf16 ? DTYPE_BF16 : DTYPE_F32};
    if (bf16 && ranks_group() && device->half != DTYPE_BF16)
        die_usage("--reduce-type bf16: the %s device has no such type", device->name);
    if (ranks_group()) t->exchange = exchange_open(ranks_group(), device, t->spec.model, &exchange);
    bool parts = t->exchange && t->exchange->sharded;
    int64_t all = t->spec.model->params.flat_count;
    t->m = numbers(device, DTYPE_F32, parts ? shards_m_count(&t->exchange->shards) : all);
    t->v = numbers(device, DTYPE_F32, parts ? shards_v_count(&t->exchange->shards) : all);
    if (!parts) return;
    t->whole_m = xcalloc((size_t)all, sizeof *t->whole_m);
    t->whole_v = xcalloc((size_t)all, sizeof *t->whole_v);
}

/* Allocates a second copy for models whose best checkpoints may come faster than they are written. */
static void allocate_staging(Training *t) {
    enum { SMALL = 1 << 28 }; /* bytes of weights */
    Device *device = t->spec.device;
    size_t bytes = (size_t)t->spec.model->params.flat_count * sizeof(float);
    size_t max_bytes = t->spec.max_staged ? t->spec.max_staged : SMALL;
    int copies = bytes <= max_bytes && !t->inference && !t->whole_m ? 2 : 1;
    int parts = t->inference || t->whole_m ? 1 : BUFFERS;
    if (copies == 1 && t->spec.validation && !device->host_memory && !t->inference)
        printf("[Run] checkpoints of this size wait for the disk: where a new best comes before the last one is "
               "written, so does the training\n");
    for (int i = 0; i < copies * parts && !device->host_memory; i++) {
        t->staging[i / parts][i % parts] = device->allocate_host(device, bytes);
        memset(t->staging[i / parts][i % parts], 0, bytes); /* elements between parameters, too, which ranks compare */
    }
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
        allocate_moments(t);
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
    exchange_close(t->exchange);
    FREE(t->whole_m, t->whole_v);
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
    bool in_place = t->spec.device->host_memory;
    float *const *copy = t->staging[slot];
    return (CheckpointBuffers){&model->params, in_place ? model->weights.data : copy[BUFFER_WEIGHTS],
                               t->whole_m ? t->whole_m
                               : in_place ? t->m.data
                                          : copy[BUFFER_M],
                               t->whole_v ? t->whole_v
                               : in_place ? t->v.data
                                          : copy[BUFFER_V]};
}

void buffers_upload(Training *t, int count) {
    Device *device = t->spec.device;
    if (t->whole_m && count > 1) {
        shards_take(&t->exchange->shards, t->m, t->v, t->whole_m, t->whole_v);
        count = 1;
    }
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
