#include "train/run/start.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/format.h"
#include "base/json.h"
#include "base/version.h"
#include "cost/rates.h"
#include "train/run/selection.h"

/* Sets a text, or null if it is NULL or not UTF-8, as a path may be. */
static void set_text(json_t *record, const char *key, const char *text) {
    json_t *value = text ? json_string(text) : NULL;
    json_object_set_new(record, key, value ? value : json_null());
}

static void set_count(json_t *record, const char *key, int64_t count) {
    json_object_set_new(record, key, json_integer(count));
}

/* Sets a hash in hexadecimal digits; null for 0, which stands for none. */
static void set_hash(json_t *record, const char *key, uint64_t hash) {
    char text[17];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)hash);
    set_text(record, key, hash ? text : NULL);
}

static void set_program(json_t *record, const OptionSet *set) {
    char now[32], *directory = getcwd(NULL, 0);
    set_text(record, "date", format_now(now));
    set_text(record, "program", set->program);
    set_text(record, "version", version_number);
    set_text(record, "revision", version_revision);
    set_text(record, "command", set->command);
    set_text(record, "directory", directory);
    free(directory);
}

/* Sets the machine, and the peak that MFU divides by: null if it is not known. */
static void set_machine(json_t *record, const Run *run) {
    const Training *t = run->t;
    const Device *device = t->spec.device;
    char host[256] = "", name[128];
    DType half = tensor_given(t->spec.model->half_weights) ? device->half : DTYPE_F32;
    bool is_gpu = device->product[0];
    gethostname(host, sizeof host - 1);
    rates_device_name(device, name);
    set_text(record, "host", host);
    set_text(record, "machine", name);
    set_text(record, "device", device->description);
    if (t->exchange) set_count(record, "ranks", t->exchange->group->size);
    if (t->exchange) set_text(record, "ranks_over", t->exchange->group->description);
    set_text(record, "numbers", half != DTYPE_F32 ? dtype_name(half) : device->tf32 ? "tf32" : "f32");
    json_object_set_new(record, "peak_flops", run->peak_flops > 0 ? json_real(run->peak_flops) : json_null());
    json_object_set_new(record, "device_bytes", is_gpu ? json_integer((json_int_t)device->total_memory) : json_null());
    set_count(record, "planned_bytes", (int64_t)t->planned_bytes);
}

static void set_data(json_t *record, const Run *run) {
    const Training *t = run->t;
    const TrainState *state = &t->state;
    set_count(record, "samples", t->spec.train->n_samples);
    set_count(record, "validation_samples", t->spec.validation ? t->spec.validation->n_samples : 0);
    set_hash(record, "data_hash", (uint64_t)state->data_hash);
    set_hash(record, "content_hash", (uint64_t)state->content_hash);
    set_hash(record, "validation_hash", (uint64_t)state->validation_hash);
    set_hash(record, "base_hash", state->base_sum);
    set_text(record, "base_checkpoint", t->spec.options->base_checkpoint);
    set_text(record, "resumed_from", t->resumed_from);
}

static void set_model(json_t *record, const Run *run) {
    const TrainSpec *spec = &run->t->spec;
    char metric[64];
    snprintf(metric, sizeof metric, "val/%s", selection_name(spec));
    set_text(record, "model", spec->model->name);
    set_count(record, "parameters", params_count(&spec->model->params));
    set_count(record, "parameters_trained", params_trainable_count(&spec->model->params));
    set_count(record, "total_steps", run->total_steps);
    set_count(record, "batches_per_epoch", run->epoch_batches);
    set_text(record, "metric", metric);
    set_text(record, "step_label", spec->labels.step);
    set_text(record, "token_label", spec->labels.token);
    if (!spec->baseline.name) return;
    set_text(record, "baseline", spec->baseline.name);
    set_text(record, "baseline_metric", spec->model->metrics[spec->baseline.metric].name);
    json_object_set_new(record, "baseline_value", real_or_null(spec->baseline.value));
}

static void set_price(json_t *record, const Price *price) {
    if (!(price->per_hour > 0)) return;
    json_object_set_new(record, "price_per_hour", json_real(price->per_hour));
    set_text(record, "currency", price->currency);
}

void start_log(Run *run) {
    if (!run->log) return; /* another rank writes it */
    json_t *record = options_record(run->t->spec.set);
    set_program(record, run->t->spec.set);
    set_machine(record, run);
    set_model(record, run);
    set_data(record, run);
    set_price(record, &run->t->spec.options->price);
    log_object(run->log, "start", run->t->state.step, run->seconds_before, record);
}
