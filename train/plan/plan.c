#include "train/plan/plan.h"

#include <string.h>

#include "train/parallel/exchange.h"
#include "train/parallel/ranks.h"
#include "train/pass.h"
#include "train/stream.h"

DType train_half(const TrainSpec *spec) { return spec->options->amp ? spec->device->half : DTYPE_F32; }

int train_ranks(const TrainOptions *o) { return o->planned_ranks ? o->planned_ranks : ranks_count(); }

int64_t train_min_samples(const TrainSpec *spec) { return spec->batch.min_samples ? spec->batch.min_samples : 1; }

/* The subject of a plan: a run, or inference only. */
typedef struct {
    const TrainSpec *spec;
    const TrainOptions *options;
    const Dataset *train, *validation; /* either may be NULL */
} PlanRequest;

/* A device with memory of its own holds a batch of the largest size. A device that reads host memory uses the loaders'
 * buffers. The results are what the loop keeps on the device besides
 * the model: see open_results, validation_open and passes_open. */
static void plan_batches(const PlanRequest *r, MemoryPlan *plan) {
    const TrainSpec *spec = r->spec;
    const TrainOptions *o = r->options;
    const Model *model = spec->model;
    LoaderOptions train = train_loader_options(o, NULL), validation = validation_loader_options(o);
    bool host_memory = spec->device->host_memory;
    int n = model->n_metrics, sequences = 0, val_sequences = 0;
    size_t bytes = r->train ? loader_batch_bytes(r->train, &train, &sequences) : 0;
    size_t val_bytes = r->validation ? loader_batch_bytes(r->validation, &validation, &val_sequences) : 0;
    if (val_bytes > bytes) bytes = val_bytes;
    if (val_sequences > sequences) sequences = val_sequences;
    plan->batches = passes_batch_bytes(spec->device, model, bytes);
    if (host_memory)
        plan->batches = (r->train ? loader_planned_bytes(r->train, &train) : 0) +
                        (r->validation ? loader_planned_bytes(r->validation, &validation) : 0);
    plan->results += (size_t)(n + sequences * model->n_outputs) * sizeof(float);
    if (!r->train) return;
    int64_t row = 1 + o->grad_accumulation * n;
    int64_t numbers = ((host_memory ? 1 : TRAIN_MAX_QUEUED) + 1) * row + 1;
    if (train_ranks(o) > 1) numbers += 1 + exchange_facts_count(o->grad_accumulation, train_ranks(o));
    if (r->validation) numbers += loader_epoch_batches(r->validation, &validation, 0) * n;
    if (r->validation && spec->selection.evaluate)
        numbers += validation_samples(r->validation, &validation) * model->n_outputs;
    plan->results += (size_t)numbers * sizeof(float);
}

/* Returns a batch that dominates all batches of the data set, with the device dataset after its fields. */
static Batch largest_batch(const TrainSpec *spec, const Dataset *dataset, int64_t batch_size, int64_t token_budget) {
    Batch batch = spec->batch.largest(dataset, batch_size, token_budget);
    batch.fields[batch.n_fields] = dataset->device_data;
    return batch;
}

Batch train_largest_batch(const TrainSpec *spec, const TrainOptions *o) {
    return largest_batch(spec, spec->train, o->batch_size, o->token_budget);
}

StepOptions train_step_options(const TrainSpec *spec, const TrainOptions *o) {
    return (StepOptions){.recompute = o->grad_checkpointing, .muon = spec->optimizer.muon};
}

/* Gives a batch the shapes that it has on the device, with padding. */
static void pad_batch(const TrainSpec *spec, Batch *batch) {
    if (!passes_pad(spec->device, spec->model)) return;
    Batch padded = batch_open(batch_padded_bytes(batch->size), 0);
    batch_pad(&padded, batch, spec->model->pads, true);
    batch_close(batch);
    *batch = padded;
}

/* Leaves of the moments what a rank has of them if they are divided: of Muon's, besides equal shares, at most the
 * largest matrix. */
static void divide_moments(const PlanRequest *r, MemoryPlan *plan) {
    const ParamTable *table = &r->spec->model->params;
    size_t ranks = (size_t)train_ranks(r->options), all = 2 * sizeof(float) * (size_t)table->flat_count, matrices = 0,
           largest = 0;
    if (ranks == 1 || strcmp(r->options->zero, "1") != 0) return;
    for (int i = 0; i < table->count && r->spec->optimizer.muon; i++) {
        size_t bytes = table->items[i].matrices ? sizeof(float) * (size_t)table->items[i].count : 0;
        matrices += bytes;
        if (bytes > largest) largest = bytes;
    }
    plan->optimizer -= all - all / ranks - matrices / ranks - largest;
}

static MemoryPlan plan_of(const PlanRequest *r, DType half) {
    const TrainSpec *spec = r->spec;
    Batch train, validation;
    if (r->train) train = train_largest_batch(spec, r->options);
    if (r->validation) validation = largest_batch(spec, r->validation, r->options->val_batch_size, 0);
    if (r->train) pad_batch(spec, &train);
    MemoryPlan plan = memory_plan(spec->model, spec->device, half, r->train ? &train : NULL,
                                  r->validation ? &validation : NULL, train_step_options(spec, r->options));
    if (r->train) batch_close(&train);
    if (r->validation) batch_close(&validation);
    plan.scratch += spec->device->allocated;
    if (r->train) divide_moments(r, &plan);
    plan_batches(r, &plan);
    if (half == DTYPE_F16 && r->train) plan.results += LOSS_SCALE_FIELDS * sizeof(float);
    return plan;
}

MemoryPlan train_plan_of(const TrainSpec *spec, const TrainOptions *options, DType half) {
    return plan_of(&(PlanRequest){spec, options, spec->train, spec->validation}, half);
}

MemoryPlan train_plan(const TrainSpec *spec) { return train_plan_of(spec, spec->options, train_half(spec)); }

MemoryPlan train_plan_inference(const TrainSpec *spec) {
    const Dataset *dataset = spec->validation ? spec->validation : spec->train;
    return plan_of(&(PlanRequest){spec, spec->options, NULL, dataset}, train_half(spec));
}

/* Memory that the device has already taken counts as part of the plan, but is not available any more. The same holds
 * for data that the device reads in place. */
size_t train_to_allocate(const TrainSpec *spec, const MemoryPlan *plan) {
    const Device *device = spec->device;
    size_t total = memory_total(plan), there = device->allocated + (device->host_memory ? plan->data : 0);
    return total > there ? total - there : 0;
}

void train_follow(const TrainSpec *spec, const Batch *batch, Work *work) {
    const TrainOptions *o = spec->options;
    Device *dry = dry_device_open();
    dry->half = train_half(spec);
    device_follow(dry);
    int64_t micro_batches = o->grad_accumulation / train_ranks(o) < 2 ? 1 : 2; /* the first, and one for all others */
    memory_dry_step(spec->model, dry, batch, micro_batches, train_step_options(spec, o));
    work_follow(work, dry);
    xkeep(&dry, sizeof dry);
}
