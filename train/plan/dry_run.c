/* --dry-run: prints the work of a step, and the memory that a run would take. */
#include <stdio.h>
#include <string.h>

#include "base/format.h"
#include "kernels/ops_table.h"
#include "train/plan/fit.h"
#include "train/train.h"

/* Prints what would make the run fit; nothing if it fits. */
static void print_too_large(const TrainSpec *spec, const MemoryPlan *plan) {
    size_t available = memory_available(spec->device);
    char have[32], headroom[MEMORY_TEXT], text[CHANGES_TEXT];
    if (train_to_allocate(spec, plan) <= available) return;
    Changes changes = sizing_changes(spec, available);
    printf("[Memory] it does not fit, %s are available%s; %s\n", format_bytes((double)available, have),
           memory_headroom_text(spec->device, headroom), sizing_changes_text(spec, &changes, text));
}

void train_dry_run(const TrainSpec *spec) {
    const TrainOptions *o = spec->options;
    const Model *model = spec->model;
    bool gpu = !spec->device->host_memory, for_a_gpu = gpu || strcmp(o->device, "cpu") != 0;
    DType half = !o->amp ? DTYPE_F32 : gpu ? spec->device->half : for_a_gpu ? DTYPE_BF16 : DTYPE_F32;
    TrainSpec planned = *spec;
    if (o->auto_batch) fit_choose_batch(spec, half);
    Device *dry = dry_device_open();
    dry->half = half;
    if (half != DTYPE_F32 && !gpu) planned.device = dry; /* the closest stand-in for a GPU */
    MemoryPlan plan = train_plan_of(&planned, o, half);
    Batch batch = train_largest_batch(spec, o);
    memory_dry_step(spec->model, dry, &batch, o->grad_accumulation, train_step_options(spec, o));
    printf("%lld parameters in %d tensors; one step = %lld micro-batch%s of %d sequence%s, %lld tokens\n",
           (long long)params_count(&model->params), params_n_trained(&model->params), (long long)o->grad_accumulation,
           o->grad_accumulation == 1 ? "" : "es", batch.n_sequences, batch.n_sequences == 1 ? "" : "s",
           (long long)batch.n_tokens);
    if (o->amp && half == DTYPE_F32) printf("[Device] --amp has no effect on the cpu device: it computes in float32\n");
    if (half != DTYPE_F32 && !gpu)
        printf("[Device] no GPU is here: the memory is a GPU's, but for some scratch of its own\n");
    memory_print(&plan);
    if (half == DTYPE_F32 || gpu) {
        memory_print_limit(spec->device);
        print_too_large(spec, &plan);
    }
    ops_print_counters(dry, stdout);
    batch_close(&batch);
    device_close(dry);
}
