/* Memory, before anything is allocated. Four groups: weights, gradients, optimizer state, activations; what the
 * activations need is what a dry run of the largest micro-batch pushes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

#include "train/log.h"
#include "train/memory.h"

/* One micro-batch on the dry device; the peak of the activations arena. */
static size_t dry_pass(Model *model, Device *dry, const Batch *batch, bool train, bool recompute) {
    Arena arena = arena_open(dry, 0, "activations");
    Tensor fields[BATCH_MAX_FIELDS] = {{0}};
    for (int i = 0; i < batch->n_fields; i++) fields[i] = batch->fields[i];
    float sums[MODEL_MAX_METRICS];
    Pass pass = {.train = train, .recompute = recompute, .sums = tensor_1d(sums, DTYPE_F32, model->n_metrics)};
    Tensor weights = model->weights, gradients = model->gradients, half_weights = model->half_weights;
    int64_t n = model->params.flat_count;
    model->weights = model->gradients = tensor_1d(dry->allocate(dry, (size_t)n * 4), DTYPE_F32, n);
    model->half_weights = dry->half == DTYPE_F32 ? tensor_none() : tensor_1d(model->weights.data, dry->half, n);
    model->run(model, dry, &arena, batch, fields, &pass);
    dry->release(dry, model->weights.data, (size_t)n * 4);
    model->weights = weights;
    model->gradients = gradients;
    model->half_weights = half_weights;
    size_t peak = arena.peak;
    arena_close(&arena);
    return peak;
}

MemoryPlan memory_plan(Model *model, DType half, const Batch *train, const Batch *validation, bool recompute) {
    MemoryPlan plan = {0};
    size_t flat = (size_t)model->params.flat_count * sizeof(float);
    plan.weights = plan.gradients = flat;
    if (half != DTYPE_F32) plan.weights += flat / 2;
    plan.optimizer = 2 * flat;
    Device *dry = dry_device_open();
    dry->half = half;
    if (train) {
        plan.activations = dry_pass(model, dry, train, true, recompute);
        plan.batches = train->size;
    }
    if (validation) {
        size_t peak = dry_pass(model, dry, validation, false, recompute);
        if (peak > plan.activations) plan.activations = peak;
        if (validation->size > plan.batches) plan.batches = validation->size;
    }
    device_close(dry);
    return plan;
}

size_t memory_total(const MemoryPlan *plan) {
    return plan->weights + plan->gradients + plan->optimizer + plan->activations + plan->batches;
}

void memory_print(const MemoryPlan *plan) {
    char text[6][32];
    printf("[Memory] weights %s + gradients %s + AdamW %s + activations %s + batch %s = %s\n",
           format_bytes((double)plan->weights, text[0]), format_bytes((double)plan->gradients, text[1]),
           format_bytes((double)plan->optimizer, text[2]), format_bytes((double)plan->activations, text[3]),
           format_bytes((double)plan->batches, text[4]), format_bytes((double)memory_total(plan), text[5]));
}

static size_t host_memory_available(void) {
    FILE *file = fopen("/proc/meminfo", "r");
    char line[128];
    unsigned long long kilobytes = 0;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %llu kB", &kilobytes) == 1) break;
    if (file) fclose(file);
    if (kilobytes) return (size_t)kilobytes * 1024;
    struct sysinfo info;
    return sysinfo(&info) ? SIZE_MAX : (size_t)info.freeram * info.mem_unit;
}

size_t memory_available(const Device *device) {
    return device->host_memory ? host_memory_available() : device->available(device);
}
