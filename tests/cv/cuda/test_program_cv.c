/* train_cv on the emulated device: training, predictions, restarts, memory (tests/cuda/program_rig.h). */
#include "data/cv/synthetic.h"
#include "tests/cuda/program_rig.h"

/* Three donors' cells; a fold trains on one of them, validates on the next, tests on the last. */
static const char *const training = "--folds D1 --channels 8,8,16 -b 4 --val-batch-size 6 --epochs 1 --max-steps 3 "
                                    "--learning-rate 1e-3 --log-interval 1 --shift 2 --threads 2";

static char *line_of(const char *run, const char *options) {
    return kept_format("%s --data %s -o %s %s %s", fixture.program, fixture.data, run, training, options);
}

static void must_do(const char *run, const char *options) {
    char *line = line_of(run, options);
    int status = run_command(fixture.output, sizeof fixture.output, "%s", line);
    if (status) fail_msg("%s\nexit status %d:\n%s", line, status, fixture.output);
}

/* The same, in a new directory: free(). */
static char *done(const char *options) {
    char *run = scratch_directory();
    must_do(run, options);
    return run;
}

static double last_in_fold(const char *run, const char *kind, const char *key) {
    return logged_last(kept_path(run, "fold_D1"), kind, key);
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

TEST(training_matches_the_cpu) {
    static const char *const values[][2] = {{"train", "train/loss"}, {"train", "train/grad_norm"}, {"val", "val/loss"}};
    char *cpu = keep(done("--device cpu"));
    for (size_t i = 0; i < sizeof cards / sizeof *cards; i++) {
        if (!emulated && cards[i].capability) continue;
        char *with = kept_format("--device cuda %s", cards[i].options);
        set_emulator(NULL, cards[i].capability);
        char *run = keep(done(with));
        for (int v = 0; v < 3; v++) {
            double want = last_in_fold(cpu, values[v][0], values[v][1]),
                   got = last_in_fold(run, values[v][0], values[v][1]);
            print_message("%s %s: %.6f, on the cpu %.6f\n", with, values[v][1], got, want);
            assert_true(fabs(got / want - 1) <= (v == 1 ? cards[i].of_gradients : cards[i].of_loss));
        }
    }
    set_emulator(NULL, NULL);
    assert_contains(fixture.output, "GPU: ");
    assert_contains(fixture.output, "VRAM: ");
    assert_contains(fixture.output, "Optimizations: CUDNN benchmark=");
}

/* ---- bits ---- */

static void assert_same_run(const char *a, const char *b) {
    char *x = kept_path(a, "fold_D1"), *y = kept_path(b, "fold_D1");
    assert_same_result(x, y);
    int status =
        run_command(fixture.output, sizeof fixture.output, "cmp %s/predictions_D1.csv %s/predictions_D1.csv", a, b);
    if (status) fail_msg("%s", fixture.output);
}

static void train_with_amp(const char *run) { must_do(run, "--device cuda --amp"); }

TEST(every_schedule_gives_the_same_bits) { check_schedules(train_with_amp, assert_same_run); }

/* In float16: the loss scale goes on where it was, too. */
TEST(a_resumed_run_gives_the_same_bits) {
    set_emulator(NULL, "75");
    char *options = kept_format("--device cuda --amp%s%s", emulated ? "" : " --epochs 100", long_enough());
    char *whole = keep(done(options)), *run = kept_folder(), *fold = kept_path(run, "fold_D1");
    char *line = line_of(run, options), *resumed = kept_format("%s --resume auto", options);
    share_autotune_cache(whole, run);
    pid_t child = start_command(run, line);
    assert_int_equal(signal_at_step(fold, child, 2, SIGTERM), 128 + SIGTERM);
    must_do(run, resumed);
    assert_contains(fixture.output, "[Resume]");
    assert_same_run(whole, run);
    set_emulator(NULL, NULL);
}

/* ---- memory ---- */

/* Mixed batches have one more tensor than others; the plan is for them. */
TEST(memory_is_as_planned) {
    const char *const types[] = {"--device cuda --amp", "--device cuda"};
    for (int i = 0; i < 2; i++) {
        char *run = keep(done(types[i])), *fold = kept_path(run, "fold_D1");
        print_message("%s: ", types[i]);
        assert_memory_as_planned(fold);
    }
}

static int train_briefly(const char *run) {
    char *line = line_of(run, "--device cuda --amp --max-steps 1");
    return run_command(fixture.output, sizeof fixture.output, "%s", line);
}

static int train_more(const char *run, const char *more) {
    char *line = line_of(run, kept_format("--epochs 100 %s", more));
    return run_command(fixture.output, sizeof fixture.output, "%s", line);
}

TEST(steps_are_recorded) { check_launches(train_more, "--device cuda --amp", 16, 5); }

TEST(a_run_ends_or_goes_on_whichever_call_runs_out_of_memory) { check_shortage(train_briefly, assert_same_run, 41); }

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

int main(void) { return tests_run(open_cells, NULL); }
