/* The last lines of a run: what was foretold of its memory against what was taken, for a run of each program; and that
 * the time of a step, measured and predicted, is of training steps alone. */
#include "data/flim_synthetic.h"
#include "kernels/ops_table.h"
#include "tests/train_rig.h"
#include "train/meter.h"

static char output[1 << 16];

static void must(const char *format, ...) PRINTF_LIKE(1, 2);
static void must(const char *format, ...) {
    char command[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    int status = run_command(output, sizeof output, "%s", command);
    if (status) fail_msg("%s: exit status %d:\n%s", command, status, output);
}

static double summary(const char *run, const char *key) {
    double value = 0;
    if (logged(run, "summary", key, &value, 1) != 1) fail_msg("%s has no %s", run, key);
    return value;
}

/* ---- memory ---- */

/* What follows `start` up to the end of its line. */
static const char *line_with(const char *start) {
    char *line = strstr(output, start);
    if (!line) fail_msg("there is no line '%s' in\n%s", start, output);
    line[strcspn(line, "\n")] = 0;
    return line;
}

/* The device's scratch, which is there before anything is planned, must not make the rest look small. */
static void expect_planned_memory(const char *run) {
    double planned = summary(run, "summary/planned_bytes"), peak = summary(run, "summary/peak_bytes");
    char *want = xformat("(measured / planned %.2f)", peak / planned);
    Device *device = cpu_device_open(2);
    double scratch = (double)device->allocated;
    device_close(device);
    print_message("besides %.0f bytes of scratch: planned %.0f, at most %.0f\n", scratch, planned - scratch,
                  peak - scratch);
    assert_true(fabs((peak - scratch) / (planned - scratch) - 1) < 0.05);
    assert_contains(line_with("[Done] memory: "), want);
    free(want);
}

static void memory_of_the_gpt_is_as_planned(void **state) {
    (void)state;
    static const char *const ways[] = {"--num-workers 3", "--num-workers 1 --grad-checkpointing",
                                       "--token-budget 300 --num-workers 2"};
    for (int i = 0; i < 3; i++) {
        char *run = scratch_directory();
        must("%s -m %s %s --output-dir %s -b 3 -g 2 --max-steps 5 --val-interval 3 --val-ratio 0.2 --device cpu %s",
             fixture.program, fixture.manifest, model_options, run, ways[i]);
        expect_planned_memory(run);
        free(run);
    }
}

static char *make_spectra(void) {
    char *directory = scratch_directory(), *program = xstrdup(program_at("prepare_psd"));
    must("%s --synthetic %s/made --sensors 2 --rows 20 && %s --input %s/made --output %s/data", program, directory,
         program, directory, directory);
    free(program);
    return directory;
}

static void memory_of_pretraining_is_as_planned(void **state) {
    (void)state;
    char *directory = make_spectra();
    must("%s pretrain -m %s/data/manifest.csv --split %s/data/splits/pooled*.json --size small -b 16 --max-steps 5 "
         "--threads 2 --device cpu --output-dir %s/run",
         program_at("train_psd"), directory, directory, directory);
    char *run = path_join(directory, "run");
    expect_planned_memory(run);
    free(run);
    free(directory);
}

static void memory_of_cells_is_as_planned(void **state) {
    (void)state;
    FlimSynthetic wanted = {.cells = 60, .donors = 3, .shape = {32, 7, 7}, .photons = 1, .separation = 2, .seed = 5};
    char *directory = scratch_directory(), *cells = path_join(directory, "cells");
    int64_t n;
    Error error;
    if (!flim_synthetic_write(cells, &wanted, 2, &n, &error)) fail_msg("%s", error.text);
    must("%s --data %s --output-dir %s/run --threads 2 --channels 8,8,8 -b 8 --epochs 2 --device cpu",
         program_at("train_cv"), cells, directory);
    for (int donor = 1; donor <= 3; donor++) { /* one behind the other, by one process */
        char *run = xformat("%s/run/fold_D%d", directory, donor);
        expect_planned_memory(run);
        free(run);
    }
    free(cells);
    free(directory);
}

/* ---- time ---- */

/* A device that reads and writes 1 GB/s, multiplies 10 GFLOP/s, and calls kernels for nothing: so small calls of the
 * loop's own are nothing too. */
static const char *made_up_rates(void) {
    static char *path;
    if (path) return path;
    Rates rates = {.date = "2026-11-21", .memory = 1e10, .bytes = {1, 0, {1e6}, {1e9}}};
    for (int kind = 0; kind < WORK_KINDS; kind++) rates.flops[kind][NUMBERS_F32][0] = (Curve){1, 100, {1e6}, {1e10}};
    Device *device = cpu_device_open(2);
    rates_device_name(device, rates.device);
    device_close(device);
    Error error;
    path = path_join(run_directory(), "rates.json");
    if (!rates_write(path, &rates, &error)) fail_msg("%s", error.text);
    return path;
}

/* 12 steps of the GPT; the predicted seconds of one. */
static double predicted_gpt(const char *rates, const char *more) {
    char *run = scratch_directory();
    must("%s -m %s %s --output-dir %s -b 3 -g 2 --max-steps 12 --val-ratio 0.2 --save-interval 0 --device cpu "
         "--calibration %s %s",
         fixture.program, fixture.manifest, model_options, run, rates, more);
    double seconds = summary(run, "summary/predicted_step_seconds");
    char *times = xformat("(measured / predicted %.2f), bound by ", summary(run, "summary/step_seconds") / seconds);
    assert_contains(line_with("[Done] a step: "), times);
    assert_contains(output, "(mean of 8; the first 4 are left out), predicted ");
    free(times);
    free(run);
    return seconds;
}

/* Nor does it matter how often the loop stops, or that the validation's batches are large. */
static void a_validation_is_no_part_of_a_step(void **state) {
    (void)state;
    double once = predicted_gpt(made_up_rates(), "--val-interval 1000 --log-interval 100");
    print_message("predicted: %.6f s\n", once);
    assert_true(once > 0);
    assert_true(predicted_gpt(made_up_rates(), "--val-interval 1 --log-interval 1") == once);
    assert_true(predicted_gpt(made_up_rates(), "--val-interval 4 --val-batch-size 5 --log-interval 3") == once);
}

/* Of a model whose micro-batches are all alike. The loop's own calls, that copy a few numbers, are not in the estimate:
 * less than a kilobyte of some hundred megabytes. */
static void a_run_and_its_estimate_predict_the_same(void **state) {
    (void)state;
    char *directory = make_spectra();
    char *command =
        xformat("%s pretrain -m %s/data/manifest.csv --split %s/data/splits/pooled*.json --size small -b 16 "
                "-g 2 --threads 2 --device cpu --calibration %s",
                program_at("train_psd"), directory, directory, made_up_rates());
    must("%s --max-steps 5 --output-dir %s/run", command, directory);
    char *run = path_join(directory, "run");
    double seconds = summary(run, "summary/predicted_step_seconds");
    must("%s --estimate --json --gpu here 2>/dev/null", command);
    json_t *root = json_loads(output, 0, NULL);
    assert_non_null(root);
    const json_t *card = json_array_get(json_object_get(root, "gpus"), 0);
    double estimated = json_number_value(json_object_get(card, "step_seconds"));
    print_message("the run: %.9f s, the estimate: %.9f s\n", seconds, estimated);
    assert_near(seconds, estimated, 100 / 1e9); /* norm_guard, which is not estimated, moves less than 100 bytes */
    json_decref(root);
    free(run);
    free(command);
    free(directory);
}

static void what_is_not_known_is_said(void **state) {
    (void)state;
    char *run = scratch_directory(), *short_one = scratch_directory();
    double value;
    must("%s -m %s %s --output-dir %s -b 3 --max-steps 5 --val-ratio 0 --device cpu --calibration none",
         fixture.program, fixture.manifest, model_options, run);
    assert_contains(output, "(mean of 1; the first 4 are left out)");
    assert_contains(output, "--calibrate --device cpu");
    assert_true(summary(run, "summary/step_seconds") > 0);
    assert_int_equal(logged(run, "summary", "summary/predicted_step_seconds", &value, 1), 0);
    must("%s -m %s %s --output-dir %s -b 3 --max-steps 4 --val-ratio 0 --device cpu --calibration none",
         fixture.program, fixture.manifest, model_options, short_one);
    assert_contains(output, "[Done] a step: not measured");
    assert_int_equal(logged(short_one, "summary", "summary/step_seconds", &value, 1), 0);
    free(run);
    free(short_one);
}

/* Ten steps of a call each, of which four are left out and after three of which there is another call. */
static void only_what_happens_while_it_runs_is_counted(void **state) {
    (void)state;
    Device *device = cpu_device_open(1);
    Tensor x = tensor_1d(device->allocate(device, 400), DTYPE_F32, 100);
    Meter meter = {0};
    Batch batch = {.n_sequences = 2, .n_tokens = 30, .size = 1000};
    enum { PAUSE = 300000 }; /* us */
    for (int step = 0; step < 10; step++) {
        bool pause = step >= 5 && step < 8; /* after the sixth step, the seventh and the eighth: validations */
        meter_start(&meter, device, step);
        assert_true(meter.runs == (step >= METER_LEFT_OUT));
        meter_batch(&meter, &batch);
        cast(device, x, x);
        if (!pause) continue;
        meter_stop(&meter, device, step + 1);
        meter_batch(&meter, &batch);
        cast(device, x, x);
        usleep(PAUSE);
    }
    meter_stop(&meter, device, 10);
    const OpWork *casts = &meter.work.ops[OP_cast];
    assert_int_equal(meter.steps, 6);
    assert_true(casts->all.calls == 6 && casts->all.bytes == 6 * 800);
    assert_true(casts->sizes[call_size(0, 800)].calls == 6);
    assert_true(meter.work.micro_batches == 6 && meter.work.tokens == 180 && meter.work.batch_bytes == 6000);
    assert_true(meter.seconds > 0 && meter.seconds < 3 * PAUSE * 1e-6);
    double before = meter.seconds;
    meter_waited(&meter, 1); /* while it is stopped */
    assert_true(meter.seconds == before);
    device->release(device, x.data, 400);
    device_close(device);
}

int main(void) {
    fixture_open("train_gpt");
    fixture.program = xstrdup(fixture.program); /* others are asked for */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_happens_while_it_runs_is_counted),
        cmocka_unit_test(a_validation_is_no_part_of_a_step),
        cmocka_unit_test(a_run_and_its_estimate_predict_the_same),
        cmocka_unit_test(what_is_not_known_is_said),
        cmocka_unit_test(memory_of_the_gpt_is_as_planned),
        cmocka_unit_test(memory_of_pretraining_is_as_planned),
        cmocka_unit_test(memory_of_cells_is_as_planned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
