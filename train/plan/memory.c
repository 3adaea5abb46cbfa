/* The memory of the activations is the peak of their arena in a dry run of the largest micro-batch. */
#include <stdio.h>
#include <stdlib.h>

#include "base/format.h"
#include "base/host_memory.h"
#include "model/context.h"
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
} DryRun;

static void dry_update(DryRun *r, Tensor flat, Tensor half) {
    Tensor norm = tensor_1d(r->dry->allocate(r->dry, 4), DTYPE_F32, 1), none = tensor_none();
    ParamUpdates u = params_updates(&r->model->params, r->dry, 0, r->options.muon);
    AdamWBuffers buffers = {.params = flat, .copy = half, .m = flat, .v = flat, .grads = flat};
    OWNED Segment *moving = NULL;
    int n_moving = params_moving(&r->model->params, &moving);
    clear_segments(r->on, flat, u.cleared, u.n_cleared); /* at the beginning of a step */
    if (n_moving) copy_segments(r->on, flat, flat, none, moving, n_moving);
    global_norm(r->on, norm, flat, none, u.segments, u.n_segments);
    adamw_update(r->on, buffers, norm, none, u.segments, u.n_adamw, (AdamW){.step = 1});
    for (int i = 0; i < u.n_matrices; i++) muon_update(r->on, buffers, norm, none, u.matrices[i], (Muon){0});
    if (n_moving) copy_segments(r->on, flat, flat, norm, moving, n_moving);
    r->masks = u.mask_bytes;
    params_updates_free(&u);
}

static void dry_run(void *argument) {
    DryRun *r = argument;
    Model *model = r->model, real = *model;
    Device *dry = r->dry;
    Arena arena = arena_open(dry, 0, "activations");
    Tensor fields[BATCH_MAX_FIELDS + 1] = {{0}};
    for (int i = 0; i <= r->batch->n_fields; i++) fields[i] = r->batch->fields[i];
    PassNumbers *numbers = dry->allocate(dry, sizeof *numbers);
    bool train = r->kind != PASS_VALIDATION;
    Pass pass = {.train = train, .recompute = r->options.recompute, .step = &numbers->step};
    pass.loss_scale = tensor_1d(numbers->loss_scale, DTYPE_F32, model->n_metrics);
    int64_t n = model->params.flat_count;
    Tensor flat = tensor_1d(dry->allocate(dry, (size_t)n * 4), DTYPE_F32, n);
    pass.sums = tensor_1d(flat.data, DTYPE_F32, model->n_metrics);
    if (!train && model->n_outputs)
        pass.outputs = tensor_2d(flat.data, DTYPE_F32, r->batch->n_sequences, model->n_outputs);
    model->weights = model->gradients = flat;
    model->half_weights = dry->half == DTYPE_F32 ? tensor_none() : tensor_1d(flat.data, dry->half, n);
    OWNED bool *unwritten = xcalloc((size_t)model->params.count, sizeof *unwritten);
    const Context context = context_of(model, r->on, &arena, &pass);
    for (int64_t i = 0; i < r->micro_batches; i++) {
        pass.unwritten = r->kind == PASS_FIRST && !i ? unwritten : NULL;
        context_begin(&context);
        model->forward_backward(model, r->on, &arena, r->batch, fields, &pass);
        context_end(&context);
    }
    if (r->update) dry_update(r, flat, model->half_weights);
    model->weights = real.weights;
    model->gradients = real.gradients;
    model->half_weights = real.half_weights;
    r->activations = arena.peak;
    arena_close(&arena);
}

void memory_dry_step(Model *model, Device *dry, const Batch *batch, int64_t micro_batches, StepOptions options) {
    dry_run(&(DryRun){model, dry, dry, batch, PASS_FIRST, options, micro_batches, true, 0, 0});
}

void memory_dry_pass(Model *model, Device *dry, const Batch *batch, PassKind kind, bool recompute) {
    dry_run(&(DryRun){model, dry, dry, batch, kind, {.recompute = recompute}, 1, false, 0, 0});
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
        DryRun r = {model, dry, dry, batches[i], i ? PASS_VALIDATION : PASS_FIRST, options, 1, i == 0, 0, 0};
        dry_run(&r);
        plan.optimizer += r.masks;
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
