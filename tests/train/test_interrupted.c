/* Runs that end before their end: killed, stopped by a signal, without their data or their best checkpoint, and how
 * they go on. */
#include "kernels/device_open.h"
#include "tests/train/loop_rig.h"

#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/file.h"
#include "base/stop.h"
#include "checkpoint/state.h"

typedef enum { END_NEVER, END_KILL, END_STOP, END_STOP_TWICE, END_DATA, END_VALIDATION } End;

/* A run of 12 steps with a record every fourth, a checkpoint every third, a validation every second. */
typedef struct {
    const char *directory, *more;
    End end;
    int64_t at; /* step */
} Ending;

static const Ending *ending;
static atomic_bool data_gone, validation_gone;

/* Is called before the update of each step. */
static double end_or_rate(const void *context, int group, int64_t step, int64_t epoch) {
    (void)group, (void)epoch;
    if (step + 1 == ending->at && ending->end == END_KILL) kill(getpid(), SIGKILL);
    bool stops = ending->end == END_STOP || ending->end == END_STOP_TWICE;
    if (step + 1 == ending->at && stops && !stop_signal()) {
        kill(getpid(), SIGTERM);
        while (!stop_signal()) usleep(1000);
        if (ending->end == END_STOP_TWICE) kill(getpid(), SIGTERM);
        while (ending->end == END_STOP_TWICE) pause(); /* the step does not end */
    }
    data_gone = data_gone || (step + 1 == ending->at && ending->end == END_DATA);
    validation_gone = validation_gone || (step + 1 == ending->at && ending->end == END_VALIDATION);
    return toy_rate(context);
}

static bool fill_while_there(const Dataset *face, Batch *batch, const int32_t *samples, int n, Error *error) {
    bool gone = face->n_samples == 10 ? data_gone : validation_gone;
    return gone ? error_set(error, "codes.npy: cannot open: No such file") : toy_fill(face, batch, samples, n, error);
}

static void end_somewhere(void *argument) {
    ending = argument;
    stop_watch();
    Device *device = cpu_device_open(1);
    char *options = xformat("-b 2 -g 1 --epochs 40 --max-steps 12 --log-interval 4 --learning-rate 0.05 "
                            "--save-interval 3 --keep-checkpoints 2 --val-interval 2 %s",
                            ending->more);
    ToyRun *run = toy_run_open(device, ending->directory, options, 10, 7, 3);
    run->train->fill = run->validation->fill = fill_while_there;
    toy_set_rate(run, end_or_rate);
    toy_train(run);
    if (train_ended(run->training)) stop_forget();
    printf("signal %d\n", stop_signal());
    toy_run_close(run);
    device_close(device);
}

static void assert_same_numbers(const char *a, const char *b, const char *kind, const char *key) {
    double got[64], want[64];
    int n = logged(a, kind, key, got, 64);
    assert_int_equal(n, logged(b, kind, key, want, 64));
    assert_true(n > 2);
    for (int i = 0; i < n; i++) assert_true(got[i] == want[i]);
}

/* Compares means over windows that the end lies in, validations, the best and the last weights. */
TEST(an_interrupted_run_resumes_to_the_same_bits) {
    Ending whole = {.directory = run_directory(), .more = ""};
    toy_must(end_somewhere, &whole);
    for (End end = END_KILL; end <= END_VALIDATION; end++) {
        for (int64_t at = 5; at < 11; at += 3) {
            Ending e = {run_directory(), "", end, at};
            int status = toy_try(end_somewhere, &e);
            if (end == END_DATA || end == END_VALIDATION) {
                assert_int_equal(status, 1); /* some batches are ready already */
                assert_contains(toy_output, "codes.npy: cannot open: No such file. The ");
                assert_contains(toy_output, "/last; mend the data and give the same command with --resume auto");
            } else {
                assert_int_equal(status, end == END_KILL ? 128 + SIGKILL : end == END_STOP_TWICE ? 128 + SIGTERM : 0);
            }
            toy_must(end_somewhere, &(Ending){.directory = e.directory, .more = "--resume auto"});
            assert_same_weights(e.directory, whole.directory);
            assert_same_numbers(e.directory, whole.directory, "train", "train/loss");
            assert_same_numbers(e.directory, whole.directory, "train", "train/hits");
            assert_same_numbers(e.directory, whole.directory, "train", "step");
            assert_same_numbers(e.directory, whole.directory, "val", "val/loss");
            assert_same_numbers(e.directory, whole.directory, "val", "step");
            char text[1024];
            int differ = run_command(text, sizeof text, "cmp %s/best/model.safetensors %s/best/model.safetensors",
                                     e.directory, whole.directory);
            if (differ) fail_msg("%s", text);
        }
    }
}

static int validations_in(const char *directory) {
    double steps[64];
    return logged(directory, "val", "step", steps, 64);
}

/* The log stays that of the newest checkpoint until the repeated run saves one, however often the run goes back. */
TEST(a_run_that_goes_back_keeps_the_log_until_it_saves) {
    Ending e = {.directory = run_directory(), .more = ""};
    char before[1 << 14], after[1 << 14];
    toy_must(end_somewhere, &e);
    assert_int_equal(validations_in(e.directory), 6);
    run_command(before, sizeof before, "grep -v summary %s/log.jsonl", e.directory);
    char *back = kept_format("--resume %s/step_00000010", e.directory);
    for (int i = 0; i < 2; i++) {
        Ending killed = {e.directory, back, END_KILL, 11};
        assert_int_equal(toy_try(end_somewhere, &killed), 128 + SIGKILL);
        assert_int_equal(validations_in(e.directory), 5);
    }
    e.more = "--resume auto";
    toy_must(end_somewhere, &e);
    run_command(after, sizeof after, "grep -v summary %s/log.jsonl", e.directory);
    assert_string_equal(after, before);
    e.more = back;
    toy_must(end_somewhere, &e);
    assert_contains(toy_output, "[Resume] step_00000010, although step_00000012 is newer: the steps after 10 are "
                                "repeated");
    assert_int_equal(validations_in(e.directory), 6);
    run_command(after, sizeof after, "ls %s", e.directory);
    assert_null(strstr(after, "log.1"));
}

/* Moves the steps away and removes the links, as the program advises. */
TEST(a_run_begun_anew_keeps_the_log_before) {
    static char before[1 << 14], after[1 << 14];
    Ending e = {.directory = run_directory(), .more = ""};
    toy_must(end_somewhere, &e);
    run_command(before, sizeof before, "cd %s && cat log.jsonl && mkdir old && mv step_* old && rm last best",
                e.directory);
    e.more = "--resume auto";
    toy_must(end_somewhere, &e);
    assert_contains(toy_output, "log.jsonl was there before this run, and is kept as ");
    run_command(after, sizeof after, "cat %s/log.before.1.jsonl", e.directory);
    assert_string_equal(after, before);
}

TEST(a_finished_run_without_its_log_is_finished) {
    Ending e = {.directory = run_directory(), .more = ""};
    toy_must(end_somewhere, &e);
    char *log = kept_path(e.directory, "log.jsonl");
    assert_int_equal(unlink(log), 0);
    e.more = "--resume auto";
    toy_must(end_somewhere, &e);
    assert_contains(toy_output, "loss.svg: nothing to draw");
}

TEST(a_signal_in_the_last_step_stops_nothing) {
    toy_must(end_somewhere, &(Ending){run_directory(), "", END_STOP, 11});
    assert_contains(toy_output, "[Stopped] by signal 15 after step 11");
    assert_contains(toy_output, "signal 15\n");
    toy_must(end_somewhere, &(Ending){run_directory(), "", END_STOP, 12});
    assert_null(strstr(toy_output, "[Stopped]"));
    assert_contains(toy_output, "signal 0\n");
}

/* ---- a best checkpoint that cannot be written ---- */

static double judge_and_block(void *context, const float *outputs, int64_t n, double *values) {
    double value = toy_judge(context, outputs, n, values);
    const Judged *judged = context;
    if (judged->calls == 4) {
        make_directories(kept_path(toy_output_dir(judged->run), "step_00000004/mine"));
    }
    return value;
}

/* Opens a run that cannot keep the weights of its fourth validation. */
static ToyRun *open_losing(const char *directory, Judged *judged) {
    static const char options[] = "-b 2 -g 1 --max-steps 6 --val-interval 1 --save-interval 0";
    ToyRun *run = toy_run_open(cpu_device_open(1), directory, options, 10, 7, 3);
    set_judge(run, judged);
    run->spec.selection.evaluate = judge_and_block;
    return run;
}

static void lose_the_best(void *directory) {
    Judged judged = {.verdicts = {5, 4, 3, 1, 2, 6}, .n_verdicts = 6};
    ToyRun *run = open_losing(directory, &judged);
    run->training = train_open(&run->spec);
    int status = train_run(run->training);
    printf("status %d, best %g at step %lld\n", status, train_state(run->training)->best,
           (long long)train_state(run->training)->best_step);
}

static double judge_and_spoil(void *context, const float *outputs, int64_t n, double *values) {
    double value = judge_and_block(context, outputs, n, values);
    const Judged *judged = context;
    const Toy *toy = toy_of(judged->run->train);
    for (int e = 0; judged->calls == 4 && e < 10 * FEATURES; e++) toy->x[e] = NAN;
    return value;
}

static const char *blocked; /* the folder of the run */

/* Makes way for the checkpoint of the fourth step. Is called for the message of a step that is not finite, whose update
 * has waited for the write that failed. */
static const char *make_way_and_name(const Dataset *dataset, int64_t sample) {
    (void)dataset, (void)sample;
    char text[256];
    run_command(text, sizeof text, "rm -rf %s/step_00000004", blocked);
    return "sample";
}

static void lose_the_best_and_stop(void *directory) {
    Judged judged = {.verdicts = {5, 4, 3, 1}, .n_verdicts = 4};
    ToyRun *run = open_losing(directory, &judged);
    run->spec.selection.evaluate = judge_and_spoil;
    blocked = directory;
    run->spec.train->sample_id = make_way_and_name;
    toy_train(run);
}

TEST(a_lost_best_stays_lost_where_a_nan_stops_the_run) {
    const char *directory = run_directory();
    assert_int_equal(toy_try(lose_the_best_and_stop, (void *)(uintptr_t)directory), 1);
    assert_contains(toy_output, "the weights of step 4, the best so far, could not be kept");
    assert_contains(toy_output, "step 5: the loss or its gradient is not finite");
    char *path = kept_path(directory, "step_00000004/state.json"), *text = kept_text(path);
    assert_contains(text, "\"best_step\": 3,");
}

/* A better checkpoint is kept later: then nothing is lost. */
static void lose_and_find(void *directory) {
    Judged judged = {.verdicts = {5, 4, 3, 2, 1, 6}, .n_verdicts = 6};
    toy_train(open_losing(directory, &judged));
}

TEST(a_lost_best_does_not_matter_after_a_better_one) {
    toy_must(lose_and_find, (void *)(uintptr_t)run_directory());
    assert_contains(toy_output, "the weights of step 4, the best so far, could not be kept");
    assert_null(strstr(toy_output, "are lost"));
}

/* A run that was stopped before its last validation, which finds nothing better, repeats it once only. */
TEST(a_validation_after_a_resume_is_saved) {
    Ending e = {run_directory(), "--learning-rate 0", END_VALIDATION, 12};
    double steps[64];
    toy_try(end_somewhere, &e);
    Ending again = {.directory = e.directory, .more = "--learning-rate 0 --resume auto"};
    for (int i = 0; i < 2; i++) {
        toy_must(end_somewhere, &again);
        assert_int_equal(logged(e.directory, "val", "step", steps, 64), 6);
    }
}

TEST(a_best_that_cannot_be_written_is_not_the_best) {
    const char *directory = run_directory();
    char text[256];
    toy_must(lose_the_best, (void *)(uintptr_t)directory);
    assert_contains(toy_output, "step_00000004 is in the way and no checkpoint of this program");
    assert_contains(toy_output, "the weights of step 4, the best so far, could not be kept");
    assert_contains(toy_output, "status 1, best 2 at step 5");
    run_command(text, sizeof text, "cd %s && (readlink best || cat best)", directory);
    assert_string_equal(text, "step_00000005\n");
}

/* ---- nothing trained ---- */

static double rate_then_stop(const void *context, int group, int64_t step, int64_t epoch) {
    (void)group, (void)epoch;
    if (step == 1 && !stop_signal()) {
        kill(getpid(), SIGTERM);
        while (!stop_signal()) usleep(1000);
    }
    return toy_rate(context);
}

static bool stopped_on_nan;

static void train_on_nan(void *options) {
    if (stopped_on_nan) stop_watch();
    Device *device = cpu_device_open(1);
    ToyRun *run = toy_run_open(device, run_directory(), options, 10, 0, 3);
    if (stopped_on_nan) toy_set_rate(run, rate_then_stop);
    Toy *toy = run->train->state;
    for (int e = 0; e < 10 * FEATURES; e++) toy->x[e] = NAN;
    run->training = train_open(&run->spec);
    printf("status %d\n", train_run(run->training));
}

TEST(a_run_that_trained_nothing_fails) {
    toy_must(train_on_nan, "-b 2 -g 1 --max-steps 3 --skip-nonfinite");
    assert_contains(toy_output, "all 3 steps were skipped, since their losses or gradients were not finite");
    assert_contains(toy_output, "status 1");
    assert_contains(toy_output, "[Done] report: "); /* its page is not left saying that it runs */
    stopped_on_nan = true;                          /* a stopped run may still train something later */
    toy_must(train_on_nan, "-b 2 -g 1 --max-steps 3 --skip-nonfinite");
    stopped_on_nan = false;
    assert_null(strstr(toy_output, "were skipped"));
    assert_contains(toy_output, "[Stopped] by signal 15 after step 2");
    assert_contains(toy_output, "status 0");
}

/* ---- a folder with a run in it ---- */

/* Reseals state.json with another place in the data. */
static void move_place(const char *directory, int64_t batch_index) {
    char *path = keep(path_through(directory, "last")), *file = keep(path_through(directory, "last/state.json"));
    TrainState s;
    Error error;
    assert_true(state_read(path, &s, &error));
    s.batch_index = batch_index;
    char *text = keep(state_to_json(&s));
    assert_true(file_write_atomic(file, text, strlen(text), &error));
    free(s.options_json);
}

TEST(no_run_begins_in_the_folder_of_another) {
    Ending e = {.directory = run_directory(), .more = ""};
    char before[1 << 14], after[1 << 14];
    toy_must(end_somewhere, &e);
    move_place(e.directory, 1000);
    e.more = "--resume auto";
    assert_int_equal(toy_try(end_somewhere, &e), 1);
    assert_contains(toy_output, "state.json: \"batch_index\" is 1000, and epoch 3 has 5 micro-batches");
    run_command(before, sizeof before, "cat %s/log.jsonl; ls %s", e.directory, e.directory);
    char *file = keep(path_through(e.directory, "last/state.json")), *text = kept_text(file),
         *digit = strstr(text, "\"step\": 12");
    digit[strlen("\"step\": ")] = '3';
    write_text(file, "%s", text);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(toy_try(end_somewhere, &e), 1);
        assert_contains(toy_output, "step_00000012 cannot be used: state.json is damaged");
        assert_contains(toy_output, "Nothing was changed; move it away to go on from step_000000");
        run_command(after, sizeof after, "cat %s/log.jsonl; ls %s", e.directory, e.directory);
        assert_string_equal(after, before);
        e.more = "";
    }
}
