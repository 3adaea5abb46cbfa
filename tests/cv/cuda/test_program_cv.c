/* train_cv on the emulated device: training, predictions, restarts, memory (tests/cuda/program_rig.h). */
#include "data/cv/synthetic.h"
#include "tests/cuda/program_rig.h"

/* Three donors' cells; a fold trains on one of them, validates on the next, tests on the last. */
static const char *const training = "--folds D1 --channels 8,8,16 -b 4 --val-batch-size 6 --epochs 1 --max-steps 3 "
                                    "--learning-rate 1e-3 --log-interval 1 --shift 2 --threads 2";

static char *line_of(const char *run, const char *options) {
    return xformat("%s --data %s -o %s %s %s", fixture.program, fixture.data, run, training, options);
}

static void must_do(const char *run, const char *options) {
    char *line = line_of(run, options);
    int status = run_command(fixture.output, sizeof fixture.output, "%s", line);
    if (status) fail_msg("%s\nexit status %d:\n%s", line, status, fixture.output);
    free(line);
}

/* The same, in a new directory: free(). */
static char *done(const char *options) {
    char *run = scratch_directory();
    must_do(run, options);
    return run;
}

static double last_in_fold(const char *run, const char *kind, const char *key) {
    char *fold = path_join(run, "fold_D1");
    double value = logged_last(fold, kind, key);
    free(fold);
    return value;
}

/* ---- what it learns ---- */

/* The differences that rounding may make. They were measured on the cpu, with the weights at the start changed by a
 * factor of 1 +- e each, at random: by e = 1e-7, as f32 rounds, losses of the third step and gradients' norms move by
 * up to 2.4e-6 of themselves, and sums in another order are some tens of roundings apart. By e = 2^-9, as bf16 rounds,
 * by up to 5e-3 and 0.14, for Adam divides gradients that are near 0 by themselves, and of two frames of a pool the
 * other may be the larger; here activations and gradients are rounded too: a factor of two to four. In float16, 2^-12,
 * it is 3e-3 and 0.11. */
static const struct {
    const char *capability, *options;
    double of_loss, of_gradients;
} cards[] = {{NULL, "--no-tf32", 1e-4, 1e-4}, {NULL, "--amp", 0.02, 0.3}, {"75", "--amp", 0.02, 0.3}};

static void training_matches_the_cpu(void **state) {
    (void)state;
    static const char *const values[][2] = {{"train", "train/loss"}, {"train", "train/grad_norm"}, {"val", "val/loss"}};
    char *cpu = done("--device cpu");
    for (size_t i = 0; i < sizeof cards / sizeof *cards; i++) {
        if (!emulated && cards[i].capability) continue;
        char *with = xformat("--device cuda %s", cards[i].options);
        set_emulator(NULL, cards[i].capability);
        char *run = done(with);
        for (int v = 0; v < 3; v++) {
            double want = last_in_fold(cpu, values[v][0], values[v][1]),
                   got = last_in_fold(run, values[v][0], values[v][1]);
            print_message("%s %s: %.6f, on the cpu %.6f\n", with, values[v][1], got, want);
            assert_true(fabs(got / want - 1) <= (v == 1 ? cards[i].of_gradients : cards[i].of_loss));
        }
        free(with);
        free(run);
    }
    set_emulator(NULL, NULL);
    assert_contains(fixture.output, "GPU: ");
    assert_contains(fixture.output, "VRAM: ");
    assert_contains(fixture.output, "Optimizations: CUDNN benchmark=");
    free(cpu);
}

/* ---- bits ---- */

static void assert_same_run(const char *a, const char *b) {
    char *x = path_join(a, "fold_D1"), *y = path_join(b, "fold_D1");
    assert_same_result(x, y);
    int status =
        run_command(fixture.output, sizeof fixture.output, "cmp %s/predictions_D1.csv %s/predictions_D1.csv", a, b);
    if (status) fail_msg("%s", fixture.output);
    free(x);
    free(y);
}

static void train_with_amp(const char *run) { must_do(run, "--device cuda --amp"); }

static void every_schedule_gives_the_same_bits(void **state) {
    (void)state;
    check_schedules(train_with_amp, assert_same_run);
}

/* In float16: the loss scale goes on where it was, too. */
static void a_resumed_run_gives_the_same_bits(void **state) {
    (void)state;
    set_emulator(NULL, "75");
    char *options = xformat("--device cuda --amp%s%s", emulated ? "" : " --epochs 100", long_enough());
    char *whole = done(options), *run = scratch_directory(), *fold = path_join(run, "fold_D1");
    char *line = line_of(run, options), *resumed = xformat("%s --resume auto", options);
    share_autotune_cache(whole, run);
    pid_t child = start_command(run, line);
    assert_int_equal(signal_at_step(fold, child, 2, SIGTERM), 128 + SIGTERM);
    must_do(run, resumed);
    assert_contains(fixture.output, "[Resume]");
    assert_same_run(whole, run);
    set_emulator(NULL, NULL);
    char *owned[] = {options, whole, run, fold, line, resumed};
    for (int i = 0; i < 6; i++) free(owned[i]);
}

/* ---- memory ---- */

/* Mixed batches have one more tensor than others; the plan is for them. */
static void memory_is_as_planned(void **state) {
    (void)state;
    const char *const types[] = {"--device cuda --amp", "--device cuda"};
    for (int i = 0; i < 2; i++) {
        char *run = done(types[i]), *fold = path_join(run, "fold_D1");
        print_message("%s: ", types[i]);
        assert_memory_as_planned(fold);
        free(run);
        free(fold);
    }
}

static int train_briefly(const char *run) {
    char *line = line_of(run, "--device cuda --amp --max-steps 1");
    int status = run_command(fixture.output, sizeof fixture.output, "%s", line);
    free(line);
    return status;
}

static void a_run_ends_or_goes_on_whichever_call_runs_out_of_memory(void **state) {
    (void)state;
    check_shortage(train_briefly, assert_same_run, 41);
}

static int open_cells(void **state) {
    CvSynthetic wanted = {.cells = 48, .donors = 3, .shape = {16, 7, 7}, .photons = 4, .separation = 2, .seed = 5};
    int64_t files;
    Error error;
    (void)state;
    fixture.data = path_join(run_directory(), "cells");
    fixture.program = cuda_program("train_cv");
    if (!cv_synthetic_write(fixture.data, &wanted, 2, &files, &error)) fail_msg("%s", error.text);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_matches_the_cpu), cmocka_unit_test(every_schedule_gives_the_same_bits),
        cmocka_unit_test(a_resumed_run_gives_the_same_bits), cmocka_unit_test(memory_is_as_planned),
        cmocka_unit_test(a_run_ends_or_goes_on_whichever_call_runs_out_of_memory)};
    return cmocka_run_group_tests(tests, open_cells, NULL);
}
