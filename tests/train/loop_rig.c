#include "tests/train/loop_rig.h"

#include <unistd.h>

#include "base/file.h"
#include "kernels/philox.h"
#include "model/context.h"
#include "tests/files.h"

char toy_output[1 << 16];

enum { TOY_OFFSETS = BATCH_OFFSETS, TOY_ROWS, TOY_TARGETS }; /* i32 [n + 1], [n] of the device dataset, [n] */

const Toy *toy_of(const Dataset *face) { return face->state; }

static int32_t toy_class(const Toy *toy, int64_t i) {
    const float *x = toy->x + i * FEATURES;
    return x[0] > x[1] && x[0] > x[2] ? 0 : x[1] > x[2] ? 1 : 2;
}

static int64_t toy_tokens(const Dataset *face, int64_t i) {
    (void)face, (void)i;
    return 1;
}

static void toy_counts(const Dataset *face, int64_t i, double *counts) {
    (void)face, (void)i;
    counts[0] += 1;
}

static const char *toy_id(const Dataset *face, int64_t i) {
    (void)face, (void)i;
    return "sample";
}

static uint64_t toy_content(const Dataset *face, int64_t i) {
    return checksum(0, toy_of(face)->x + i * FEATURES, FEATURES * sizeof(float));
}

static size_t toy_bytes(const Dataset *face, const int32_t *samples, int n) {
    (void)face, (void)samples;
    return (size_t)(3 * n + 1) * sizeof(int32_t) + (size_t)3 * BATCH_LINE;
}

bool toy_fill(const Dataset *face, Batch *batch, const int32_t *samples, int n, Error *error) {
    (void)error;
    batch_begin_rows(batch, samples, n);
    int32_t *rows = batch_push_1d(batch, TOY_ROWS, DTYPE_I32, n).data;
    int32_t *targets = batch_push_1d(batch, TOY_TARGETS, DTYPE_I32, n).data;
    for (int i = 0; i < n; i++) {
        rows[i] = samples[i];
        targets[i] = toy_class(toy_of(face), samples[i]);
    }
    batch->counts[0] = n;
    return true;
}

static void toy_close(Dataset *face) {
    Toy *toy = face->state;
    free(toy->x);
    free(toy);
}

static Batch toy_largest(const Dataset *face, int64_t batch_size, int64_t token_budget) {
    (void)token_budget;
    static const int32_t zeros[4096];
    Error error;
    int n = (int)(batch_size < face->n_samples ? batch_size : face->n_samples);
    Batch batch = batch_open(toy_bytes(face, zeros, n), n);
    toy_fill(face, &batch, zeros, n, &error);
    return batch;
}

Dataset *toy_open(int64_t n, uint64_t seed) {
    static const char *const names[] = {"offsets", "rows", "targets"};
    Toy *toy = xcalloc(1, sizeof *toy);
    toy->x = xmalloc((size_t)(n * FEATURES) * sizeof *toy->x);
    for (int64_t e = 0; e < n * FEATURES; e++) toy->x[e] = philox_normal(seed, PURPOSE_TEST, 0, (uint64_t)e);
    toy->face = (Dataset){.n_samples = n,
                          .device_data = tensor_2d(toy->x, DTYPE_F32, n, FEATURES),
                          .field_names = names,
                          .tokens = toy_tokens,
                          .counts = toy_counts,
                          .sample_id = toy_id,
                          .content = toy_content,
                          .fill = toy_fill,
                          .batch_bytes = toy_bytes,
                          .close = toy_close,
                          .state = toy};
    return &toy->face;
}

/* The model: logits = x W^T + b. */
static void toy_run(Model *model, Device *device, Arena *arena, const Batch *batch, const Tensor *fields,
                    const Pass *pass) {
    int64_t n = batch->n_sequences;
    size_t mark = arena_mark(arena);
    Tensor x = arena_2d(arena, DTYPE_F32, n, FEATURES), logits = arena_2d(arena, DTYPE_F32, n, CLASSES);
    Tensor loss = arena_1d(arena, DTYPE_F32, n), correct = arena_1d(arena, DTYPE_F32, n);
    Tensor w = param_view(&model->params, model->weights, 0), b = param_view(&model->params, model->weights, 1);
    gather_rows(device, x, fields[batch->n_fields], fields[TOY_ROWS]);
    linear_forward(device, logits, x, w, b, WEIGHT_OUT_IN);
    if (tensor_given(pass->outputs))
        cast(device, tensor_1d(pass->outputs.data, DTYPE_F32, n * CLASSES),
             tensor_1d(logits.data, DTYPE_F32, n * CLASSES));
    if (pass->train) {
        cross_entropy_forward_backward(device, loss, correct, logits, logits.dims[1], fields[TOY_TARGETS],
                                       tensor_none(), tensor_1d(pass->loss_scale.data, DTYPE_F32, 1), tensor_none());
        const Context context = context_of(model, device, arena, pass);
        context_linear_backward(&context, 0, tensor_none(), logits, x);
    } else {
        cross_entropy_forward(device, loss, correct, logits, logits.dims[1], fields[TOY_TARGETS], tensor_none());
    }
    sum_forward(device, tensor_1d(pass->sums.data, DTYPE_F32, 1), loss);
    sum_forward(device, tensor_1d((float *)pass->sums.data + 1, DTYPE_F32, 1), correct);
    arena_release(arena, mark);
}

static void toy_model_close(Model *model) {
    params_free(&model->params);
    free(model);
}

static Model *toy_model(void) {
    Model *model = xcalloc(1, sizeof *model);
    *model = (Model){.name = "toy",
                     .metrics = {{"loss", 0, 1}, {"hits", 0, 0}},
                     .n_metrics = 2,
                     .n_outputs = CLASSES,
                     .forward_backward = toy_run,
                     .close = toy_model_close};
    param_add(&model->params, INIT_NORMAL, 0.1f, true, CLASSES, FEATURES, "head.weight");
    param_add(&model->params, INIT_ZERO, 0, false, CLASSES, 0, "head.bias");
    model->params.items[0].product = true;
    model->params.items[1].group = 1;
    return model;
}

ToyRun *toy_run_open(Device *device, const char *directory, const char *arguments, int64_t n_train,
                     int64_t n_validation, uint64_t seed) {
    static const OptionsHeader header = {"toy", "", "", "toy"};
    ToyRun *run = xcalloc(1, sizeof *run);
    char *words[64] = {"toy"}, *text = xformat("-m /dev/null --warmup-steps 0 -o %s %s", directory, arguments);
    int n = 1;
    train_options_add(&run->set, &run->options);
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " ")) words[n++] = word;
    options_parse(&header, &run->set, n, words); /* whose texts point into `text` */
    train_options_resolve(&run->options, &run->set);
    run->line = text;
    run->train = toy_open(n_train, seed);
    run->validation = n_validation ? toy_open(n_validation, seed + 100) : NULL;
    run->spec = (TrainSpec){.options = &run->options,
                            .set = &run->set,
                            .model = toy_model(),
                            .device = device,
                            .train = run->train,
                            .validation = run->validation,
                            .batch = {.largest = toy_largest},
                            .selection = {.metric = -1}};
    return run;
}

void toy_run_forget(ToyRun *run) {
    run->spec.model->close(run->spec.model);
    run->train->close(run->train);
    if (run->validation) run->validation->close(run->validation);
    free(run->line);
    free(run);
}

void toy_run_close(ToyRun *run) {
    train_close(run->training);
    toy_run_forget(run);
}

void toy_set_rate(ToyRun *run, double (*at)(const void *, int, int64_t, int64_t)) {
    run->spec.rate.at = at;
    run->spec.rate.context = run;
}

const char *toy_output_dir(const void *context) { return ((const ToyRun *)context)->options.output_dir; }
double toy_rate(const void *context) { return ((const ToyRun *)context)->options.learning_rate; }

void toy_train(ToyRun *run) {
    run->training = train_open(&run->spec);
    if (train_run(run->training)) die("the run has failed");
}

int toy_try(void (*work)(void *), void *argument) {
    return run_function(toy_output, sizeof toy_output, work, argument);
}

void toy_must(void (*work)(void *), void *argument) {
    int status = toy_try(work, argument);
    if (status) fail_msg("exit status %d:\n%s", status, toy_output);
}

void assert_same_weights(const char *a, const char *b) {
    char text[1024];
    int status = run_command(text, sizeof text, "cmp %s/last/model.safetensors %s/last/model.safetensors", a, b);
    if (status) fail_msg("%s", text);
}

double toy_judge(void *context, const float *outputs, int64_t n, double *values) {
    Judged *judged = context;
    double errors = 0;
    memcpy(judged->seen, outputs, (size_t)(n * CLASSES) * sizeof *outputs);
    judged->n = n;
    for (int64_t i = 0; i < n; i++) {
        const float *z = outputs + i * CLASSES;
        int predicted = z[0] >= z[1] && z[0] >= z[2] ? 0 : z[1] >= z[2] ? 1 : 2;
        errors += predicted != toy_class(toy_of(judged->run->validation), i);
    }
    values[0] = judged->calls < judged->n_verdicts ? judged->verdicts[judged->calls] : errors / (double)n;
    values[1] = (double)++judged->calls;
    return values[0];
}

static const char *const toy_judged[] = {"error", "calls"};

void set_judge(ToyRun *run, Judged *judged) {
    SelectionSpec *s = &run->spec.selection;
    judged->run = run;
    s->context = judged;
    s->evaluate = toy_judge;
    s->names = toy_judged;
    s->n_metrics = 2;
}
