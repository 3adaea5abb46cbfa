/* train_psd on the emulated device: both trainings and both encoders, evaluation, restarts, memory
 * (tests/cuda/program_rig.h). */
#include "kernels/cards.h"
#include "tests/cuda/program_rig.h"
#include "tests/psd/spectra.h"

/* 72 spectra to train on, three batches an epoch and twelve left out; 24 to validate on, the last batch half as large.
 */
enum { SENSORS = 4, EACH = 5 };
static const char *const training = "--size tiny -b 20 --val-batch-size 16 --epochs 3 --learning-rate 1e-3 "
                                    "--log-interval 1";
static const char *const convolutions = "--encoder cnn --hidden-dim 24 -b 4 --max-steps 4";

/* The command line of a command on the made-up spectra. */
static char *line_of(const char *command, const char *run, const char *options) {
    bool trains = !strcmp(command, "pretrain") || !strcmp(command, "finetune");
    return kept_format("%s %s -m %s/spectra.safetensors --split %s/split.json -o %s --threads 2 %s %s", fixture.program,
                       command, fixture.data, fixture.data, run, trains ? training : "", options);
}

static void must_do(const char *command, const char *run, const char *options) {
    char *line = line_of(command, run, options);
    int status = run_command(fixture.output, sizeof fixture.output, "%s", line);
    if (status) fail_msg("%s\nexit status %d:\n%s", line, status, fixture.output);
}

/* The same, in a new directory: free(). */
static char *done(const char *command, const char *options) {
    char *run = scratch_directory();
    must_do(command, run, options);
    return run;
}

/* The pretraining on the cpu from which others go on, done once. */
static const char *pretrained(void) {
    static char *run;
    if (!run) run = done("pretrain", "--device cpu");
    return run;
}

static char *finetuning(void) { return kept_format("--pretrained %s/last", pretrained()); }

/* ---- what it learns ---- */

static const struct {
    const char *capability, *options;
    double tolerance;
} cards[] = {{NULL, "--no-tf32", 1e-4}, {NULL, "--amp", 0.02}, {"75", "--amp", 0.02}};
enum { CARDS = sizeof cards / sizeof *cards };

typedef struct {
    const char *kind, *key;
} Logged;

/* Tolerances as of train_gpt: f32 losses differ by the order of sums, which a few steps of AdamW at a rate of 1e-3
 * carry on; 16-bit ones by the rounding of activations, 2^-9 each, of which some hundred lie one behind the other. */
static void compare_with_cpu(const char *command, const char *options, const Logged *values, int n) {
    char *on_cpu = kept_format("%s --device cpu", options), *cpu = keep(done(command, on_cpu));
    for (int i = 0; i < CARDS; i++) {
        if (!emulated && cards[i].capability) continue;
        char *with = kept_format("%s --device cuda %s", options, cards[i].options);
        set_emulator(NULL, cards[i].capability);
        char *run = keep(done(command, with));
        for (int v = 0; v < n; v++) {
            double want = logged_last(cpu, values[v].kind, values[v].key),
                   got = logged_last(run, values[v].kind, values[v].key);
            print_message("%s %s %s: %.6f, on the cpu %.6f\n", command, with, values[v].key, got, want);
            assert_true(fabs(got / want - 1) <= cards[i].tolerance);
        }
    }
    set_emulator(NULL, NULL);
}

TEST(pretraining_matches_the_cpu) {
    static const Logged values[] = {{"train", "train/mae_loss"},
                                    {"train", "train/sicr_loss"},
                                    {"train", "train/grad_norm"},
                                    {"val", "val/mae_loss"},
                                    {"val", "val/sicr_loss"}};
    compare_with_cpu("pretrain", "", values, 5);
}

TEST(classifiers_match_the_cpu) {
    static const Logged values[] = {{"train", "train/loss"}, {"train", "train/grad_norm"}, {"val", "val/loss"}};
    char *options = finetuning();
    compare_with_cpu("finetune", options, values, 3);
    compare_with_cpu("finetune", convolutions, values, 3);
}

/* ---- what a classifier says ---- */

/* The numbers of predictions_finetuned.csv, row by row; how many. */
static int predictions(const char *run, double *values, int capacity) {
    char *path = kept_path(run, "predictions_finetuned.csv"), *text = kept_text(path), *at = strchr(text, '\n');
    int n = 0;
    for (char *cell = strtok(at, ",\n"); cell; cell = strtok(NULL, ",\n")) {
        char *end;
        double value = strtod(cell, &end);
        if (!*end && end > cell && n < capacity) values[n++] = value;
    }
    return n;
}

TEST(evaluation_matches_the_cpu) {
    enum { MOST = 1000 };
    double want[MOST], got[MOST];
    char *tuned = keep(done("finetune", "--device cpu --epochs 20 --learning-rate 1e-2"));
    char *of_cpu = kept_format("--device cpu --checkpoint %s/last", tuned), *cpu = keep(done("evaluate", of_cpu));
    int n = predictions(cpu, want, MOST);
    assert_true(n > 24 * 6); /* of each spectrum of the test six probabilities, and more */
    for (int i = 0; i < 2; i++) {
        char *with = kept_format("%s --device cuda --checkpoint %s/last", cards[i].options, tuned);
        char *run = keep(done("evaluate", with));
        double worst = 0;
        assert_int_equal(predictions(run, got, MOST), n);
        for (int k = 0; k < n; k++) worst = fmax(worst, fabs(got[k] - want[k]));
        print_message("predictions %s differ by %.2g at most\n", cards[i].options, worst);
        assert_true(worst <= cards[i].tolerance);
    }
}

/* ---- bits ---- */

/* Commands and options that are run in every way. */
static const char *const ways[][2] = {{"pretrain", "--device cuda --amp"},
                                      {"finetune", "--device cuda --amp --encoder cnn --hidden-dim 24 -b 4 "
                                                   "--val-batch-size 16 --max-steps 4 --save-interval 2"}};
enum { WAYS = sizeof ways / sizeof *ways };

TEST(every_schedule_gives_the_same_bits) {
    const char *const seeds[] = {NULL, "1", "7"};
    for (int w = 0; w < WAYS; w++) {
        char *runs[3];
        for (int i = 0; i < 3; i++) {
            set_emulator(seeds[i], NULL);
            runs[i] = scratch_directory();
            if (i) share_autotune_cache(runs[0], runs[i]);
            must_do(ways[w][0], runs[i], ways[w][1]);
            if (i) assert_same_result(runs[0], runs[i]);
        }
        for (int i = 0; i < 3; i++) free(runs[i]);
    }
    set_emulator(NULL, NULL);
}

/* In float16: the loss scale goes on where it was, too. */
TEST(a_resumed_run_gives_the_same_bits) {
    set_emulator(NULL, "75");
    for (int w = 0; w < WAYS; w++) {
        char *options = kept_format("%s%s", ways[w][1], long_enough()),
             *resumed = kept_format("%s --resume auto", options);
        char *whole = keep(done(ways[w][0], options)), *run = kept_folder(), *line = line_of(ways[w][0], run, options);
        share_autotune_cache(whole, run);
        assert_int_equal(signal_at_step(run, start_command(run, line), 2, SIGTERM), 128 + SIGTERM);
        must_do(ways[w][0], run, resumed);
        assert_contains(fixture.output, "[Resume]");
        assert_same_result(whole, run);
    }
    set_emulator(NULL, NULL);
}

/* ---- memory ---- */

TEST(memory_is_as_planned) {
    const char *const commands[] = {"pretrain", "finetune"}, *const encoders[] = {"", "--encoder cnn -b 4"};
    for (int c = 0; c < 2; c++)
        for (int e = 0; e < 2; e++) {
            char *options =
                xformat("--device cuda --max-steps 4 %s %s", e ? "--amp" : "--grad-checkpointing", encoders[e]);
            char *run = keep(done(commands[c], options));
            print_message("%s %s: ", commands[c], options);
            assert_memory_as_planned(run);
            free(options);
        }
}

static int pretrain_briefly(const char *run) {
    char *line = line_of("pretrain", run, "--device cuda --amp --max-steps 2");
    return run_command(fixture.output, sizeof fixture.output, "%s", line);
}

static int pretrain_more(const char *run, const char *more) {
    char *line = line_of("pretrain", run, more);
    return run_command(fixture.output, sizeof fixture.output, "%s", line);
}

/* All micro-batches are alike: a step is one recording, and nothing else. */
TEST(a_step_is_one_recording) {
    check_launches(pretrain_more, "--device cuda --amp -g 1 --epochs 100 --save-interval 0 --val-interval 999", 16, 0);
}

TEST(a_run_ends_or_goes_on_whichever_call_runs_out_of_memory) {
    check_shortage(pretrain_briefly, assert_same_result, 41);
}

/* The last batch of an epoch has fewer spectra, and operations may need more scratch for it. */
TEST(memory_is_enough_for_the_end_of_an_epoch) {
    char *few = kept_path(fixture.data, "few.json"), *run = kept_folder();
    write_text(few, "{\"s00\": {\"3\": {\"finetune\": [0, 1, 2, 3, 4, 5, 24, 25, 26, 27, 28, 29], \"test\": [48]}}}");
    int status =
        run_command(fixture.output, sizeof fixture.output,
                    "%s finetune -m %s/spectra.safetensors --split %s --sensor s00 --shots 3 -o %s --size tiny "
                    "-b 8 --epochs 2 --log-interval 1 --threads 2 --device cuda --amp",
                    fixture.program, fixture.data, few, run);
    if (status) fail_msg("%s", fixture.output);
    assert_contains(fixture.output, "12 samples, 2 micro-batches an epoch");
    assert_memory_as_planned(run);
}

/* Nine steps of one shape, five of which are measured: after the fourth, what comes again is repeated from recordings,
 * and three validations lie between. The run predicts what --estimate says of a step, and three launches for what the
 * loop does besides: it copies the sums and the results, and guards the norm. */
TEST(repeated_steps_are_predicted_too) {
    if (!emulated) skip();
    set_variable("EMULATE_CARD", "NVIDIA L4");
    char *run = keep(done("pretrain", "--device cuda --amp -g 1 --calibration none"));
    set_variable("EMULATE_CARD", NULL);
    double predicted = logged_last(run, "summary", "summary/predicted_step_seconds");
    assert_contains(fixture.output, "(mean of 5; the first 4 are left out), predicted ");
    must_do("pretrain", run, "--estimate --json --gpu l4 --amp -g 1 --calibration none 2>/dev/null");
    json_t *root = json_loads(fixture.output, 0, NULL);
    assert_non_null(root);
    const json_t *card = json_array_get(json_object_get(root, "gpus"), 0);
    double estimated = json_number_value(json_object_get(card, "step_seconds")), launch = card_of_key("l4")->launch;
    print_message("the run predicts %.9f s a step, the estimate %.9f\n", predicted, estimated);
    assert_near(predicted - estimated, 3 * launch, 0.01 * launch);
    json_decref(root);
}

static int open_spectra(void **state) {
    (void)state;
    PsdStore spectra = spectra_make(SENSORS, EACH);
    fixture.data = scratch_directory();
    fixture.program = cuda_program("train_psd");
    spectra_write(&spectra, fixture.data);
    spectra_free(&spectra);
    return 0;
}

int main(void) { return tests_run(open_spectra, NULL); }
