#include "estimate/estimate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/parallel/reduce.h"
#include "train/plan/plan.h"
#include "train/stream.h"

/* ---- the work of a run ---- */

/* The shape of a micro-batch, which decides its operations: its sequences and the sizes of its fields. */
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

/* Adds a micro-batch to the work of first ones, and to that of later ones. */
static void add_each(SharedWork *each, Device *const *dry, const Batch *batch) {
    work_add_counters(&each->first, dry[PASS_FIRST], 1);
    work_add_counters(&each->later, dry[PASS_LATER], 1);
    work_add_batch(&each->first, batch);
    work_add_batch(&each->later, batch);
}

/* Sums the work of one epoch: sends each micro-batch of the loader through a dry device, unless it has the shape of the
 * one before. times: how often each kind of pass counts for a micro-batch. each: also sums the kinds of training apart,
 * unless it is NULL. */
static Work epoch_work(const TrainSpec *spec, const Dataset *dataset, LoaderOptions options, const double *times,
                       SharedWork *each) {
    const TrainOptions *o = spec->options;
    Work work = {0};
    Shape shape = {0};
    Device *dry[PASS_VALIDATION + 1];
    for (int kind = 0; kind <= PASS_VALIDATION; kind++) {
        dry[kind] = dry_device_open();
        dry[kind]->half = o->amp ? spec->device->half : DTYPE_F32;
    }
    options.one_epoch = true;
    Loader *loader = loader_open(dataset, &options);
    for (const Batch *batch; (batch = loader_next(loader));) {
        bool same = same_shape(&shape, batch);
        for (int kind = 0; kind <= PASS_VALIDATION; kind++) {
            if (!same) device_reset_counters(dry[kind]);
            if (!same && (times[kind] > 0 || (each && kind != PASS_VALIDATION)))
                memory_dry_pass(spec->model, dry[kind], batch, kind, kind != PASS_VALIDATION && o->grad_checkpointing);
            work_add_counters(&work, dry[kind], times[kind]);
        }
        work_add_batch(&work, batch);
        if (each) add_each(each, dry, batch);
    }
    loader_close(loader);
    for (int kind = 0; kind <= PASS_VALIDATION; kind++) device_close(dry[kind]);
    free(shape.key);
    return work;
}

/* Adds what a step does once, so many times: clears the gradients, takes their norm, updates the weights. */
static void add_update(const TrainSpec *spec, Work *work, double times) {
    Device *dry = dry_device_open();
    Batch none = {0};
    dry->half = spec->options->amp ? spec->device->half : DTYPE_F32;
    memory_dry_step(spec->model, dry, &none, 0, train_step_options(spec, spec->options));
    work_add_counters(work, dry, times);
    device_close(dry);
}

/* Follows a step of a typical micro-batch: the first, or nearly the first, whose rows are close to the mean. The
 * operations of a validation are taken to do as those of training. */
static void follow(const TrainSpec *spec, LoaderOptions options, RunWork *run) {
    double mean = run->epoch_tokens / run->epoch_batches;
    int64_t left = run->epoch_batches < 8 ? (int64_t)run->epoch_batches : 8;
    options.one_epoch = true;
    Loader *loader = loader_open(spec->train, &options);
    for (bool followed = false; !followed; left--) {
        const Batch *batch = loader_next(loader);
        followed = left == 1 || fabs((double)batch->n_tokens - mean) < 0.1 * mean;
        if (!followed) continue;
        PassKind last = spec->options->grad_accumulation > run->ranks ? PASS_LATER : PASS_FIRST;
        train_follow(spec, batch, &run->step);
        if (run->ranks > 1) run->shared.buckets = buckets_record(spec, batch, run->ranks, last);
    }
    loader_close(loader);
    for (int op = 0; op < OP_COUNT; op++) run->validation.ops[op].traffic = run->step.ops[op].traffic;
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

/* Counts validations, and checkpoints if every validation is the best so far. The last step does both;
 * steps that end an epoch and are due for a checkpoint besides count twice. */
static void count_pauses(const TrainSpec *spec, RunWork *run) {
    const TrainOptions *o = spec->options;
    int64_t n = run->steps, each = o->val_interval, save = o->save_interval;
    int64_t batches = (int64_t)run->epoch_batches, due = multiples(n, save), last = save && n % save == 0;
    if (!n) return;
    run->checkpoints = due + !last;
    if (!spec->validation) return;
    run->validations = each ? (n + each - 1) / each : (n * o->grad_accumulation + batches - 1) / batches;
    if (run->validations > n) run->validations = n;
    int64_t both = each ? multiples(n, save ? common_multiple(each, save) : 0) + (n % each && last) : last;
    run->checkpoints = run->validations + due - both;
}

/* Plans the memory of a rank, whose flat buffers have room for whole pieces of all. */
static MemoryPlan plan_of_rank(const TrainSpec *spec) {
    int64_t *count = &spec->model->params.flat_count, flat = *count;
    int ranks = train_ranks(spec->options);
    if (ranks > 1) *count = reducer_room(flat, ranks);
    MemoryPlan plan = train_plan(spec);
    *count = flat;
    return plan;
}

static RunWork run_work(const TrainSpec *spec) {
    const TrainOptions *o = spec->options;
    LoaderOptions options = train_loader_options(o, NULL);
    options.drop_last = spec->batch.drop_last;
    RunWork run = {.ranks = train_ranks(o), .memory = plan_of_rank(spec)};
    run.divided = run.ranks > 1 && !strcmp(o->zero, "1");
    run.steps = spec->synthetic ? o->max_steps : train_steps(spec, &options, o->epochs);
    SharedWork *each = run.ranks > 1 ? &run.shared : NULL;
    const double g = (double)o->grad_accumulation / run.ranks, of_step[] = {1 / g, 1 - 1 / g, 0},
                 of_validation[] = {0, 0, 1};
    run.step = epoch_work(spec, spec->train, options, of_step, each);
    run.epoch_batches = run.step.micro_batches;
    run.epoch_samples = run.step.sequences;
    run.epoch_tokens = run.step.tokens;
    work_scale(&run.step, g / run.epoch_batches);
    add_update(spec, &run.step, run.divided ? 1.0 / run.ranks : 1);
    if (each) {
        work_scale(&each->first, 1 / run.epoch_batches);
        work_scale(&each->later, 1 / run.epoch_batches);
        add_update(spec, &each->update, 1);
    }
    if (spec->validation)
        run.validation = epoch_work(spec, spec->validation, validation_loader_options(o), of_validation, NULL);
    follow(spec, options, &run);
    count_pauses(spec, &run);
    run.checkpoint_bytes = 3 * 4 * (double)spec->model->params.flat_count;
    return run;
}

/* ---- a run on a card ---- */

const CardPrice *estimate_price(const PriceList *prices, const Card *card, int cards) {
    const CardPrice *one = price_list_find(prices, card);
    if (cards == 1 || !prices->by_card) return one;
    CardPrice all = *one;
    all.price.per_hour *= cards;
    return xkeep(&all, sizeof all);
}

/* Sets what a step takes that several cards share, and what of a validation each has. */
static void share(const TrainSpec *spec, RunTime *run) {
    const RunWork *work = run->work;
    double batches = work->validation.micro_batches;
    run->shared = shared_time(spec, &run->machine, &work->shared, &work->step, (double)memory_total(&work->memory));
    run->step.seconds = run->shared.time.step;
    run->step.mfu = run->step.flops / run->step.seconds / machine_peak_flops(&run->machine);
    if (run->step.bound <= BY_LAUNCHES && timeline_exposed(&run->shared.time) > run->step.parts[run->step.bound])
        run->step.bound = BY_EXCHANGE;
    if (batches > 0) run->validation.seconds *= ceil(batches / work->ranks) / batches;
}

/* *work must live as long as the result. */
static RunTime run_on(const TrainSpec *spec, const RunWork *work, const Machine *machine) {
    RunTime run = {.machine = *machine, .work = work, .available = machine->available};
    if (work->ranks > 1) run.machine.workers = machine->workers > work->ranks ? machine->workers / work->ranks : 1;
    spec->device->half = card_half(machine->card);
    run.step = cost_of_work(&run.machine, &work->step);
    run.validation = cost_of_work(&run.machine, &work->validation);
    if (work->ranks > 1) share(spec, &run);
    run.steps_seconds = (double)work->steps * run.step.seconds;
    run.validation_seconds = (double)work->validations * run.validation.seconds;
    /* The training waits while weights and moments are copied, and for the previous checkpoint, if that is
     * still being written. */
    double saves = (double)work->checkpoints, copy = work->checkpoint_bytes / machine_copy_rate(machine);
    double between = saves > 0 ? (run.steps_seconds + run.validation_seconds) / saves : 0;
    double write = work->checkpoint_bytes / cost_disk_rate - between;
    run.checkpoint_seconds = saves * (copy + (write > 0 ? write : 0));
    run.seconds = run.steps_seconds + run.validation_seconds + run.checkpoint_seconds;
    run.fits = (double)memory_total(&work->memory) <= run.available;
    if (!run.fits) run.changes = sizing_changes(spec, (size_t)run.available);
    return run;
}

/* Chooses the cards of --gpus auto, and whether they divide the optimizer's state. Returns how, without ways if only
 * one card can take the step. */
static SharedTime choose_cards(const TrainSpec *spec, TrainOptions *o, const Machine *machine) {
    o->planned_ranks = shared_most(o);
    if (o->planned_ranks == 1) return (SharedTime){.scaling = 1};
    RunWork work = run_work(spec);
    RunTime run = run_on(spec, &work, machine);
    const Advice *advice = &run.shared.advice;
    o->planned_ranks = advice->ways[advice->chosen].sharing.ranks;
    o->zero = advice->ways[advice->chosen].sharing.divided ? "1" : "0";
    buckets_free(&work.shared.buckets);
    return run.shared;
}

static bool same_work(const RunTime *a, const TrainOptions *o, const BatchChoice *batch) {
    return a->batch.size == batch->size && a->work->ranks == train_ranks(o) &&
           (train_ranks(o) == 1 || a->work->divided == !strcmp(o->zero, "1"));
}

/* Computes the work once for each size of micro-batch and number of cards. */
void estimate_runs(const TrainSpec *spec, const Machine *machines, int n, RunWork *work, RunTime *times) {
    KnownSizes known = {.n = 0};
    for (int i = 0; i < n; i++) {
        BatchChoice batch = {0};
        int same = 0;
        const Card *card = machines[i].card;
        spec->device->half = card_half(card);
        spec->device->host_memory = !card->capability;
        if (spec->options->auto_batch)
            batch = sizing_choose_batch(spec, spec->options->amp ? spec->device->half : DTYPE_F32,
                                        (size_t)machines[i].available, &known);
        TrainOptions o = *spec->options;
        TrainSpec planned = *spec;
        planned.options = &o;
        SharedTime chosen = {.scaling = 1};
        if (shared_is_automatic(&o)) chosen = choose_cards(&planned, &o, &machines[i]);
        while (same < i && !same_work(&times[same], &o, &batch)) same++;
        work[i] = same == i ? run_work(&planned) : (RunWork){0};
        times[i] = run_on(&planned, &work[same], &machines[i]);
        times[i].batch = batch;
        times[i].price = estimate_price(&spec->options->prices, card, work[same].ranks);
        if (work[same].ranks == 1) times[i].shared = chosen;
        if (shared_is_automatic(&o)) times[i].shared.advice = chosen.advice;
    }
    for (int i = 0; i < n; i++) buckets_free(&work[i].shared.buckets);
}
