/* A pass is queued without waiting for it. Two batches with fields of the same address and size, and with as many
 * sequences, differ only in numbers in the device's memory, so the device may repeat what it recorded for the first.
 * Therefore results are always written to the same place, and copied from there to their destination. */
#include "train/pass.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "base/program.h"
#include "model/context.h"
#include "train/plan/memory.h"
#include "train/start/device_data.h"
#include "train/stream.h"

bool passes_pad(const Device *device, const Model *model) { return model->pads && !device->host_memory; }

static size_t numbers_bytes(const ParamTable *params) {
    size_t bytes = sizeof(StepNumbers) + (size_t)params_n_groups(params) * sizeof(float);
    return (bytes + BATCH_LINE - 1) / BATCH_LINE * BATCH_LINE;
}

size_t passes_batch_bytes(const Device *device, const Model *model, size_t bytes) {
    return numbers_bytes(&model->params) + (passes_pad(device, model) ? batch_padded_bytes(bytes) : bytes);
}

Passes passes_open(Training *t, size_t batch_bytes, int sequences) {
    Device *device = t->spec.device;
    const Model *model = t->spec.model;
    size_t sums = (size_t)model->n_metrics * sizeof(float), outputs = (size_t)(sequences * model->n_outputs) * 4;
    size_t numbers = numbers_bytes(&model->params);
    Passes p = {.t = t, .batch_bytes = passes_batch_bytes(device, model, batch_bytes), .numbers_bytes = numbers};
    if (passes_pad(device, model)) p.padded = batch_open(p.batch_bytes - numbers, 0);
    for (int f = 0; f < BATCH_MAX_FIELDS && model->pads; f++) p.ragged |= model->pads[f].kind != PAD_NOT;
    p.unwritten = xcalloc((size_t)model->params.count, sizeof *p.unwritten);
    p.numbers = xcalloc(1, numbers);
    p.sums = tensor_1d(device->allocate(device, sums), DTYPE_F32, model->n_metrics);
    if (outputs) p.outputs = tensor_2d(device->allocate(device, outputs), DTYPE_F32, sequences, model->n_outputs);
    p.key =
        xcalloc(1, (size_t)(7 + 3 * (BATCH_MAX_FIELDS + 1)) * sizeof *p.key + batch_bytes); /* the offsets are in it */
    if (!device->host_memory) p.batch_memory = device->allocate(device, p.batch_bytes);
    return p;
}

/* Makes the device forget its recordings, which use memory that is released here. */
void passes_close(Passes *p) {
    Device *device = p->t->spec.device;
    if (device->forget) device->forget(device);
    device->release(device, p->sums.data, tensor_bytes(p->sums));
    if (tensor_given(p->outputs)) device->release(device, p->outputs.data, tensor_bytes(p->outputs));
    if (p->batch_memory) device->release(device, p->batch_memory, p->batch_bytes);
    batch_close(&p->padded);
    FREE(p->unwritten, p->key, p->numbers);
    *p = (Passes){0};
}

/* Makes the fields of a batch and the numbers readable for the device, with one copy or without. Returns where the
 * device finds the numbers. */
static const StepNumbers *copy_to_device(Passes *p, const Batch *batch, Tensor *fields) {
    Device *device = p->t->spec.device;
    for (int i = 0; i < batch->n_fields; i++) fields[i] = batch->fields[i];
    fields[batch->n_fields] = device_data_of(p->t, batch->fields[batch->n_fields]);
    if (device->host_memory) return p->numbers;
    char *memory = p->batch_memory;
    device->stage(device, memory, p->numbers, p->numbers_bytes, batch->buffer, batch->size);
    for (int i = 0; i < batch->n_fields; i++)
        if (fields[i].data) fields[i].data = memory + p->numbers_bytes + ((char *)fields[i].data - batch->buffer);
    return (StepNumbers *)(void *)memory;
}

typedef struct {
    Model *model;
    const Batch *own, *batch; /* without padding and, the same or with it, for the device */
    const Tensor *fields;
    const Context *context;
    const PassFrame *frame;
    const StepNumbers *numbers;
} ModelCall;

/* The device may call it again, if a recording fails, and to count, which is done for the batch's own rows. */
static void call_model(void *argument) {
    const ModelCall *c = argument;
    const Batch *batch = c->context->device->ops ? c->batch : c->own;
    Tensor fields[BATCH_MAX_FIELDS + 1];
    for (int i = 0; i <= batch->n_fields; i++) {
        fields[i] = batch->fields[i];
        fields[i].data = c->fields[i].data;
    }
    if (c->frame) c->frame->before(c->frame->context, c->numbers);
    context_begin(c->context);
    c->model->forward_backward(c->model, c->context->device, c->context->arena, batch, fields, c->context->pass);
    context_end(c->context);
    if (c->frame) c->frame->after(c->frame->context, c->numbers);
}

/* Returns where a field lies, which is the same on all ranks: the batch's own do so in the same place in its memory. */
static int64_t place_of(const Passes *p, const Tensor *fields, int i, int own) {
    return i < own && fields[i].data ? (char *)fields[i].data - p->batch_memory : 0;
}

/* Writes everything that decides a call's operations to p->key; returns the bytes of the key. */
static size_t make_key(Passes *p, const Batch *batch, const Tensor *fields, const Pass *pass, const PassFrame *frame) {
    int n = 0;
    Tensor offsets = batch->fields[BATCH_OFFSETS];
    bool together = frame && frame->together;
    p->key[n++] = pass->train;
    p->key[n++] = tensor_given(pass->outputs);
    p->key[n++] = frame ? 1 + frame->key : 0;
    for (int i = 0; i <= batch->n_fields; i++) {
        p->key[n++] = together ? place_of(p, fields, i, batch->n_fields) : (int64_t)(intptr_t)fields[i].data;
        for (int d = 0; d < 2; d++) p->key[n++] = fields[i].dims[d];
    }
    p->key[n++] = p->padded.buffer && pass->train ? 0 : batch->n_sequences; /* the offsets tell */
    p->key[n++] = batch->n_tokens;
    p->key[n++] = sequences_are_short(offsets.data, offsets.dims[0] - 1);
    if (!tensor_given(pass->outputs)) return (size_t)n * sizeof *p->key;
    memcpy(p->key + n, offsets.data, tensor_bytes(offsets)); /* outputs of sequences may be sums of their rows */
    return (size_t)n * sizeof *p->key + tensor_bytes(offsets);
}

void passes_run(Passes *p, const Batch *batch, Pass pass, const PassFrame *frame, Tensor outputs) {
    Training *t = p->t;
    Device *device = t->spec.device;
    Model *model = t->spec.model;
    Tensor fields[BATCH_MAX_FIELDS + 1] = {{0}};
    int64_t n = (int64_t)batch->n_sequences * model->n_outputs;
    const Batch *own = batch;
    if (p->padded.buffer && pass.train && !pass.dump) {
        batch_pad(&p->padded, own, model->pads, false);
        batch = &p->padded;
    }
    const StepNumbers *numbers = copy_to_device(p, batch, fields);
    pass.sums = p->sums;
    pass.step = &numbers->pass.step;
    pass.loss_scale = tensor_1d((float *)numbers->pass.loss_scale, DTYPE_F32, model->n_metrics);
    if (tensor_given(outputs))
        pass.outputs = tensor_2d(p->outputs.data, DTYPE_F32, batch->n_sequences, model->n_outputs);
    const Context context = context_of(model, device, &t->activations, &pass);
    ModelCall call = {model, own, batch, fields, &context, frame, numbers};
    if (device->repeat && !(frame && frame->direct) && (batch != own || !p->ragged))
        device->repeat(device, p->key, make_key(p, batch, fields, &pass, frame), frame && frame->together, call_model,
                       &call);
    else
        call_model(&call);
    if (tensor_given(outputs)) cast(device, outputs, tensor_1d(p->outputs.data, DTYPE_F32, n));
}

/* Shows how far passes_measure is, on a terminal, twice a second. */
static void show_progress(Passes *p, int64_t done) {
    char eta[32];
    double now = seconds_now();
    if (!p->shown_total || now - p->shown < 0.5) return;
    double left = (now - p->started) * (double)(p->shown_total - done) / (double)done;
    terminal_progress("[Model] %lld of %lld samples\tETA %s", (long long)done, (long long)p->shown_total,
                      format_duration(left, eta));
    p->shown = now;
}

bool passes_measure(Passes *p, Loader *loader, int64_t batches, Tensor sums, Tensor outputs, double *counts,
                    Error *error) {
    int64_t n_metrics = p->t->spec.model->n_metrics, n_outputs = p->t->spec.model->n_outputs, done = 0;
    for (int64_t i = 0; i < batches; i++) {
        const Batch *batch = loader_try(loader, error);
        if (!batch) return false;
        int64_t b = batch->index, sample = b * p->t->spec.options->val_batch_size;
        Tensor row = tensor_none(), rows = tensor_none();
        if (tensor_given(sums)) row = tensor_1d((float *)sums.data + b * n_metrics, DTYPE_F32, n_metrics);
        if (tensor_given(outputs))
            rows = tensor_1d((float *)outputs.data + sample * n_outputs, DTYPE_F32, batch->n_sequences * n_outputs);
        passes_run(p, batch, (Pass){.train = false}, NULL, rows);
        if (tensor_given(row)) cast(p->t->spec.device, row, p->sums);
        if (counts) memcpy(counts + b * BATCH_MAX_COUNTS, batch->counts, sizeof batch->counts);
        done += batch->n_sequences;
        show_progress(p, done);
    }
    return true;
}

/* Enlarges the activations' memory for a data set that the plan did not include, if necessary. */
static void make_room(Training *t, const Dataset *dataset) {
    Batch largest = t->spec.batch.largest(dataset, t->spec.options->val_batch_size, 0);
    largest.fields[largest.n_fields] = dataset->device_data;
    DType half = tensor_given(t->spec.model->half_weights) ? t->spec.model->half_weights.dtype : DTYPE_F32;
    size_t needed = memory_plan(t->spec.model, NULL, half, NULL, &largest, (StepOptions){0}).activations;
    batch_close(&largest);
    if (needed <= t->activations.capacity) return;
    arena_close(&t->activations);
    t->activations = arena_open(t->spec.device, needed, "activations");
}

void train_outputs(Training *t, const Dataset *dataset, float *outputs) {
    Device *device = t->spec.device;
    LoaderOptions options = validation_loader_options(t->spec.options);
    int sequences, n_device_data = t->n_device_data;
    Error error;
    assert(t->spec.model->n_outputs > 0);
    options.epoch_limit = 0;
    size_t bytes = loader_batch_bytes(dataset, &options, &sequences);
    size_t size = (size_t)(dataset->n_samples * t->spec.model->n_outputs) * sizeof(float);
    Tensor all = tensor_2d(device->allocate(device, size), DTYPE_F32, dataset->n_samples, t->spec.model->n_outputs);
    make_room(t, dataset);
    device_data_add(t, dataset);
    Passes passes = passes_open(t, bytes, sequences);
    passes.shown_total = dataset->n_samples;
    passes.started = passes.shown = seconds_now();
    Loader *loader = loader_open(dataset, &options);
    if (!passes_measure(&passes, loader, loader_epoch_batches(dataset, &options, 0), tensor_none(), all, NULL, &error))
        die("%s", error.text);
    terminal_progress_end();
    device->download(device, outputs, all.data, size);
    loader_close(loader);
    passes_close(&passes);
    device_data_release(t, n_device_data);
    device->release(device, all.data, size);
}
