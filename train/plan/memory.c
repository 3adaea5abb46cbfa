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
    const PassListener *listener; /* NULL: none, of passes without an update */
    bool followed;      /* the counts are of the second of two steps, which finds in the caches what the first left */
    size_t activations; /* out: the peak of the arena */
    size_t masks;       /* out: of unused rows */
    size_t sums;        /* out: of the norm */
} DryRun;

static Tensor dry_flat(DryRun *r, DType type) {
    int64_t n = r->model->params.flat_count;
    return tensor_1d(r->dry->allocate(r->dry, (size_t)n * dtype_size(type)), type, n);
}

/* The buffers that a step updates, and the norm by which it clips. */
typedef struct {
    ParamUpdates updates;
    GradientNorm squares;
    AdamWBuffers buffers; /* none overlap: a followed device tells them apart */
    Tensor norm;
    Segment *moving;
    int n_moving;
} DryUpdate;

static DryUpdate dry_update_open(DryRun *r) {
    const Model *model = r->model;
    DryUpdate u = {.updates = params_updates(&model->params, r->dry, 0, r->options.muon)};
    u.squares = gradient_norm_open(r->dry, model->gradients, u.updates.segments, u.updates.n_segments);
    u.squares.device = r->on;
    u.buffers = (AdamWBuffers){.params = model->weights,
                               .copy = model->half_weights,
                               .m = dry_flat(r, DTYPE_F32),
                               .v = dry_flat(r, DTYPE_F32),
                               .grads = model->gradients};
    u.norm = tensor_1d(r->dry->allocate(r->dry, 4), DTYPE_F32, 1);
    u.n_moving = params_moving(&model->params, &u.moving);
    r->masks = u.updates.mask_bytes;
    r->sums = tensor_bytes(u.squares.squares);
    return u;
}

static void dry_update_close(DryUpdate *u) {
    params_updates_free(&u->updates);
    free(u->moving);
}

static void before_step(DryRun *r, const DryUpdate *u) {
    clear_segments(r->on, u->buffers.grads, u->updates.cleared, u->updates.n_cleared);
    if (u->n_moving) copy_segments(r->on, u->buffers.grads, u->buffers.params, tensor_none(), u->moving, u->n_moving);
}

static void after_step(DryRun *r, DryUpdate *u) {
    Tensor none = tensor_none();
    gradient_norm_finish(&u->squares, u->norm, none);
    adamw_update(r->on, u->buffers, u->norm, none, u->updates.segments, u->updates.n_adamw, (AdamW){.step = 1});
    for (int i = 0; i < u->updates.n_matrices; i++)
        muon_update(r->on, u->buffers, u->norm, none, u->updates.matrices[i], (Muon){0});
    if (u->n_moving) copy_segments(r->on, u->buffers.params, u->buffers.grads, u->norm, u->moving, u->n_moving);
}

static void dry_step(DryRun *r, const Context *context, Pass *pass, const Tensor *fields, DryUpdate *u) {
    OWNED bool *unwritten = xcalloc((size_t)r->model->params.count, sizeof *unwritten);
    if (r->update) before_step(r, u);
    gradient_norm_begin(&u->squares);
    for (int64_t i = 0; i < r->micro_batches; i++) {
        pass->unwritten = r->kind == PASS_FIRST && !i ? unwritten : NULL;
        pass->finished = r->update && i == r->micro_batches - 1 ? gradient_norm_finished : NULL;
        pass->finished_context = &u->squares;
        if (r->listener) {
            pass->finished = r->listener->finished, pass->needed = r->listener->needed;
            pass->finished_context = pass->needed_context = r->listener->context;
        }
        context_begin(context);
        r->model->forward_backward(r->model, r->on, context->arena, r->batch, fields, pass);
        context_end(context);
    }
    if (r->update) after_step(r, u);
}

/* Sets the fields of the batch and the device dataset as they would lie on a device. */
static void dry_fields(DryRun *r, Tensor *fields) {
    const Batch *batch = r->batch;
    int n = batch->n_fields;
    char *memory = r->dry->allocate(r->dry, batch->size);
    for (int i = 0; i <= n; i++) fields[i] = batch->fields[i];
    for (int i = 0; i < n; i++)
        if (fields[i].data) fields[i].data = memory + ((char *)fields[i].data - batch->buffer);
    if (fields[n].data) fields[n].data = r->dry->allocate(r->dry, tensor_bytes(fields[n]));
}

static void dry_run(void *argument) {
    DryRun *r = argument;
    Model *model = r->model, real = *model;
    Device *dry = r->dry;
    Arena arena = arena_open(dry, 0, "activations");
    Tensor fields[BATCH_MAX_FIELDS + 1] = {{0}};
    dry_fields(r, fields);
    PassNumbers *numbers = dry->allocate(dry, sizeof *numbers);
    bool train = r->kind != PASS_VALIDATION;
    Pass pass = {.train = train, .recompute = r->options.recompute, .step = &numbers->step};
    pass.loss_scale = tensor_1d(numbers->loss_scale, DTYPE_F32, model->n_metrics);
    model->weights = dry_flat(r, DTYPE_F32);
    model->gradients = dry_flat(r, DTYPE_F32);
    model->half_weights = dry->half == DTYPE_F32 ? tensor_none() : dry_flat(r, dry->half);
    DryUpdate update = dry_update_open(r);
    pass.sums = tensor_1d(update.buffers.v.data, DTYPE_F32, model->n_metrics);
    if (!train && model->n_outputs)
        pass.outputs = tensor_2d(update.buffers.v.data, DTYPE_F32, r->batch->n_sequences, model->n_outputs);
    const Context context = context_of(model, r->on, &arena, &pass);
    dry_step(r, &context, &pass, fields, &update);
    if (r->followed) {
        device_reset_counters(dry);
        dry_step(r, &context, &pass, fields, &update);
    }
    model->weights = real.weights;
    model->gradients = real.gradients;
    model->half_weights = real.half_weights;
    r->activations = arena.peak;
    dry_update_close(&update);
    arena_close(&arena);
}

void memory_dry_step(Model *model, Device *dry, const Batch *batch, int64_t micro_batches, StepOptions options) {
    dry_run(&(DryRun){.model = model,
                      .dry = dry,
                      .on = dry,
                      .batch = batch,
                      .kind = PASS_FIRST,
                      .options = options,
                      .micro_batches = micro_batches,
                      .update = true,
                      .followed = dry->traffic != NULL});
}

void memory_dry_pass(Model *model, Device *dry, const Batch *batch, PassKind kind, bool recompute) {
    memory_dry_pass_told(model, dry, batch, kind, recompute, NULL);
}

void memory_dry_pass_told(Model *model, Device *dry, const Batch *batch, PassKind kind, bool recompute,
                          const PassListener *listener) {
    dry_run(&(DryRun){.model = model,
                      .dry = dry,
                      .on = dry,
                      .batch = batch,
                      .kind = kind,
                      .options = {.recompute = recompute},
                      .listener = listener,
                      .micro_batches = 1});
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
        DryRun r = {.model = model,
                    .dry = dry,
                    .on = dry,
                    .batch = batches[i],
                    .kind = i ? PASS_VALIDATION : PASS_FIRST,
                    .options = options,
                    .micro_batches = 1,
                    .update = i == 0};
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
