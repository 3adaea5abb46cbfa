#include "tests/train/loop_rig.h"

#include <unistd.h>

#include "base/file.h"
#include "kernels/philox.h"
#include "tests/files.h"

char toy_output[1 << 16];
Device *(*toy_device)(void);

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

static Dataset *toy_open(int64_t n, uint64_t seed) {
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
        linear_backward(device,
                        (LayerGradients){.dw = param_view(&model->params, model->gradients, 0),
                                         .dbias = param_view(&model->params, model->gradients, 1)},
                        logits, x, w, WEIGHT_OUT_IN);
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

/* ---- tests for every device ---- */

typedef struct {
    const char *directory[2];
    uint64_t seed[2];
    int n;
} Sequence;

/* One training after the other on one device, which has at the end what it had at the beginning. */
static void train_in_sequence(void *argument) {
    const Sequence *s = argument;
    Device *device = toy_device();
    size_t scratch = 0;
    for (int i = 0; i < s->n; i++) {
        ToyRun *run = toy_run_open(device, s->directory[i],
                                   "-b 4 -g 2 --epochs 6 --log-interval 1 --learning-rate 0.05 "
                                   "--val-interval 0 --save-interval 0 --bucketing off",
                                   18, 9, s->seed[i]);
        toy_train(run);
        must_hold(train_state(run->training)->step == 15);
        toy_run_close(run);
        must_hold(i == 0 || device->allocated == scratch); /* the device's own, which stays */
        scratch = device->allocated;
    }
    device_close(device);
}

void trainings_do_not_know_of_each_other(void **state) {
    (void)state;
    Sequence both = {{run_directory(), run_directory()}, {1, 2}, 2};
    Sequence alone = {{run_directory(), NULL}, {2, 0}, 1};
    toy_must(train_in_sequence, &both);
    toy_must(train_in_sequence, &alone);
    assert_same_weights(both.directory[1], alone.directory[0]);
    double got[16], want[16];
    for (int i = 0; i < 2; i++) {
        const char *const names[] = {"val/loss", "val/hits"};
        int n = logged(both.directory[1], "val", names[i], got, 16);
        assert_int_equal(n, logged(alone.directory[0], "val", names[i], want, 16));
        assert_int_equal(n, 6);
        assert_memory_equal(got, want, (size_t)n * sizeof *got);
    }
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

static void judge_and_infer(void *argument) {
    const char *directory = argument;
    static float outputs[16 * CLASSES];
    Judged judged = {.n = 0};
    Device *device = toy_device();
    ToyRun *run = toy_run_open(device, directory,
                               "-b 4 -g 1 --epochs 4 --log-interval 1 --learning-rate 0.05 --val-interval 0 "
                               "--val-batch-size 4 --save-interval 5 --keep-checkpoints 9",
                               18, 11, 5);
    set_judge(run, &judged);
    toy_train(run);
    must_hold(judged.calls == 4 && judged.n == 11);
    train_outputs(run->training, run->validation, outputs);
    must_hold(!memcmp(outputs, judged.seen, 11 * CLASSES * sizeof *outputs));
    toy_run_close(run);
    for (int larger = 0; larger < 2; larger++) { /* in batches for which the memory was planned, and larger ones */
        char *arguments = xformat("--val-batch-size %d --base-checkpoint %s/last", larger ? 2 : 16, directory);
        Dataset *data = toy_open(11, 105);
        run = toy_run_open(device, "/nowhere", arguments, larger ? 1 : 11, 0, 5);
        run->training = train_open_inference(&run->spec);
        if (larger) run->options.val_batch_size = 16;
        memset(outputs, 0, sizeof outputs);
        train_outputs(run->training, data, outputs);
        for (int i = 0; i < 11 * CLASSES; i++)
            must_hold(fabs((double)(outputs[i] - judged.seen[i])) <= 1e-5 * (1 + fabs((double)judged.seen[i])));
        must_hold(!tensor_given(run->spec.model->gradients));
        toy_run_close(run);
        data->close(data);
    }
    device_close(device);
}

/* The evaluation counts the same errors as the metric, sample by sample: so the outputs came in order. */
void the_judge_sees_every_output_in_order(void **state) {
    (void)state;
    const char *directory = run_directory();
    toy_must(judge_and_infer, (void *)directory);
    double errors[8], hits[8], calls[8];
    assert_int_equal(logged(directory, "val", "val/error", errors, 8), 4);
    assert_int_equal(logged(directory, "val", "val/hits", hits, 8), 4);
    assert_int_equal(logged(directory, "val", "val/calls", calls, 8), 4);
    for (int i = 0; i < 4; i++) {
        assert_near(errors[i] + hits[i], 1, 1e-6);
        assert_true(calls[i] == i + 1);
    }
    assert_true(errors[0] != errors[3]);
    assert_contains(toy_output, " error=");
    assert_contains(toy_output, "[Memory] weights 128 B + gradients 128 B + AdamW 256 B + activations ");
    assert_contains(toy_output, " + data 580 B"); /* 29 samples of 5 numbers */
    char *path = keep(path_through(directory, "last/state.json")), *text = kept_text(path);
    assert_contains(text, "\"val/error\": ");
}
