/* Tests of the loop for every device, which toy_device opens. A program that sets it has them. */
#include "kernels/ops_table.h"
#include "tests/test.h"
#include "tests/train/loop_rig.h"
#include "train/plan/memory.h"

Device *(*toy_device)(void);

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

TEST(trainings_do_not_know_of_each_other) {
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
TEST(the_judge_sees_every_output_in_order) {
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

/* Steps after the first take no memory of the device: more of them allocate as often. */
static void count_allocations(void *unused) {
    (void)unused;
    int64_t calls[2];
    for (int i = 0; i < 2; i++) {
        Device *device = toy_device();
        char *arguments =
            xformat("-b 4 -g 2 --max-steps %d --log-interval 2 --val-interval 3 --bucketing off", i ? 24 : 6);
        ToyRun *run = toy_run_open(device, run_directory(), arguments, 16, 8, 1);
        toy_train(run);
        calls[i] = device->allocation_calls;
        toy_run_close(run);
        device_close(device);
        free(arguments);
    }
    must_hold(calls[0] > 0 && calls[0] == calls[1]);
}

TEST(steps_take_no_memory_of_the_device) { toy_must(count_allocations, NULL); }

/* ---- a model with a table of which most rows are never used ---- */

enum { TABLE_ROWS = 4099, USED_ROWS = 4 };

/* The rows of the table that the micro-batch's rows look up. */
static const int32_t looked_up[USED_ROWS] = {7, 4098, 7, 3001};

static Tensor ids; /* [USED_ROWS], on the device */
static void (*toy_run)(Model *, Device *, Arena *, const Batch *, const Tensor *, const Pass *);

/* The toy's loss, and the squared error of some rows of the table. */
static void run_with_table(Model *model, Device *device, Arena *arena, const Batch *batch, const Tensor *fields,
                           const Pass *pass) {
    toy_run(model, device, arena, batch, fields, pass);
    if (!pass->train) return;
    size_t mark = arena_mark(arena);
    Tensor x = arena_2d(arena, DTYPE_F32, USED_ROWS, FEATURES), zeros = arena_2d(arena, DTYPE_F32, USED_ROWS, FEATURES);
    Tensor loss = arena_1d(arena, DTYPE_F32, USED_ROWS), none = tensor_none();
    device->clear(device, zeros.data, tensor_bytes(zeros));
    embedding_forward(device, x, none, ids, param_view(&model->params, model->weights, 2), none, none);
    squared_error_forward_backward(device, loss, x, zeros, tensor_1d(pass->loss_scale.data, DTYPE_F32, 1), none);
    embedding_backward(device, param_view(&model->params, model->gradients, 2), none, x, none, ids, none);
    arena_release(arena, mark);
}

/* Marks the rows that are looked up. */
static const uint8_t *used_rows(void) {
    static uint8_t used[TABLE_ROWS];
    for (int i = 0; i < USED_ROWS; i++) used[looked_up[i]] = 1;
    return used;
}

typedef struct {
    const char *directory, *options;
    bool masked, decays;
} Table;

/* Not a schedule, which --max-steps would change. */
static double at_all_times(const void *context, int group, int64_t step, int64_t epoch) {
    (void)context, (void)group, (void)step, (void)epoch;
    return 0.05;
}

static ToyRun *open_run(Device *device, const Table *plan) {
    ids = tensor_1d(device->allocate(device, sizeof looked_up), DTYPE_I32, USED_ROWS);
    device->upload(device, ids.data, looked_up, sizeof looked_up);
    device->synchronize(device);
    char *options = xformat("-b 4 -g 2 --epochs 3 --log-interval 1 --learning-rate 0.05 --val-interval 0 "
                            "--save-interval 0 --bucketing off --weight-decay 0.1 --grad-clip 0.5 %s",
                            plan->options);
    ToyRun *run = toy_run_open(device, plan->directory, options, 18, 9, 1);
    Model *model = run->spec.model;
    int table = param_add(&model->params, INIT_NORMAL, 1, plan->decays, TABLE_ROWS, FEATURES, "table");
    if (plan->masked) model->params.items[table].used = used_rows();
    toy_set_rate(run, at_all_times);
    toy_run = model->forward_backward;
    model->forward_backward = run_with_table;
    return run;
}

static void train_table(void *argument) {
    Device *device = toy_device();
    ToyRun *run = open_run(device, argument);
    toy_train(run);
    toy_run_close(run);
    device->release(device, ids.data, sizeof looked_up);
    device_close(device);
}

static void assert_same_files(const char *a, const char *b) {
    static const char *const files[] = {"model.safetensors", "optimizer.safetensors"};
    char text[1024];
    for (int i = 0; i < 2; i++) {
        int status = run_command(text, sizeof text, "cmp %s/last/%s %s/last/%s", a, files[i], b, files[i]);
        if (status) fail_msg("%s", text);
    }
}

/* 9 steps with clipping, with masks and without: the same weights, moments, losses and norms. */
TEST(unused_rows_stay_and_the_others_keep_their_bits) {
    Table plain = {run_directory(), "", false, false}, masked = {run_directory(), "", true, false};
    toy_must(train_table, &plain);
    toy_must(train_table, &masked);
    assert_same_files(plain.directory, masked.directory);
    static const char *const names[] = {"train/loss", "train/grad_norm"};
    for (int i = 0; i < 2; i++) {
        double got[32], want[32];
        int n = logged(masked.directory, "train", names[i], got, 32);
        assert_int_equal(n, logged(plain.directory, "train", names[i], want, 32));
        assert_true(n > 5);
        assert_memory_equal(got, want, (size_t)n * sizeof *got);
    }
}

/* Returns the table of the last checkpoint, [TABLE_ROWS, FEATURES]; free(). */
static float *read_table(const char *directory) {
    TensorFile file = open_in(directory, "last/model.safetensors");
    float *table = floats(&file, "", "table");
    tensor_file_close(&file);
    return table;
}

/* Rows that are used decay as without masks; the others are those of a run in which nothing decays. */
TEST(unused_rows_do_not_decay) {
    Table decays = {run_directory(), "", false, true}, masked = {run_directory(), "", true, true};
    Table stays = {run_directory(), "", false, false};
    toy_must(train_table, &decays);
    toy_must(train_table, &masked);
    toy_must(train_table, &stays);
    float *want = read_table(decays.directory), *got = read_table(masked.directory),
          *start = read_table(stays.directory);
    const uint8_t *used = used_rows();
    const size_t row = FEATURES * sizeof(float);
    for (int r = 0; r < TABLE_ROWS; r++)
        if (memcmp(got + r * FEATURES, (used[r] ? want : start) + r * FEATURES, row)) fail_msg("row %d", r);
    assert_true(memcmp(want, start, row) && memcmp(want + 7 * FEATURES, start + 7 * FEATURES, row));
    free(want), free(got), free(start);
}

/* A checkpoint has the same layout with masks and without: the first part of the run may do without. */
TEST(a_resumed_run_keeps_unused_rows) {
    Table whole = {run_directory(), "", true, false}, first = {run_directory(), "--max-steps 3", true, false};
    Table plain = {run_directory(), "--max-steps 3", false, false};
    toy_must(train_table, &whole);
    for (int i = 0; i < 2; i++) {
        Table *part = i ? &plain : &first;
        toy_must(train_table, part);
        char *options = xformat("--resume %s/last", part->directory);
        Table rest = {run_directory(), options, true, false};
        toy_must(train_table, &rest);
        assert_same_files(rest.directory, whole.directory);
    }
}

static void count_work(void *unused) {
    (void)unused;
    Device *device = toy_device();
    double bytes[2], cleared[2];
    size_t optimizer[2];
    for (int masked = 0; masked < 2; masked++) {
        Table plan = {run_directory(), "", masked, false};
        ToyRun *run = open_run(device, &plan);
        Device *dry = dry_device_open();
        Batch none = {0};
        memory_dry_step(run->spec.model, dry, &none, 0, (StepOptions){0});
        bytes[masked] = dry->counters[OP_adamw_update].bytes;
        must_hold(dry->counters[OP_clear_segments].calls == 1);
        cleared[masked] = dry->counters[OP_clear_segments].bytes;
        Batch largest = run->spec.batch.largest(run->train, 4, 0);
        largest.fields[largest.n_fields] = run->train->device_data;
        optimizer[masked] = memory_plan(run->spec.model, NULL, DTYPE_F32, &largest, NULL, (StepOptions){0}).optimizer;
        batch_close(&largest);
        device_close(dry);
        toy_run_forget(run);
        device->release(device, ids.data, sizeof looked_up);
    }
    const double head = CLASSES * FEATURES + CLASSES;
    must_hold(bytes[0] == 28 * (head + TABLE_ROWS * FEATURES) + 4);
    /* The bias and the table, each of whole lines of 16 numbers: the head's weights are overwritten. */
    must_hold(cleared[0] == 4 * (16 + TABLE_ROWS * FEATURES + 1));
    must_hold(cleared[1] == 4 * (16 + 3 * FEATURES + 1) + TABLE_ROWS);
    must_hold(bytes[1] == 28 * (head + 3 * FEATURES) + TABLE_ROWS + 4);
    must_hold(optimizer[1] == optimizer[0] + 2 * TABLE_ROWS); /* masks of the update and of the gradients */
    device_close(device);
}

TEST(work_and_memory_know_unused_rows) { toy_must(count_work, NULL); }
