/* What happens before the first step: memory planned and allocated, weights initialised, imported or resumed; and
 * --dry-run, which ends there. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "train/checkpoint_state.h"
#include "train/log.h"
#include "train/loop.h"
#include "train/memory.h"
#include "train/pass.h"
#include "train/prepare.h"
#include "train/sizing.h"

/* Options that all programs share and that decide which samples a micro-batch holds. */
static const char *const stream_options[] = {
    "batch-size", "grad-accumulation", "token-budget", "bucketing", "seed", "val-ratio", NULL};

/* The 16-bit type of the activations; f32: there is none. */
static DType half_type(const Training *t) { return t->options->amp ? t->device->half : DTYPE_F32; }

/* A device with memory of its own has two batches there, of which one is copied while the other is worked on, each with
 * room for any that comes; one that reads the host's has what the loaders have. And what the loop keeps on the device
 * beside the model: see run_open and passes_open. */
static void plan_batches(const Training *t, const TrainOptions *o, const Dataset *measured, MemoryPlan *plan) {
    LoaderOptions train = train_loader_options(o, NULL), validation = validation_loader_options(o);
    const Dataset *trained = t->inference ? NULL : t->train;
    int n = t->model->n_metrics, sequences = 0, of_validation = 0;
    size_t bytes = trained ? loader_batch_bytes(trained, &train, &sequences) : 0;
    size_t bytes_of_validation = measured ? loader_batch_bytes(measured, &validation, &of_validation) : 0;
    if (bytes_of_validation > bytes) bytes = bytes_of_validation;
    if (of_validation > sequences) sequences = of_validation;
    plan->batches = 2 * bytes;
    if (t->device->host_memory)
        plan->batches = (trained ? loader_planned_bytes(trained, &train) : 0) +
                        (measured ? loader_planned_bytes(measured, &validation) : 0);
    plan->results = sizeof(PassNumbers) + (size_t)(n + sequences * t->model->n_outputs) * sizeof(float);
    if (t->inference) return;
    int64_t row = 1 + o->grad_accumulation * n, numbers = (t->device->host_memory ? 1 : TRAIN_MAX_QUEUED) * row + 1;
    if (measured) numbers += loader_epoch_batches(measured, &validation, 0) * n;
    if (measured && t->judge) numbers += validation_samples(measured, &validation) * t->model->n_outputs;
    plan->results += (size_t)numbers * sizeof(float);
}

/* A batch that dominates all of the data set, and the resident tensor behind it. */
static Batch largest_batch(const Training *t, const Dataset *dataset, int64_t batch_size, int64_t token_budget) {
    Batch batch = t->largest_batch(dataset, batch_size, token_budget);
    batch.fields[batch.n_fields] = dataset->resident;
    return batch;
}

int64_t train_least_batch(const Training *t) { return t->least_batch ? t->least_batch : 1; }

Batch train_largest_batch(const Training *t, const TrainOptions *o) {
    return largest_batch(t, t->train, o->batch_size, o->token_budget);
}

MemoryPlan train_plan_of(Training *t, const TrainOptions *o, DType half) {
    Device *device = t->device;
    const Dataset *measured = t->inference && !t->validation ? t->train : t->validation;
    Batch train, validation;
    if (!t->inference) train = train_largest_batch(t, o);
    if (measured) validation = largest_batch(t, measured, o->val_batch_size, 0);
    MemoryPlan plan = memory_plan(t->model, device, half, t->inference ? NULL : &train, measured ? &validation : NULL,
                                  o->grad_checkpointing);
    if (!t->inference) batch_close(&train);
    if (measured) batch_close(&validation);
    plan.scratch += device->allocated;
    plan_batches(t, o, measured, &plan);
    if (half == DTYPE_F16 && !t->inference) plan.results += LOSS_SCALE_FIELDS * sizeof(float);
    return plan;
}

/* What the device has taken for itself is not available any more, but part of what the run needs; so is the data, where
 * the device reads it in place. */
size_t train_to_allocate(const Training *t, const MemoryPlan *plan) {
    size_t total = memory_total(plan), there = t->device->allocated + (t->device->host_memory ? plan->data : 0);
    return total > there ? total - there : 0;
}

MemoryPlan train_plan(Training *t) { return train_plan_of(t, t->options, half_type(t)); }

/* It does not fit: says by how much, and what would. */
static _Noreturn void die_too_large(Training *t, const MemoryPlan *plan, size_t available) {
    char need[32], have[32], kept[64], text[CHANGES_TEXT];
    format_bytes((double)memory_total(plan), need);
    format_bytes((double)available, have);
    memory_kept_text(t->device, kept);
    if (t->inference)
        die("the weights and a batch need %s and %s are available%s; give a smaller --val-batch-size", need, have,
            kept);
    Changes changes = train_changes(t, available);
    die("the run needs %s and %s are available%s; %s", need, have, kept, train_changes_text(t, &changes, text));
}

static Tensor flat_tensor(Training *t, DType type, int64_t n) {
    return tensor_1d(t->device->allocate(t->device, (size_t)n * dtype_size(type)), type, n);
}

/* A second copy is for models whose checkpoints may come faster than they are written. */
static void allocate_staging(Training *t) {
    enum { SMALL = 1 << 28 }; /* bytes of weights */
    Device *device = t->device;
    size_t bytes = (size_t)t->model->params.flat_count * sizeof(float), most = t->most_staged ? t->most_staged : SMALL;
    int copies = bytes <= most && !t->inference ? 2 : 1, parts = t->inference ? 1 : 3;
    if (copies == 1 && t->validation && !device->host_memory && !t->inference)
        printf("[Run] checkpoints of this size wait for the disk: where a new best comes before the last one is "
               "written, so does the training\n");
    for (int i = 0; i < copies * parts && !device->host_memory; i++)
        t->staging[i / parts][i % parts] = device->allocate_host(device, bytes);
}

static void allocate(Training *t) {
    MemoryPlan plan = train_plan_of(t, t->options, half_type(t));
    size_t available = memory_available(t->device), own = t->device->allocated;
    t->device->peak_allocated = own; /* of this training */
    memory_print(&plan);
    t->planned_bytes = memory_total(&plan);
    if (train_to_allocate(t, &plan) > available) die_too_large(t, &plan, available);
    Model *model = t->model;
    int64_t n = model->params.flat_count;
    model->weights = flat_tensor(t, DTYPE_F32, n);
    if (half_type(t) != DTYPE_F32) model->half_weights = flat_tensor(t, half_type(t), n);
    if (!t->inference) {
        model->gradients = flat_tensor(t, DTYPE_F32, n);
        t->m = flat_tensor(t, DTYPE_F32, n);
        t->v = flat_tensor(t, DTYPE_F32, n);
        if (half_type(t) == DTYPE_F16) model->loss_scale = flat_tensor(t, DTYPE_F32, LOSS_SCALE_FIELDS);
    }
    t->activations = arena_open(t->device, plan.activations, "activations");
    residents_add(t, t->train);
    residents_add(t, t->validation);
    allocate_staging(t);
    if (t->device->reserve) t->device->reserve(t->device, plan.scratch - own, plan.batches / 2);
}

/* The three flat buffers on the host: in place where the device allows it. */
static float *host_view(Training *t, int part) {
    Tensor parts[] = {t->model->weights, t->m, t->v};
    return t->device->host_memory ? parts[part].data : t->staging[0][part];
}

static void upload_parts(Training *t, int count) {
    Tensor parts[] = {t->model->weights, t->m, t->v};
    for (int i = 0; i < count && !t->device->host_memory; i++)
        t->device->upload(t->device, parts[i].data, t->staging[0][i], tensor_bytes(parts[i]));
}

static bool is_among(const char *const *names, const char *name) {
    while (names && *names && strcmp(*names, name)) names++;
    return names && *names;
}

/* The program's name for the option of the base checkpoint. */
static const char *base_option(const Training *t) {
    for (int i = 0; i < t->n_rows; i++)
        if (t->rows[i].value == (const void *)&t->options->base_checkpoint) return t->rows[i].name;
    return "base-checkpoint";
}

/* Compares the options of the checkpoint with today's: refuses what would make another run of it, reports the rest. */
static void compare_options(const Training *t, const char *before_text) {
    json_error_t error;
    json_t *before = json_loads(before_text ? before_text : "{}", JSON_DECODE_ANY, &error);
    char *now_text = options_to_json(t->rows, t->n_rows);
    json_t *now = json_loads(now_text, JSON_DECODE_ANY, &error), *value;
    const char *name;
    if (!json_is_object(before) || !json_is_object(now))
        die("%s: the record of the options is damaged", t->resumed_from);
    json_object_foreach(before, name, value) {
        json_t *other = json_object_get(now, name);
        if (!strcmp(name, "resume") || !other || json_equal(value, other)) continue;
        const size_t digits = JSON_ENCODE_ANY | JSON_REAL_PRECISION(15); /* 0.6, not 0.59999999999999998 */
        char *old = json_text(name, value, digits), *new = json_text(name, other, digits);
        if (is_among(stream_options, name) || is_among(t->fixed_options, name))
            die("--resume: --%s was %s and is now %s, so it would be another run; give the old value, or start a new "
                "run from the weights with --%s %s/model.safetensors",
                name, old, new, base_option(t), t->resumed_from);
        printf("[Resume] --%s has changed from %s to %s\n", name, old, new);
        free(old);
        free(new);
    }
    json_decref(before);
    json_decref(now);
    free(now_text);
}

/* Of every sample's id, rows and rows with a loss, in their order. */
static int64_t data_hash(const Dataset *dataset) {
    uint64_t hash = HASH_START;
    for (int64_t i = 0; i < dataset->n_samples; i++) {
        int64_t tokens = dataset->tokens(dataset, i);
        double counts[BATCH_MAX_COUNTS] = {0};
        const char *id = dataset->sample_id(dataset, i);
        dataset->counts(dataset, i, counts);
        hash = hash_bytes(hash_bytes(hash, id, strlen(id)), &tokens, sizeof tokens);
        hash = hash_bytes(hash, counts, sizeof counts);
    }
    return (int64_t)hash;
}

/* Of the numbers of all samples, in their order; 0: there is no data set. */
static int64_t content_hash(const Dataset *dataset) {
    uint64_t hash = 0;
    for (int64_t i = 0; dataset && i < dataset->n_samples; i++) {
        uint64_t content = dataset->content(dataset, i);
        hash = checksum(hash, &content, sizeof content);
    }
    return (int64_t)hash;
}

/* Refuses to go on with other training data than the run began with; warns of others to validate on. */
static void compare_data(Training *t) {
    const char *from = t->resumed_from, *what = NULL;
    char counts[128];
    int64_t validation = content_hash(t->validation), n = t->state.n_samples, n_now = t->train->n_samples;
    snprintf(counts, sizeof counts, "had %lld samples and now has %lld, so the place in it would be lost", (long long)n,
             (long long)n_now);
    if (n != n_now)
        what = counts;
    else if (t->state.data_hash != data_hash(t->train))
        what = "has other samples, lengths or another order than before, so the place in it would be lost";
    else if (t->state.content_hash != content_hash(t->train))
        what = "has the same samples and lengths as before, but other contents: files have been replaced since, and "
               "the weights are of the old ones";
    if (what)
        die("--resume %s: the training data %s; put the old data back, or start a new run in another --output-dir, "
            "from the beginning or from the weights with --%s %s/model.safetensors",
            from, what, base_option(t), from);
    if (t->state.validation_hash && validation && t->state.best_step && t->state.validation_hash != validation)
        warn(
            "--resume %s: the data to validate on have other contents than before: step %lld was chosen as the best on "
            "the old ones, and what follows is compared with it; for a choice on the new ones alone start a new run "
            "in another --output-dir",
            from, (long long)t->state.best_step);
    t->state.validation_hash = validation;
}

static void resume(Training *t) {
    Error error;
    if (!state_read(t->resumed_from, &t->state, &error)) die("--resume %s: %s", t->resumed_from, error.text);
    compare_options(t, t->state.options_json); /* before tensors of another model are met */
    free(t->state.options_json);
    if (!checkpoint_load(t->resumed_from, &t->model->params, host_view(t, 0), host_view(t, 1), host_view(t, 2),
                         &t->state, &t->source, &t->carried, &t->n_carried, &error))
        die("--resume %s: %s", t->resumed_from, error.text);
    if (!t->n_carried) tensor_file_close(&t->source); /* nothing in it is needed any more */
    upload_parts(t, 3);
    compare_data(t);
    printf("[Resume] %s: step %lld, epoch %lld, next micro-batch %lld\n", t->resumed_from, (long long)t->state.step,
           (long long)t->state.epoch, (long long)t->state.batch_index);
}

static void import_base(Training *t, const ImportRules *rules) {
    const char *path = t->options->base_checkpoint;
    ImportReport *r = &t->import;
    Error error;
    char more[128] = "";
    if (!checkpoint_import(path, &t->model->params, rules, host_view(t, 0), &t->source, &t->carried, &t->n_carried, r,
                           &error))
        die("--%s %s: %s", base_option(t), path, error.text);
    const struct {
        int count;
        const char *what;
    } rare[] = {{r->absorbed, "absorbed by running means"},
                {r->counters, "counters of batches dropped"},
                {r->aside, "left aside"}};
    for (size_t i = 0, used = 0; i < sizeof rare / sizeof *rare; i++)
        if (rare[i].count)
            used += (size_t)snprintf(more + used, sizeof more - used, ", %d %s", rare[i].count, rare[i].what);
    printf("[Base] %s: %d tensors loaded, %d resized, %d carried along untouched%s, %d skipped, %d missing%s%s\n", path,
           r->loaded, r->resized, r->carried, more, r->skipped, r->missing, r->missing ? ": " : "",
           r->missing ? r->missing_names : "");
    if (r->moments && !t->inference)
        printf("[Base] its optimizer's state (%d tensors) is not taken: the optimizer begins anew\n", r->moments);
}

static void start_fresh(Training *t) {
    const TrainOptions *o = t->options;
    params_initialize(&t->model->params, host_view(t, 0), (uint64_t)o->seed, (int)o->threads);
    if (o->base_checkpoint)
        import_base(t, &(ImportRules){t->resizable, t->n_resizable, t->import_only, t->n_import_only, t->absorbed,
                                      t->n_absorbed});
    upload_parts(t, 1);
    t->state = (TrainState){.seed = (uint64_t)o->seed,
                            .best = INFINITY,
                            .n_samples = t->train->n_samples,
                            .data_hash = data_hash(t->train),
                            .content_hash = content_hash(t->train),
                            .validation_hash = content_hash(t->validation),
                            .base_sum = t->import.sum,
                            .loss_scale = {[LOSS_SCALE_FACTOR] = 65536}};
    snprintf(t->state.revision, sizeof t->state.revision, "%s", GIT_REVISION);
}

/* What the device computes with besides the weights themselves, from them and from the state. */
static void derive(Training *t) {
    Model *model = t->model;
    if (tensor_given(model->half_weights)) cast(t->device, model->half_weights, model->weights);
    /* AdamW's step, of which a run without the scale has not told the device. */
    if (tensor_given(model->loss_scale)) {
        t->state.loss_scale[LOSS_SCALE_DONE] = (float)(t->state.step - t->state.skipped_steps);
        t->device->upload(t->device, model->loss_scale.data, t->state.loss_scale, sizeof t->state.loss_scale);
    }
}

/* ---- the device's choices ---- */

static char *choices_path(const Training *t, const char *directory) {
    bool several = t->choices && file_is_same(directory, t->options->output_dir); /* runs, which share them */
    return several ? xstrdup(t->choices) : path_join(directory, "choices.txt");
}

static const char CHOICES_SUM[] = "xxh3_64 "; /* their last line, before the checksum of those above */

void train_keep_choices(Training *t, const char *directory) {
    char *text = t->device->choices ? t->device->choices(t->device) : NULL, *path = choices_path(t, directory);
    size_t length = text ? strlen(text) : 0;
    Error error;
    if (text && length != t->kept_choices) {
        char *summed = xformat("%s%s%016llx\n", text, CHOICES_SUM, (unsigned long long)checksum(0, text, length));
        if (file_write_atomic(path, summed, strlen(summed), &error))
            t->kept_choices = length;
        else
            warn("the device's choices cannot be kept: %s; tried again with the next checkpoint", error.text);
        free(summed);
    }
    free(text);
    free(path);
}

/* Compares the checksum, if there is one, and cuts it off. */
static bool check_choices(char *text, Error *error) {
    char *last = text + strlen(text);
    while (last > text && (last[-1] != '\n' || !last[0])) last--;
    if (strncmp(last, CHOICES_SUM, strlen(CHOICES_SUM))) return true;
    uint64_t stated = strtoull(last + strlen(CHOICES_SUM), NULL, 16);
    *last = 0;
    return stated == checksum(0, text, (size_t)(last - text)) || error_set(error, "is not as it was written");
}

/* Of a run that goes on, or of another one, if they were copied here. */
static void take_choices(Training *t) {
    char *path = choices_path(t, t->options->output_dir), *text = NULL;
    size_t size;
    Error error;
    if (t->device->choose && !access(path, F_OK) &&
        (!read_file(path, &text, &size, &error) || !check_choices(text, &error) ||
         !t->device->choose(t->device, text, &error)))
        warn("%s: %s: the fastest ways are found anew, and the last bits of results may be others", path, error.text);
    free(text);
    free(path);
}

/* The value that a whole number had in the options of a checkpoint; untouched if it has none. */
static bool option_before(const Training *t, const json_t *before, const char *name, int64_t *value, Error *error) {
    const json_t *there = json_object_get(before, name);
    for (int i = 0; i < t->n_rows && there; i++) {
        Option row = t->rows[i];
        row.value = value;
        if (!strcmp(row.name, name)) return option_from_json(&row, there, error);
    }
    return true;
}

/* A run that goes on keeps its own numbers, so that it does so bit by bit; false: it has none. */
static bool take_batch(Training *t) {
    const TrainOptions *o = t->options;
    TrainState state = {0};
    Error error;
    int64_t size = 0, accumulation = 0;
    if (!state_read(t->resumed_from, &state, &error)) die("--resume %s: %s", t->resumed_from, error.text);
    json_t *before = json_loads(state.options_json ? state.options_json : "{}", 0, NULL);
    if (!option_before(t, before, "batch-size", &size, &error) ||
        !option_before(t, before, "grad-accumulation", &accumulation, &error))
        die("--resume %s: its options: %s", t->resumed_from, error.text);
    json_decref(before);
    free(state.options_json);
    if (size < 1 || accumulation < 1) return false;
    if (o->effective_batch && o->effective_batch != size * accumulation)
        die("--resume: a step of %s has %lld x %lld samples and --effective-batch is %lld, so it would be another run; "
            "leave it out, or start a new run from the weights with --%s %s/model.safetensors",
            t->resumed_from, (long long)size, (long long)accumulation, (long long)o->effective_batch, base_option(t),
            t->resumed_from);
    train_set_batch(t, size, accumulation);
    printf("[Batch] -b %lld -g %lld, as the run that goes on has it\n", (long long)size, (long long)accumulation);
    return true;
}

/* The batch of -b auto. Rehearsals load libraries and kernels, which take memory too: so the first comes before the
 * memory is looked at, and if others have taken so much more that the choice does not fit, it is made again, twice at
 * most. */
static BatchChoice choose_in_memory(Training *t, DType half) {
    enum { ROUNDS = 3 };
    (void)train_plan_of(t, t->options, half);
    for (int round = 1;; round++) {
        BatchChoice choice = train_choose_batch(t, half, memory_available(t->device), NULL);
        MemoryPlan plan = train_plan_of(t, t->options, half);
        size_t available = memory_available(t->device);
        if (train_to_allocate(t, &plan) <= available || choice.most < choice.size) return choice;
        if (round == ROUNDS) die_too_large(t, &plan, available);
    }
}

static void choose_batch(Training *t) {
    if (!t->options->auto_batch || (t->resumed_from && !t->whole_batches && take_batch(t))) return;
    BatchChoice choice = choose_in_memory(t, half_type(t));
    train_choice_print(t, &choice);
}

void train_prepare(Training *t) {
    take_choices(t);
    t->resumed_from = t->options->resume ? checkpoint_resolve(t->options->output_dir, t->options->resume) : NULL;
    choose_batch(t);
    allocate(t);
    if (t->resumed_from) {
        resume(t);
        derive(t);
        return;
    }
    char *earlier = checkpoint_resolve(t->options->output_dir, "auto");
    if (earlier)
        die("%s already holds a run (%s): give --resume auto to go on with it, or another --output-dir",
            t->options->output_dir, earlier);
    if (t->options->resume) printf("[Resume] %s has no checkpoint yet: a fresh start\n", t->options->output_dir);
    start_fresh(t);
    derive(t);
}

void train_prepare_inference(Training *t) {
    static const char *const all[] = {""};
    t->inference = true;
    allocate(t);
    params_initialize(&t->model->params, host_view(t, 0), 0,
                      (int)t->options->threads); /* constants, which the checkpoint may lack */
    if (!t->options->base_checkpoint) die_usage("there are no weights: give --%s", base_option(t));
    import_base(t, &(ImportRules){.only = all, .n_only = 1, .absorbed = t->absorbed, .n_absorbed = t->n_absorbed});
    upload_parts(t, 1);
    if (tensor_given(t->model->half_weights)) cast(t->device, t->model->half_weights, t->model->weights);
}

void train_close(Training *t) {
    Device *device = t->device;
    Model *model = t->model;
    Tensor *parts[] = {&model->weights, &model->gradients, &t->m, &t->v, &model->half_weights, &model->loss_scale};
    for (int i = 0; i < 6; i++) {
        if (tensor_given(*parts[i])) device->release(device, parts[i]->data, tensor_bytes(*parts[i]));
        *parts[i] = tensor_none();
    }
    arena_close(&t->activations);
    residents_release(t, 0);
    tensor_file_close(&t->source);
    for (int i = 0; i < 6; i++)
        if (t->staging[i / 3][i % 3]) device->release_host(device, t->staging[i / 3][i % 3]);
    memset(t->staging, 0, sizeof t->staging);
    free(t->carried);
    free(t->resumed_from);
    free(t->import.missing_names);
    free(t->state.options_json);
}

/* Nothing, if it fits. */
static void print_too_large(Training *t, const MemoryPlan *plan) {
    size_t available = memory_available(t->device);
    char have[32], kept[64], text[CHANGES_TEXT];
    if (train_to_allocate(t, plan) <= available) return;
    Changes changes = train_changes(t, available);
    printf("[Memory] it does not fit, %s are available%s; %s\n", format_bytes((double)available, have),
           memory_kept_text(t->device, kept), train_changes_text(t, &changes, text));
}

void train_dry_run(Training *t) {
    const TrainOptions *o = t->options;
    bool gpu = !t->device->host_memory, for_a_gpu = gpu || strcmp(o->device, "cpu") != 0;
    DType half = !o->amp ? DTYPE_F32 : gpu ? t->device->half : for_a_gpu ? DTYPE_BF16 : DTYPE_F32;
    if (o->auto_batch) {
        BatchChoice choice = choose_in_memory(t, half);
        train_choice_print(t, &choice);
    }
    Device *dry = dry_device_open(), *real = t->device;
    dry->half = half;
    if (half != DTYPE_F32 && !gpu) t->device = dry; /* the nearest to a GPU that is here */
    MemoryPlan plan = train_plan_of(t, o, half);
    t->device = real;
    Batch batch = train_largest_batch(t, o);
    rehearse_step(t->model, dry, &batch, o->grad_accumulation, o->grad_checkpointing);
    printf("%lld parameters in %d tensors; one step = %lld micro-batches of %d sequences, %lld tokens\n",
           (long long)params_count(&t->model->params), params_trained(&t->model->params),
           (long long)o->grad_accumulation, batch.n_sequences, (long long)batch.n_tokens);
    if (o->amp && half == DTYPE_F32) printf("[Device] --amp has no effect on the cpu device: it computes in float32\n");
    if (half != DTYPE_F32 && !gpu)
        printf("[Device] no GPU is here: the memory is a GPU's, but for some scratch of its own\n");
    memory_print(&plan);
    if (half == DTYPE_F32 || gpu) print_too_large(t, &plan);
    device_print_counters(dry, stdout);
    batch_close(&batch);
    device_close(dry);
}
