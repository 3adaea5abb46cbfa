/* The memory of the activations is the peak of their arena in a dry run of the largest micro-batch. */
#include <stdio.h>
#include <stdlib.h>

#include "base/format.h"
#include "base/host_memory.h"
#include "model/context.h"
#include "train/gradient_norm.h"
#include "train/plan/memory.h"

/* A dry run of micro-batches and an update, without memory: all addresses are the dry device's. `on` gets the
 * operations: the dry device, or a device that measures without computing. */
typedef struct {
    Model *model;
    Device *dry, *on;
    const Batch *batch;
    PassKind kind;
    StepOptions options;
    int64_t micro_batches;
    bool update;
    size_t activations; /* out: the peak of the arena */
    size_t masks;       /* out: of unused rows */
    size_t sums;        /* out: of the norm */
} DryRun;

static Tensor dry_flat(DryRun *r, DType type) {
    int64_t n = r->model->params.flat_count;
    return tensor_1d(r->dry->allocate(r->dry, (size_t)n * dtype_size(type)), type, n);
}

/* Calls what surrounds the passes of a step: before the first, and, with the squares of the gradients, behind the last.
 */
static void dry_update(DryRun *r, const ParamUpdates *u, GradientNorm *squares) {
    const Model *model = r->model;
    Tensor none = tensor_none(), weights = model->weights, gradients = model->gradients;
    Tensor norm = squares ? tensor_1d(r->dry->allocate(r->dry, 4), DTYPE_F32, 1) : none;
    OWNED Segment *moving = NULL;
    int n_moving = params_moving(&model->params, &moving);
    if (!squares) {
        clear_segments(r->on, gradients, u->cleared, u->n_cleared);
        if (n_moving) copy_segments(r->on, gradients, weights, none, moving, n_moving);
        return;
    }
    AdamWBuffers buffers = {.params = weights, .copy = model->half_weights, .grads = gradients};
    buffers.m = dry_flat(r, DTYPE_F32);
    buffers.v = dry_flat(r, DTYPE_F32);
    gradient_norm_finish(squares, norm, none);
    adamw_update(r->on, buffers, norm, none, u->segments, u->n_adamw, (AdamW){.step = 1});
    for (int i = 0; i < u->n_matrices; i++) muon_update(r->on, buffers, norm, none, u->matrices[i], (Muon){0});
    if (n_moving) copy_segments(r->on, weights, gradients, norm, moving, n_moving);
}

static void dry_passes(DryRun *r, Arena *arena, GradientNorm *squares) {
    Model *model = r->model;
    Tensor fields[BATCH_MAX_FIELDS + 1] = {{0}};
    for (int i = 0; i <= r->batch->n_fields; i++) fields[i] = r->batch->fields[i];
    PassNumbers *numbers = r->dry->allocate(r->dry, sizeof *numbers);
    bool train = r->kind != PASS_VALIDATION;
    Pass pass = {.train = train, .recompute = r->options.recompute, .step = &numbers->step};
    pass.loss_scale = tensor_1d(numbers->loss_scale, DTYPE_F32, model->n_metrics);
    pass.sums = tensor_1d(model->weights.data, DTYPE_F32, model->n_metrics);
    if (!train && model->n_outputs)
        pass.outputs = tensor_2d(model->weights.data, DTYPE_F32, r->batch->n_sequences, model->n_outputs);
    OWNED bool *unwritten = xcalloc((size_t)model->params.count, sizeof *unwritten);
    const Context context = context_of(model, r->on, arena, &pass);
    for (int64_t i = 0; i < r->micro_batches; i++) {
        pass.unwritten = r->kind == PASS_FIRST && !i ? unwritten : NULL;
        pass.finished = squares && i == r->micro_batches - 1 ? gradient_norm_finished : NULL;
        pass.finished_context = squares;
        context_begin(&context);
        model->forward_backward(model, r->on, arena, r->batch, fields, &pass);
        context_end(&context);
    }
}

static void dry_run(void *argument) {
    DryRun *r = argument;
    Model *model = r->model, real = *model;
    Arena arena = arena_open(r->dry, 0, "activations");
    model->weights = dry_flat(r, DTYPE_F32);
    model->gradients = dry_flat(r, DTYPE_F32);
    model->half_weights = r->dry->half == DTYPE_F32 ? tensor_none() : dry_flat(r, r->dry->half);
    ParamUpdates u = params_updates(&model->params, r->dry, 0, r->options.muon);
    GradientNorm squares = gradient_norm_open(r->dry, model->gradients, u.segments, u.n_segments);
    squares.device = r->on;
    if (r->update) dry_update(r, &u, NULL);
    dry_passes(r, &arena, r->update ? &squares : NULL);
    if (r->update) dry_update(r, &u, &squares);
    model->weights = real.weights;
    model->gradients = real.gradients;
    model->half_weights = real.half_weights;
    r->activations = arena.peak;
    r->masks = u.mask_bytes;
    r->sums = tensor_bytes(squares.squares);
    params_updates_free(&u);
    arena_close(&arena);
}

void memory_dry_step(Model *model, Device *dry, const Batch *batch, int64_t micro_batches, StepOptions options) {
    dry_run(&(DryRun){model, dry, dry, batch, PASS_FIRST, options, micro_batches, true, 0, 0, 0});
}

void memory_dry_pass(Model *model, Device *dry, const Batch *batch, PassKind kind, bool recompute) {
    dry_run(&(DryRun){model, dry, dry, batch, kind, {.recompute = recompute}, 1, false, 0, 0, 0});
}

MemoryPlan memory_plan(Model *model, Device *device, DType half, const Batch *train, const Batch *validation,
                       StepOptions options) {
    MemoryPlan plan = {0};
    const Batch *batches[] = {train, validation};
    const void *counted = NULL;
    size_t flat = (size_t)model->params.flat_count * sizeof(float);
    plan.weights = half == DTYPE_F32 ? flat : flat + flat / 2;
    plan.gradients = train ? flat : 0;
    plan.optimizer = train ? 2 * flat : 0;
    Device *dry = dry_device_open();
    dry->half = half;
    for (int i = 0; i < 2; i++) {
        if (!batches[i]) continue;
        DryRun r = {model, dry, dry, batches[i], i ? PASS_VALIDATION : PASS_FIRST, options, 1, i == 0, 0, 0, 0};
        dry_run(&r);
        if (!i) plan.optimizer += r.masks, plan.results += r.sums;
        if (r.activations > plan.activations) plan.activations = r.activations;
        Tensor device_data = batches[i]->fields[batches[i]->n_fields];
        if (tensor_given(device_data) && device_data.data != counted) plan.data += tensor_bytes(device_data);
        counted = device_data.data;
        r.on = device;
        size_t scratch = device && device->measure ? device->measure(device, dry_run, &r) : 0;
        if (scratch > plan.scratch) plan.scratch = scratch;
    }
    device_close(dry);
    return plan;
}

size_t memory_total(const MemoryPlan *plan) {
    return plan->weights + plan->gradients + plan->optimizer + plan->activations + plan->batches + plan->data +
           plan->results + plan->scratch;
}

void memory_print(const MemoryPlan *plan) {
    const struct {
        const char *name;
        size_t bytes;
    } groups[] = {{"weights", plan->weights},         {"gradients", plan->gradients}, {"AdamW", plan->optimizer},
                  {"activations", plan->activations}, {"batch", plan->batches},       {"data", plan->data},
                  {"results", plan->results},         {"scratch", plan->scratch}};
    char text[32];
    printf("[Memory]");
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (groups[i].bytes)
            printf("%s %s %s", i ? " +" : "", groups[i].name, format_bytes((double)groups[i].bytes, text));
    printf(" = %s\n", format_bytes((double)memory_total(plan), text));
}

size_t memory_available(const Device *device) {
    size_t available = device->available ? device->available(device) : host_memory_left().bytes;
    return available > device->headroom ? available - device->headroom : 0;
}

const char *memory_headroom_text(const Device *device, char text[MEMORY_TEXT]) {
    char headroom[32], kept[64] = "";
    HostMemory host = {.bytes = 0};
    if (device->host_memory && !device->available) host = host_memory_left();
    if (device->headroom)
        snprintf(kept, sizeof kept, " (%s more are kept free)", format_bytes((double)device->headroom, headroom));
    snprintf(text, MEMORY_TEXT, "%s%s%s", *host.limit ? " under " : "", host.limit, kept);
    return text;
}

void memory_print_limit(const Device *device) {
    char have[32], why[MEMORY_TEXT];
    if (device->available || !host_memory_left().limit[0]) return;
    printf("[Memory] %s are available%s\n", format_bytes((double)memory_available(device), have),
           memory_headroom_text(device, why));
}
