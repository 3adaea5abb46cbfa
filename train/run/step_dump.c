#include "train/run/step_dump.h"

#include <stdio.h>

#include "train/run/results.h"

void step_dump_activation(void *context, const char *name, Tensor tensor) {
    const StepDump *to = context;
    char full[128];
    snprintf(full, sizeof full, "micro%lld.%s", (long long)to->micro, name);
    dump_add(to->dump, full, tensor);
}

void step_dump_batch(StepDump *to, const Batch *batch, const char *const *names) {
    char name[96];
    for (int i = 0; i < batch->n_fields; i++) {
        if (!batch->fields[i].data) continue;
        snprintf(name, sizeof name, "micro%lld.batch.%s", (long long)to->micro, names[i]);
        dump_add_host(to->dump, name, batch->fields[i]);
    }
}

void step_dump_write(Run *run, float scale) {
    Training *t = run->t;
    Dump *dump = run->dump;
    const float *sums = run->host_results + 1;
    char name[128];
    float loss = 0;
    results_download(run);
    for (int i = 0; i < t->spec.model->n_metrics; i++) {
        snprintf(name, sizeof name, "sum.%s", t->spec.model->metrics[i].name);
        float sum = 0;
        for (int64_t micro = 0; micro < t->spec.options->grad_accumulation; micro++) {
            int64_t at = micro * t->spec.model->n_metrics + i;
            sum += sums[at];
            loss += run->loss_scale[at] * sums[at];
        }
        dump_add_host(dump, name, tensor_1d(&sum, DTYPE_F32, 1));
    }
    dump_add_host(dump, "loss", tensor_1d(&loss, DTYPE_F32, 1));
    dump_add_host(dump, "grad_norm", tensor_1d(run->host_results, DTYPE_F32, 1));
    for (int i = 0; i < t->spec.model->params.count; i++) {
        const Param *param = &t->spec.model->params.items[i];
        if (param->buffer) continue;
        snprintf(name, sizeof name, "grad.%s", param->name);
        float *gradient = dump_add(dump, name, param_view(&t->spec.model->params, t->spec.model->gradients, i));
        for (int64_t e = 0; e < param->count; e++) gradient[e] /= scale;
        if (!param->frozen_rows) continue;
        int32_t rows = (int32_t)param->frozen_rows;
        snprintf(name, sizeof name, "frozen_rows.%s", param->name);
        dump_add_host(dump, name, tensor_1d(&rows, DTYPE_I32, 1));
    }
    dump_write_close(dump, t->spec.options->debug_dump, t->spec.options->grad_accumulation);
    printf("[Debug] wrote %s: the first step's batch, activations and gradients\n", t->spec.options->debug_dump);
}
