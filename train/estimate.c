#include "train/estimate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/ops_table.h"

/* Attention on the tensor cores reaches about half of what matrix products do: assumed, as of FlashAttention-2 (Dao
 * 2023) on an A100 with sequences of some hundred rows. */
static const double of_attention = 0.5;

static const double pcie_share = 0.8;  /* of a copy from pinned memory: assumed */
const double estimate_disk_rate = 1e9; /* bytes/s of a checkpoint: assumed */
/* bytes/s of batches that a worker fills: measured on a busy machine of two cores with its files in memory, 0.6e9 of
 * PSD pretraining, 1.4e9 of the TTS GPT's. */
const double estimate_loader_rate = 0.6e9;

const char *const bound_names[] = {"compute", "memory", "launches", "copy", "loader"};

const char *estimate_op_name(int op) {
    return op == ESTIMATE_CLEAR ? "clear gradients" : op < OP_COUNT ? op_names[op] : "";
}

/* ---- the time of an operation, and of all ---- */

NumberType machine_numbers(const Machine *m) {
    return m->half != DTYPE_F32 ? NUMBERS_16_BITS : m->tf32 && m->card->tf32 > 0 ? NUMBERS_TF32 : NUMBERS_F32;
}

double estimate_peak(const Machine *m) {
    const double rates[NUMBER_TYPES] = {m->card->f32, m->card->tf32, m->card->half};
    return rates[machine_numbers(m)];
}

/* FLOP/s that an operation has been measured to reach in calls of so many FLOPs and bytes; 0: it has not. */
static double measured(const Machine *m, int op, double flops, double bytes) {
    if (!m->rates) return 0;
    NumberType type = machine_numbers(m);
    const Curve(*by_type)[CURVES] = m->rates->flops[work_kind(op)];
    if (type == NUMBERS_TF32 && !by_type[type][0].n) type = NUMBERS_F32; /* which matters for products only */
    return curves_at(by_type[type], flops, bytes);
}

/* bytes/s of copies from the host. */
static double copy_rate(const Machine *m) {
    if (!m->rates) return pcie_share * m->card->pcie;
    return m->rates->copy > 0 ? m->rates->copy : INFINITY;
}

/* FLOP/s that an operation sustains: products on the tensor cores if their type allows, all else by FMAs in f32. */
static double sustained(const Machine *m, int op) {
    const Card *card = m->card;
    double f32 = card->of_f32 * card->f32;
    switch (work_kind(op)) {
    case WORK_PRODUCT:
    case WORK_PRODUCT_BACKWARD:
    case WORK_GELU_PRODUCT:
    case WORK_GELU_PRODUCT_BACKWARD:
    case WORK_CONVOLUTION:
    case WORK_CONVOLUTION_BACKWARD:
        return machine_numbers(m) == NUMBERS_F32 ? f32 : card->of_tensor * estimate_peak(m);
    case WORK_STEM: /* in TF32 there is none, nor any for Volta's tensor cores */
    case WORK_STEM_BACKWARD:
        return m->half == DTYPE_F32 || card->capability < 75 ? f32 : card->of_tensor * card->half;
    case WORK_ATTENTION:
    case WORK_ATTENTION_BACKWARD: /* the same */
        return of_attention * (m->half == DTYPE_F32 || card->capability < 75 ? f32 : card->of_tensor * card->half);
    default:
        return f32;
    }
}

static void add_calls(OpWork *work, int size, CallWork calls, double times) {
    CallWork *to[] = {&work->all, &work->sizes[size]};
    for (int i = 0; i < 2; i++) {
        to[i]->calls += times * calls.calls;
        to[i]->flops += times * calls.flops;
        to[i]->bytes += times * calls.bytes;
    }
}

void op_work_add(OpWork *work, CallWork calls) {
    add_calls(work, call_size(calls.flops / calls.calls, calls.bytes / calls.calls), calls, 1);
}

OpTime estimate_op(const Machine *m, int op, const OpWork *work) {
    OpTime t = {.launches = work->all.calls * op_kernels(op) * (m->rates ? m->rates->launch : m->card->launch)};
    for (int i = 0; i < CALL_SIZES; i++) {
        const CallWork *w = &work->sizes[i];
        if (!(w->calls > 0)) continue;
        double rate = measured(m, op, w->flops / w->calls, w->bytes / w->calls);
        double bandwidth =
            m->rates ? curve_at(&m->rates->bytes, w->bytes / w->calls) : m->card->of_bandwidth * m->card->bandwidth;
        double compute = w->flops / (rate > 0 ? rate : sustained(m, op)), memory = w->bytes / bandwidth;
        t.compute += compute;
        t.memory += memory;
        t.seconds += compute > memory ? compute : memory;
    }
    t.bound = t.launches > t.seconds ? BY_LAUNCHES : t.compute > t.memory ? BY_COMPUTE : BY_MEMORY;
    t.seconds += t.launches;
    return t;
}

WorkTime estimate_work(const Machine *m, const Work *work) {
    WorkTime t = {.copy = work->batch_bytes / copy_rate(m),
                  .loader = work->batch_bytes / (estimate_loader_rate * m->workers)};
    for (int op = 0; op < ESTIMATE_OPS; op++) {
        OpTime *o = &t.ops[op];
        *o = estimate_op(m, op, &work->ops[op]);
        t.parts[o->compute > o->memory ? BY_COMPUTE : BY_MEMORY] += o->seconds - o->launches;
        t.parts[BY_LAUNCHES] += o->launches;
        t.flops += work->ops[op].all.flops;
        t.seconds += o->seconds;
    }
    for (int b = BY_MEMORY; b <= BY_LAUNCHES; b++)
        if (t.parts[b] > t.parts[t.bound]) t.bound = (Bound)b;
    if (t.copy > t.seconds) t.seconds = t.copy, t.bound = BY_COPY;
    if (t.loader > t.seconds) t.seconds = t.loader, t.bound = BY_LOADER;
    t.mfu = t.seconds > 0 ? t.flops / t.seconds / estimate_peak(m) : 0;
    return t;
}

double estimate_floor(const Machine *m, const Work *work) {
    Card card = *m->card;
    Machine stated = {.card = &card, .half = m->half, .tf32 = m->tf32, .workers = m->workers};
    double seconds = 0;
    card.of_bandwidth = 1;
    card.launch = 0;
    if (card.capability < 75) card.capability = 75; /* Volta's tensor cores too, which our attention leaves idle */
    for (int op = 0; op < ESTIMATE_OPS; op++) {
        bool attention = work_kind(op) == WORK_ATTENTION || work_kind(op) == WORK_ATTENTION_BACKWARD;
        card.of_tensor = card.of_f32 = attention ? 1 / of_attention : 1;
        seconds += estimate_op(&stated, op, &work->ops[op]).seconds;
    }
    return seconds;
}

/* ---- the work of a run ---- */

/* All that decides a micro-batch's operations: its sequences, and the sizes of its fields. */
typedef struct {
    int64_t *key;
    size_t size;
} Shape;

static bool same_shape(Shape *shape, const Batch *batch) {
    size_t n = (size_t)batch->n_fields, lengths = (size_t)batch->fields[BATCH_OFFSETS].dims[0];
    const int32_t *offsets = batch->fields[BATCH_OFFSETS].data;
    size_t size = (1 + 2 * n + lengths) * sizeof(int64_t), at = 0;
    int64_t *key = xcalloc(1, size);
    key[at++] = (int64_t)n;
    for (size_t i = 0; i < n; i++)
        for (int d = 0; d < 2; d++) key[at++] = batch->fields[i].data ? batch->fields[i].dims[d] : 0;
    for (size_t i = 0; i < lengths && offsets; i++) key[at++] = offsets[i];
    bool same = shape->key && size == shape->size && !memcmp(key, shape->key, size);
    free(shape->key);
    *shape = (Shape){key, size};
    return same;
}

void work_add_counters(Work *work, const Device *device, int times) {
    for (int op = 0; op < OP_COUNT; op++)
        for (int i = 0; i < CALL_SIZES; i++) add_calls(&work->ops[op], i, device->counters[op].sizes[i], times);
}

void work_add_batch(Work *work, const Batch *batch) {
    work->micro_batches++;
    work->sequences += batch->n_sequences;
    work->tokens += (double)batch->n_tokens;
    work->batch_bytes += (double)batch->size;
}

/* One epoch of what the loader delivers, each micro-batch through the dry device unless it is as the one before. */
static Work epoch_work(const Training *t, const Dataset *dataset, LoaderOptions options, bool train) {
    const TrainOptions *o = t->options;
    Work work = {0};
    Shape shape = {0};
    Device *dry = dry_device_open();
    dry->half = o->amp ? t->device->half : DTYPE_F32;
    options.one_epoch = true;
    Loader *loader = loader_open(dataset, &options);
    for (const Batch *batch; (batch = loader_next(loader));) {
        if (!same_shape(&shape, batch)) {
            device_reset_counters(dry);
            rehearse_pass(t->model, dry, batch, train, train && o->grad_checkpointing);
        }
        work_add_counters(&work, dry, 1);
        work_add_batch(&work, batch);
    }
    loader_close(loader);
    device_close(dry);
    free(shape.key);
    return work;
}

static void scale_work(Work *work, double by) {
    for (int op = 0; op < ESTIMATE_OPS; op++) {
        OpWork scaled = {0};
        for (int i = 0; i < CALL_SIZES; i++) add_calls(&scaled, i, work->ops[op].sizes[i], by);
        work->ops[op] = scaled;
    }
    work->micro_batches *= by;
    work->sequences *= by;
    work->tokens *= by;
    work->batch_bytes *= by;
}

/* What a step does once: the gradients to zero, their norm, AdamW. */
static void add_update(const Training *t, Work *work) {
    Device *dry = dry_device_open();
    Batch none = {0};
    dry->half = t->options->amp ? t->device->half : DTYPE_F32;
    rehearse_step(t->model, dry, &none, 0, false);
    work_add_counters(work, dry, 1);
    op_work_add(&work->ops[ESTIMATE_CLEAR], (CallWork){1, 0, (double)t->model->params.flat_count * sizeof(float)});
    device_close(dry);
}

static int64_t multiples(int64_t steps, int64_t of) { return of ? steps / of : 0; }

static int64_t common_multiple(int64_t a, int64_t b) {
    int64_t x = a, y = b;
    while (y) {
        int64_t rest = x % y;
        x = y;
        y = rest;
    }
    return x ? a / x * b : 0;
}

/* How often the run validates, and how often it saves if every validation is the best so far. The last step does both;
 * steps that end an epoch and are due for a checkpoint besides count twice. */
static void count_pauses(const Training *t, RunWork *run) {
    const TrainOptions *o = t->options;
    int64_t n = run->steps, each = o->val_interval, save = o->save_interval;
    int64_t batches = (int64_t)run->epoch_batches, due = multiples(n, save), last = save && n % save == 0;
    if (!n) return;
    run->checkpoints = due + !last;
    if (!t->validation) return;
    run->validations = each ? (n + each - 1) / each : (n * o->grad_accumulation + batches - 1) / batches;
    if (run->validations > n) run->validations = n;
    int64_t both = each ? multiples(n, save ? common_multiple(each, save) : 0) + (n % each && last) : last;
    run->checkpoints = run->validations + due - both;
}

RunWork estimate_run_work(Training *t) {
    const TrainOptions *o = t->options;
    LoaderOptions options = train_loader_options(o, NULL);
    options.drop_last = t->drop_last;
    RunWork run = {.memory = train_plan(t)};
    run.steps = t->typical ? o->max_steps : train_steps(t, &options);
    run.step = epoch_work(t, t->train, options, true);
    run.epoch_batches = run.step.micro_batches;
    run.epoch_samples = run.step.sequences;
    run.epoch_tokens = run.step.tokens;
    scale_work(&run.step, (double)o->grad_accumulation / run.epoch_batches);
    add_update(t, &run.step);
    if (t->validation) run.validation = epoch_work(t, t->validation, validation_loader_options(o), false);
    count_pauses(t, &run);
    run.checkpoint_bytes = 3 * 4 * (double)t->model->params.flat_count;
    return run;
}

/* ---- a run on a card ---- */

double estimate_available(const Card *card) {
    return card->memory - (card->capability ? (double)(CARD_LOADED + CARD_KEPT) : 0);
}

RunTime estimate_run(Training *t, const RunWork *work, const Machine *machine) {
    const Card *card = machine->card;
    RunTime run = {.machine = *machine, .work = work, .available = estimate_available(card)};
    t->device->half = card_half(card);
    run.step = estimate_work(&run.machine, &work->step);
    run.validation = estimate_work(&run.machine, &work->validation);
    run.steps_seconds = (double)work->steps * run.step.seconds;
    run.validation_seconds = (double)work->validations * run.validation.seconds;
    /* Weights and moments are copied while the training waits; it also waits for the checkpoint before, if that is
     * still being written. */
    double saves = (double)work->checkpoints, copy = work->checkpoint_bytes / copy_rate(machine);
    double between = saves > 0 ? (run.steps_seconds + run.validation_seconds) / saves : 0;
    double write = work->checkpoint_bytes / estimate_disk_rate - between;
    run.checkpoint_seconds = saves * (copy + (write > 0 ? write : 0));
    run.seconds = run.steps_seconds + run.validation_seconds + run.checkpoint_seconds;
    run.fits = (double)memory_total(&work->memory) <= run.available;
    if (!run.fits) run.changes = train_changes(t, (size_t)run.available);
    return run;
}

/* On each card with the micro-batches that fit there, if they are left open; work[n] is made but once for each size. */
static void estimate_all(Training *t, const Machine *machines, int n, RunWork *work, RunTime *times) {
    const TrainOptions *o = t->options;
    KnownSizes known = {.n = 0};
    for (int i = 0; i < n; i++) {
        BatchChoice batch = {0};
        int same = 0;
        const Card *card = machines[i].card;
        t->device->half = card_half(card);
        t->device->host_memory = !card->capability;
        if (o->auto_batch)
            batch =
                train_choose_batch(t, o->amp ? t->device->half : DTYPE_F32, (size_t)estimate_available(card), &known);
        while (same < i && times[same].batch.size != batch.size) same++;
        if (same == i) work[i] = estimate_run_work(t);
        times[i] = estimate_run(t, &work[same], &machines[i]);
        times[i].batch = batch;
    }
}

void train_estimate(Training *t) {
    const TrainOptions *o = t->options;
    int n;
    Machine *machines = estimate_machines(o, &n);
    RunWork *work = xcalloc((size_t)n, sizeof *work);
    RunTime *times = xcalloc((size_t)n, sizeof *times);
    estimate_all(t, machines, n, work, times);
    if (o->json) {
        char *text = estimate_json(t, times, n);
        if (dprintf(o->json_file, "%s\n", text) < 0) die("--json: cannot write to stdout");
        free(text);
    } else {
        estimate_print(t, times, n);
    }
    free(times);
    free(machines);
    free(work);
}

Device *train_device_open(const TrainOptions *o, const char **why) {
    *why = NULL;
    if (!o->estimate) return device_open(o->device, (int)o->threads, o->no_tf32, why);
    return dry_device_open();
}
