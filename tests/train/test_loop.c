/* What the loop does beside training: validations and what they decide, rates by group, only full micro-batches,
 * several trainings in one process, inference. */
#include "kernels/device_open.h"
#include "tests/train/loop_rig.h"

#include <signal.h>
#include <stdatomic.h>

#include "base/file.h"
#include "base/stop.h"
#include "checkpoint/state.h"

static Device *open_cpu(void) { return cpu_device_open(1); }

/* A run of 10 samples in micro-batches of two, two of them a step: an epoch is two and a half steps. */
typedef struct {
    const char *directory, *options;
    Judged judged;
    int64_t patience, extension_epochs, most_extensions;
    int monitor;
    bool drop_last, hook, coupled, moved, moved_back;
    TrainState after;
    int64_t validation;
} Plan;

/* Return options of the ToyRun that is the context of a RateSpec. */
static const char *output_of(const void *context) { return ((const ToyRun *)context)->options.output_dir; }
static double rate_of(const void *context) { return ((const ToyRun *)context)->options.learning_rate; }

static void set_rate(ToyRun *run, double (*at)(const void *, int, int64_t, int64_t)) {
    run->spec.rate.at = at;
    run->spec.rate.context = run;
}

static double by_group(const void *context, int group, int64_t step, int64_t epoch) {
    (void)context;
    return group ? 0 : 0.01 * (double)(1 + step) + 0.1 * (double)epoch;
}

/* In the fourth step another run takes the name of the folder. */
static double move_the_folder(const void *context, int group, int64_t step, int64_t epoch) {
    char text[64];
    const char *run = output_of(context);
    if (step == 3 && !group)
        must_hold(!run_command(text, sizeof text,
                               "mv %s %s.moved && mkdir %s && cd %s && for i in log.jsonl loss.svg choices.txt; do "
                               "echo other >$i; done",
                               run, run, run, run));
    return by_group(context, group, step, epoch);
}

/* In the fourth step the folder goes, in the eighth it comes back. */
static double move_and_move_back(const void *context, int group, int64_t step, int64_t epoch) {
    char text[64];
    const char *run = output_of(context), *const suffixes[] = {"", ".moved"};
    if ((step == 3 || step == 7) && !group)
        must_hold(!run_command(text, sizeof text, "! [ -e %s%s ] || mv %s%s %s%s", run, suffixes[step == 7], run,
                               suffixes[step == 7], run, suffixes[step == 3]));
    return by_group(context, group, step, epoch);
}

static char *no_choices(const Device *device) {
    (void)device;
    return xstrdup("none\n");
}

static void follow(void *argument) {
    Plan *plan = argument;
    Device *device = open_cpu();
    char *options = xformat("-b 2 -g 2 --log-interval 1 --learning-rate 0.05 --bucketing off %s", plan->options);
    ToyRun *run = toy_run_open(device, plan->directory, options, 10, plan->validation ? plan->validation : 7, 3);
    TrainSpec *spec = &run->spec;
    if (plan->judged.n_verdicts) set_judge(run, &plan->judged);
    spec->selection.patience = plan->patience;
    spec->selection.extension_epochs = plan->extension_epochs;
    spec->selection.max_extensions = plan->most_extensions;
    spec->selection.metric = plan->monitor;
    spec->batch.drop_last = plan->drop_last;
    spec->rate.coupled_decay = plan->coupled;
    if (plan->hook) set_rate(run, by_group);
    if (plan->moved) set_rate(run, move_the_folder);
    if (plan->moved_back) set_rate(run, move_and_move_back);
    if (plan->moved) device->choices = no_choices;
    toy_train(run);
    toy_run_close(run);
    device_close(device);
}

/* The steps of the records of a kind. */
static int steps_of(const char *directory, const char *kind, double *steps) {
    return logged(directory, kind, "step", steps, 64);
}

static void a_validation_ends_each_epoch(void **state) {
    (void)state;
    Plan plan = {.directory = run_directory(), .options = "--epochs 4 --val-interval 0", .monitor = -1};
    static const double want[] = {3, 5, 8, 10}; /* micro-batches 5 and 10 lie in steps 3 and 5, and so on */
    double steps[64];
    toy_must(follow, &plan);
    assert_int_equal(steps_of(plan.directory, "val", steps), 4);
    assert_memory_equal(steps, want, sizeof want);
}

/* Also where an epoch has fewer steps than a line is given for. */
static void an_epoch_that_is_validated_has_its_line(void **state) {
    (void)state;
    Plan plan = {
        .directory = run_directory(), .options = "--epochs 4 --val-interval 0 --log-interval 4", .monitor = -1};
    static const double want[] = {3, 4, 5, 8, 10}, every_fourth[] = {4, 8, 10};
    double steps[64];
    toy_must(follow, &plan);
    assert_int_equal(steps_of(plan.directory, "train", steps), 5);
    assert_memory_equal(steps, want, sizeof want);
    plan =
        (Plan){.directory = run_directory(), .options = "--epochs 4 --val-interval 2 --log-interval 4", .monitor = -1};
    toy_must(follow, &plan);
    assert_int_equal(steps_of(plan.directory, "train", steps), 3);
    assert_memory_equal(steps, every_fourth, sizeof every_fourth);
}

static void nothing_is_written_into_a_folder_that_took_the_name(void **state) {
    (void)state;
    char *run = path_join(run_directory(), "run"), *moved = xformat("%s.moved", run), text[256];
    double steps[64];
    Plan plan = {.directory = run, .options = "--epochs 4 --save-interval 2", .monitor = -1, .moved = true};
    assert_int_equal(toy_try(follow, &plan), 1);
    assert_contains(toy_output, "is not the run's folder any more: what it has written is in ");
    run_command(text, sizeof text, "cd %s && echo * && cat *", run);
    assert_string_equal(text, "choices.txt log.jsonl loss.svg\nother\nother\nother\n");
    run_command(text, sizeof text, "cd %s && ls -d choices.txt loss.svg && readlink last && ! grep other *.*", moved);
    assert_string_equal(text, "choices.txt\nloss.svg\nstep_00000010\n");
    assert_int_equal(steps_of(moved, "train", steps), 10);
    free(moved);
    free(run);
}

static void a_folder_that_came_back_is_the_runs_own(void **state) {
    (void)state;
    char *run = xformat("%s/./run", run_directory()), text[256];
    Plan plan = {.directory = run, .options = "--epochs 4 --save-interval 2", .monitor = -1, .moved_back = true};
    toy_must(follow, &plan);
    assert_contains(toy_output, "the run goes on in ");
    run_command(text, sizeof text, "cd %s && ls -d loss.svg && readlink last", run);
    assert_string_equal(text, "loss.svg\nstep_00000010\n");
    free(run);
}

static void only_full_micro_batches_are_trained_on(void **state) {
    (void)state;
    Plan plan = {.directory = run_directory(),
                 .options = "--epochs 4 -b 3 -g 1 --val-interval 0",
                 .monitor = -1,
                 .drop_last = true};
    double steps[64];
    toy_must(follow, &plan);
    assert_contains(toy_output, "10 samples, 3 micro-batches an epoch, 12 steps");
    assert_int_equal(steps_of(plan.directory, "val", steps), 4);
    for (int i = 0; i < 4; i++) assert_true(steps[i] == 3 * (i + 1));
    plan.directory = run_directory();
    plan.options = "-b 11";
    assert_int_equal(toy_try(follow, &plan), 1);
    assert_contains(toy_output, "the training data has 10 samples, and micro-batches of fewer than -b 11 are left out");
    plan.directory = run_directory();
    plan.options = "-b 2 --token-budget 4";
    assert_int_equal(toy_try(follow, &plan), 1);
    assert_contains(toy_output, "only full ones are trained on; give -b instead");
}

static void the_metric_that_is_monitored_decides(void **state) {
    (void)state;
    for (int monitor = -1; monitor < 2; monitor++) {
        Plan plan = {.directory = run_directory(),
                     .options = "--epochs 8 --val-interval 1 --save-interval 0 --keep-checkpoints 99",
                     .monitor = monitor};
        double values[64];
        toy_must(follow, &plan);
        int n = logged(plan.directory, "val", monitor == 1 ? "val/hits" : "val/loss", values, 64), best = 0;
        assert_int_equal(n, 20);
        for (int i = 1; i < n; i++)
            if (values[i] < values[best]) best = i; /* of equals the first */
        char text[256], *link = path_join(plan.directory, "best"), *want = xformat("step_%08d", best + 1);
        assert_int_equal(run_command(text, sizeof text, "readlink %s", link), 0);
        assert_contains(text, want);
        free(link);
        free(want);
    }
}

/* Verdicts, from which the fourth validation is the best and the seventh the third without a better one. */
static Plan patient(void) {
    return (Plan){.directory = run_directory(),
                  .options = "--epochs 40 --val-interval 1 --save-interval 0",
                  .judged = {.verdicts = {5, 4, 6, 3, 3, 4, 9, 1, 1, 1}, .n_verdicts = 10},
                  .patience = 3,
                  .monitor = -1};
}

static void expect_end(const char *directory) {
    double steps[64];
    assert_contains(toy_output, "[Done] no better error for 3 validations: stopped at epoch 2; best at step 4\n");
    assert_null(strstr(toy_output, "[Stopped]"));
    assert_int_equal(steps_of(directory, "val", steps), 7);
    assert_int_equal(steps_of(directory, "train", steps), 7);
    char *picture = path_join(directory, "loss.svg");
    assert_int_equal(access(picture, R_OK), 0);
    free(picture);
}

static void patience_ends_the_run(void **state) {
    (void)state;
    Plan plan = patient();
    toy_must(follow, &plan);
    expect_end(plan.directory);
    plan.options = "--epochs 40 --val-interval 1 --save-interval 0 --resume auto";
    toy_must(follow, &plan); /* and it does not go on */
    expect_end(plan.directory);
}

/* Stopped after the fifth validation, with one that was no better behind it: two more may follow. */
static void patience_outlives_a_restart(void **state) {
    (void)state;
    Plan plan = patient();
    plan.options = "--epochs 40 --val-interval 1 --save-interval 0 --max-steps 5";
    toy_must(follow, &plan);
    plan.options = "--epochs 40 --val-interval 1 --save-interval 0 --resume auto";
    plan.judged.verdicts[0] = 4;
    plan.judged.verdicts[1] = 9;
    toy_must(follow, &plan);
    expect_end(plan.directory);
}

/* How many epochs the FLIM reference would train: a new best in one of the last three epochs there are adds two more,
 * twice at most; the run ends when five in a row were no better. */
static int epochs_of_reference(const double *verdicts, int epochs) {
    int worse = 0, extensions = 0;
    double best = INFINITY;
    for (int e = 0; e < epochs; e++) {
        worse = verdicts[e] < best ? 0 : worse + 1;
        if (worse >= 5) return e + 1;
        if (worse) continue;
        best = verdicts[e];
        if (e + 1 >= epochs - 2 && extensions < 2) {
            extensions++;
            epochs += 2;
        }
    }
    return epochs;
}

static void a_late_best_adds_epochs(void **state) {
    (void)state;
    static const double scripts[][20] = {
        {9, 8, 7, 6, 5, 4, 3, 2, 1, 0.5, 0.4, 0.3, 0.2, 0.1}, /* always better: both extensions */
        {1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2},           /* never again: five later it ends */
        {5, 6, 6, 4, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6},           /* in the third before the end: once */
        {5, 6, 4, 6, 6, 6, 6, 3, 6, 6, 6, 6, 6, 6},           /* too early; and nothing after the end counts */
        {5, 6, 6, 6, 6, 4, 6, 3, 6, 6, 6, 6, 6, 6},           /* in the last epoch, and in the last of those added */
    };
    static const int want[] = {10, 6, 8, 6, 10};
    for (int i = 0; i < 5; i++) {
        Plan plan = {.directory = run_directory(),
                     .options = "-b 5 -g 1 --epochs 6 --val-interval 0 --save-interval 0",
                     .judged = {.n_verdicts = 14},
                     .patience = 5,
                     .extension_epochs = 2,
                     .most_extensions = 2,
                     .monitor = -1};
        double steps[64];
        memcpy(plan.judged.verdicts, scripts[i], 14 * sizeof(double));
        toy_must(follow, &plan);
        assert_int_equal(epochs_of_reference(scripts[i], 6), want[i]);
        assert_int_equal(steps_of(plan.directory, "val", steps), want[i]);
    }
}

/* Stopped in the epochs that were added, a run goes on to their end. */
static void added_epochs_outlive_a_restart(void **state) {
    (void)state;
    Plan plan = {.directory = run_directory(),
                 .options = "-b 5 -g 1 --epochs 4 --val-interval 0 --save-interval 0 --max-steps 9",
                 .judged = {.verdicts = {5, 6, 6, 4, 7, 7, 7}, .n_verdicts = 7},
                 .extension_epochs = 2,
                 .most_extensions = 1,
                 .monitor = -1};
    double steps[64];
    toy_must(follow, &plan);
    assert_contains(toy_output, "the best so far came in epoch 3, the last is 3: 2 more (1 of 1 times)");
    plan.options = "-b 5 -g 1 --epochs 4 --val-interval 0 --save-interval 0 --resume auto";
    toy_must(follow, &plan);
    int n = steps_of(plan.directory, "val", steps);
    assert_true(steps[n - 1] == 12);
}

/* What a device has found fastest is written before the first checkpoint, and told to it when the run goes on. */
static char told[64];
static char *three_choices(const Device *device) {
    (void)device;
    return xstrdup("one two three\n");
}

static bool take_choices(Device *device, const char *text, Error *error) {
    (void)device;
    snprintf(told, sizeof told, "%s", text);
    return text[0] == 'o' || error_set(error, "strange ones");
}

static void choose_and_train(void *argument) {
    Plan *plan = argument;
    Device *device = open_cpu();
    device->choices = three_choices;
    device->choose = take_choices;
    char *options = xformat("-b 2 -g 2 --bucketing off %s", plan->options);
    ToyRun *run = toy_run_open(device, plan->directory, options, 10, 7, 3);
    toy_train(run);
    printf("told: %s\n", told);
    toy_run_close(run);
    device_close(device);
}

static void choices_that_cannot_be_kept_stop_nothing(void **state) {
    (void)state;
    Plan plan = {.directory = run_directory(), .options = "--max-steps 2", .monitor = -1};
    char *in_the_way = path_join(plan.directory, "choices.txt");
    make_directories(in_the_way);
    toy_must(choose_and_train, &plan);
    assert_contains(toy_output, "the autotune cache could not be written: ");
    free(in_the_way);
}

static void choices_of_the_device_outlive_a_restart(void **state) {
    (void)state;
    Plan plan = {.directory = run_directory(), .options = "--max-steps 2"};
    toy_must(choose_and_train, &plan);
    assert_contains(toy_output, "told: \n");
    char *path = path_join(plan.directory, "choices.txt"), *text = read_text(path);
    assert_true(!strncmp(text, "one two three\nxxh3_64 ", 22));
    plan.options = "--max-steps 4 --resume auto";
    toy_must(choose_and_train, &plan);
    assert_contains(toy_output, "told: one two three\n");
    write_text(path, "damaged");
    plan.options = "--max-steps 5 --resume auto";
    toy_must(choose_and_train, &plan);
    assert_contains(toy_output, "choices.txt: strange ones: the fastest kernels are chosen again");
    free(path);
    free(text);
}

static void read_weights(const char *directory, float weight[CLASSES * FEATURES], float bias[CLASSES]) {
    TensorFile file = open_in(directory, "last/model.safetensors");
    float *weights = floats(&file, "", "head.weight"), *biases = floats(&file, "", "head.bias");
    memcpy(weight, weights, CLASSES * FEATURES * sizeof(float));
    memcpy(bias, biases, CLASSES * sizeof(float));
    free(weights);
    free(biases);
    tensor_file_close(&file);
}

/* The rate is asked for with the epoch of a step's first micro-batch: steps 1 to 3 begin in the first. */
static void groups_have_rates_of_their_own(void **state) {
    (void)state;
    Plan plan = {.directory = run_directory(), .options = "--epochs 4 --val-interval 0", .monitor = -1, .hook = true};
    float weight[CLASSES * FEATURES], bias[CLASSES];
    double rates[64];
    toy_must(follow, &plan);
    read_weights(plan.directory, weight, bias);
    for (int i = 0; i < CLASSES; i++) assert_true(bias[i] == 0); /* at a rate of 0 */
    assert_true(fabsf(weight[0]) > 0.2f);
    assert_int_equal(logged(plan.directory, "train", "train/lr", rates, 64), 10);
    static const int epochs[10] = {0, 0, 0, 1, 1, 2, 2, 2, 3, 3};
    for (int i = 0; i < 10; i++) assert_near(rates[i], 0.01 * (1 + i) + 0.1 * epochs[i], 1e-12);
    assert_int_equal(logged(plan.directory, "train", "train/lr_1", rates, 64), 10);
    for (int i = 0; i < 10; i++) assert_true(rates[i] == 0);
}

/* Next to gradients clipped to 1e-6, a decay of 10 is all that they have: Adam's first step is then the rate, against
 * the sign of each weight, whatever its size. Decoupled, the weights shrink in proportion, by rate times decay. */
static void decay_can_be_part_of_the_gradients(void **state) {
    (void)state;
    float weight[3][CLASSES * FEATURES], bias[CLASSES];
    for (int i = 0; i < 3; i++) { /* first weights, decoupled, coupled */
        Plan plan = {.directory = run_directory(), .monitor = -1, .coupled = i == 2};
        plan.options = i ? "--max-steps 1 --weight-decay 10 --grad-clip 1e-6" : "--max-steps 1 --learning-rate 0";
        toy_must(follow, &plan);
        read_weights(plan.directory, weight[i], bias);
    }
    for (int i = 0; i < CLASSES * FEATURES; i++) {
        double first = (double)weight[0][i], step = 0.05 * (first < 0 ? -1 : 1);
        assert_true(fabs(first) > 1e-4); /* next to which gradients of 1e-6 are nothing */
        assert_near(weight[2][i], first - step, 1e-6);
        assert_true(fabs((double)weight[1][i] - 0.5 * first) < 0.0501);
    }
}

/* ---- runs that end before their end ---- */

typedef enum { END_NEVER, END_KILL, END_STOP, END_DATA, END_VALIDATION } End;

/* A run of 12 steps with a record every fourth, a checkpoint every third, a validation every second. */
typedef struct {
    const char *directory, *more;
    End end;
    int64_t at; /* step */
} Ending;

static const Ending *ending;
static atomic_bool data_gone, validation_gone;

/* Asked for before the update of each step. */
static double end_or_rate(const void *context, int group, int64_t step, int64_t epoch) {
    (void)group, (void)epoch;
    if (step + 1 == ending->at && ending->end == END_KILL) kill(getpid(), SIGKILL);
    if (step + 1 == ending->at && ending->end == END_STOP && !stop_signal()) {
        kill(getpid(), SIGTERM);
        while (!stop_signal()) usleep(1000);
    }
    data_gone = data_gone || (step + 1 == ending->at && ending->end == END_DATA);
    validation_gone = validation_gone || (step + 1 == ending->at && ending->end == END_VALIDATION);
    return rate_of(context);
}

static bool fill_while_there(const Dataset *face, Batch *batch, const int32_t *samples, int n, Error *error) {
    bool gone = face->n_samples == 10 ? data_gone : validation_gone;
    return gone ? error_set(error, "codes.npy: cannot open: No such file") : toy_fill(face, batch, samples, n, error);
}

static void end_somewhere(void *argument) {
    ending = argument;
    stop_watch();
    Device *device = open_cpu();
    char *options = xformat("-b 2 -g 1 --epochs 40 --max-steps 12 --log-interval 4 --learning-rate 0.05 "
                            "--save-interval 3 --keep-checkpoints 2 --val-interval 2 %s",
                            ending->more);
    ToyRun *run = toy_run_open(device, ending->directory, options, 10, 7, 3);
    run->train->fill = run->validation->fill = fill_while_there;
    set_rate(run, end_or_rate);
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

/* Train means over windows that the end lies in, what validations said, the best and the last weights. */
static void an_ended_run_goes_on_as_if_it_had_not_ended(void **state) {
    (void)state;
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
                assert_int_equal(status, end == END_KILL ? 128 + SIGKILL : 0);
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

static int logged_steps(const char *directory) {
    double steps[64];
    return logged(directory, "val", "step", steps, 64);
}

/* Until the other end has a checkpoint, the log is that of the newest one, however often the run goes back. */
static void a_run_that_goes_back_keeps_the_log_until_it_saves(void **state) {
    (void)state;
    Ending e = {.directory = run_directory(), .more = ""};
    char before[1 << 14], after[1 << 14];
    toy_must(end_somewhere, &e);
    assert_int_equal(logged_steps(e.directory), 6);
    run_command(before, sizeof before, "grep -v summary %s/log.jsonl", e.directory);
    char *back = xformat("--resume %s/step_00000010", e.directory);
    for (int i = 0; i < 2; i++) {
        Ending killed = {e.directory, back, END_KILL, 11};
        assert_int_equal(toy_try(end_somewhere, &killed), 128 + SIGKILL);
        assert_int_equal(logged_steps(e.directory), 5);
    }
    e.more = "--resume auto";
    toy_must(end_somewhere, &e);
    run_command(after, sizeof after, "grep -v summary %s/log.jsonl", e.directory);
    assert_string_equal(after, before);
    e.more = back;
    toy_must(end_somewhere, &e);
    assert_contains(toy_output, "[Resume] step_00000010, although step_00000012 is newer: the steps after 10 are "
                                "repeated");
    assert_int_equal(logged_steps(e.directory), 6);
    run_command(after, sizeof after, "ls %s", e.directory);
    assert_null(strstr(after, "log.1"));
    free(back);
}

/* By the program's own advice: the steps moved away, the links removed. */
static void a_run_begun_anew_keeps_the_log_before(void **state) {
    (void)state;
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

static void a_finished_run_without_its_log_is_finished(void **state) {
    (void)state;
    Ending e = {.directory = run_directory(), .more = ""};
    toy_must(end_somewhere, &e);
    char *log = path_join(e.directory, "log.jsonl");
    assert_int_equal(unlink(log), 0);
    e.more = "--resume auto";
    toy_must(end_somewhere, &e);
    assert_contains(toy_output, "loss.svg: nothing to draw");
    free(log);
}

static void a_signal_in_the_last_step_stops_nothing(void **state) {
    (void)state;
    toy_must(end_somewhere, &(Ending){run_directory(), "", END_STOP, 11});
    assert_contains(toy_output, "[Stopped] by signal 15 after step 11");
    assert_contains(toy_output, "signal 15\n");
    toy_must(end_somewhere, &(Ending){run_directory(), "", END_STOP, 12});
    assert_null(strstr(toy_output, "[Stopped]"));
    assert_contains(toy_output, "signal 0\n");
}

/* ---- what the best is, when it cannot be written ---- */

static double judge_and_block(void *context, const float *outputs, int64_t n, double *values) {
    double value = toy_judge(context, outputs, n, values);
    const Judged *judged = context;
    if (judged->calls == 4) {
        char *in_the_way = path_join(output_of(judged->run), "step_00000004/mine");
        make_directories(in_the_way);
        free(in_the_way);
    }
    return value;
}

static void lose_the_best(void *directory) {
    Device *device = open_cpu();
    Judged judged = {.verdicts = {5, 4, 3, 1, 2, 6}, .n_verdicts = 6};
    ToyRun *run =
        toy_run_open(device, directory, "-b 2 -g 1 --max-steps 6 --val-interval 1 --save-interval 0", 10, 7, 3);
    set_judge(run, &judged);
    run->spec.selection.evaluate = judge_and_block;
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

/* Asked for when the failed write has been noticed. */
static double make_way_or_rate(const void *context, int group, int64_t step, int64_t epoch) {
    (void)group, (void)epoch;
    char text[256];
    if (step == 4) run_command(text, sizeof text, "rm -rf %s/step_00000004", output_of(context));
    return rate_of(context);
}

static void lose_the_best_and_stop(void *directory) {
    Device *device = open_cpu();
    Judged judged = {.verdicts = {5, 4, 3, 1}, .n_verdicts = 4};
    ToyRun *run =
        toy_run_open(device, directory, "-b 2 -g 1 --max-steps 6 --val-interval 1 --save-interval 0", 10, 7, 3);
    set_judge(run, &judged);
    run->spec.selection.evaluate = judge_and_spoil;
    set_rate(run, make_way_or_rate);
    toy_train(run);
}

static void a_lost_best_stays_lost_where_a_nan_stops_the_run(void **state) {
    (void)state;
    const char *directory = run_directory();
    assert_int_equal(toy_try(lose_the_best_and_stop, (void *)(uintptr_t)directory), 1);
    assert_contains(toy_output, "the weights of step 4, the best so far, could not be kept");
    assert_contains(toy_output, "step 5: the loss or its gradient is not finite");
    char *path = path_join(directory, "step_00000004/state.json"), *text = read_text(path);
    assert_contains(text, "\"best_step\": 3,");
    free(text);
    free(path);
}

/* Verdicts behind which a better one is kept: then nothing is lost. */
static void lose_and_find(void *directory) {
    Device *device = open_cpu();
    Judged judged = {.verdicts = {5, 4, 3, 2, 1, 6}, .n_verdicts = 6};
    ToyRun *run =
        toy_run_open(device, directory, "-b 2 -g 1 --max-steps 6 --val-interval 1 --save-interval 0", 10, 7, 3);
    set_judge(run, &judged);
    run->spec.selection.evaluate = judge_and_block;
    toy_train(run);
}

static void a_lost_best_is_no_loss_behind_a_better_one(void **state) {
    (void)state;
    toy_must(lose_and_find, (void *)(uintptr_t)run_directory());
    assert_contains(toy_output, "the weights of step 4, the best so far, could not be kept");
    assert_null(strstr(toy_output, "are lost"));
}

/* A run that was stopped before its last validation, which finds nothing better: it is done once. */
static void a_validation_made_up_for_is_saved(void **state) {
    (void)state;
    Ending e = {run_directory(), "--learning-rate 0", END_VALIDATION, 12};
    double steps[64];
    toy_try(end_somewhere, &e);
    Ending again = {.directory = e.directory, .more = "--learning-rate 0 --resume auto"};
    for (int i = 0; i < 2; i++) {
        toy_must(end_somewhere, &again);
        assert_int_equal(logged(e.directory, "val", "step", steps, 64), 6);
    }
}

static void a_best_that_cannot_be_written_is_not_the_best(void **state) {
    (void)state;
    const char *directory = run_directory();
    char text[256];
    toy_must(lose_the_best, (void *)(uintptr_t)directory);
    assert_contains(toy_output, "step_00000004 is in the way and no checkpoint of this program");
    assert_contains(toy_output, "the weights of step 4, the best so far, could not be kept");
    assert_contains(toy_output, "status 1, best 2 at step 5");
    run_command(text, sizeof text, "readlink %s/best", directory);
    assert_string_equal(text, "step_00000005\n");
}

/* ---- nothing trained ---- */

static double rate_then_stop(const void *context, int group, int64_t step, int64_t epoch) {
    (void)group, (void)epoch;
    if (step == 1 && !stop_signal()) {
        kill(getpid(), SIGTERM);
        while (!stop_signal()) usleep(1000);
    }
    return rate_of(context);
}

static bool stopped_on_nan;

static void train_on_nan(void *options) {
    if (stopped_on_nan) stop_watch();
    Device *device = open_cpu();
    ToyRun *run = toy_run_open(device, run_directory(), options, 10, 0, 3);
    if (stopped_on_nan) set_rate(run, rate_then_stop);
    Toy *toy = run->train->state;
    for (int e = 0; e < 10 * FEATURES; e++) toy->x[e] = NAN;
    run->training = train_open(&run->spec);
    printf("status %d\n", train_run(run->training));
}

static void a_run_that_trained_nothing_fails(void **state) {
    (void)state;
    toy_must(train_on_nan, "-b 2 -g 1 --max-steps 3 --skip-nonfinite");
    assert_contains(toy_output, "all 3 steps were skipped, since their losses or gradients were not finite");
    assert_contains(toy_output, "status 1");
    stopped_on_nan = true; /* of a run that goes on later nobody knows yet */
    toy_must(train_on_nan, "-b 2 -g 1 --max-steps 3 --skip-nonfinite");
    stopped_on_nan = false;
    assert_null(strstr(toy_output, "were skipped"));
    assert_contains(toy_output, "[Stopped] by signal 15 after step 2");
    assert_contains(toy_output, "status 0");
}

/* ---- a folder with a run in it ---- */

/* Reseals state.json with another place in the data. */
static void move_place(const char *directory, int64_t batch_index) {
    char *path = path_join(directory, "last"), *file = path_join(directory, "last/state.json");
    TrainState s;
    Error error;
    assert_true(state_read(path, &s, &error));
    s.batch_index = batch_index;
    char *text = state_to_json(&s);
    assert_true(file_write_atomic(file, text, strlen(text), &error));
    free(text);
    free(s.options_json);
    free(file);
    free(path);
}

static void no_run_begins_where_another_one_is(void **state) {
    (void)state;
    Ending e = {.directory = run_directory(), .more = ""};
    char before[1 << 14], after[1 << 14];
    toy_must(end_somewhere, &e);
    move_place(e.directory, 1000);
    e.more = "--resume auto";
    assert_int_equal(toy_try(end_somewhere, &e), 1);
    assert_contains(toy_output, "state.json: \"batch_index\" is 1000, and epoch 2 has 5 micro-batches");
    run_command(before, sizeof before, "cat %s/log.jsonl; ls %s", e.directory, e.directory);
    char *file = path_join(e.directory, "last/state.json"), *text = read_text(file),
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
    free(text);
    free(file);
}

/* What inference refuses: weights that are not all there, or of another shape. */
static void infer(void *base) {
    Device *device = open_cpu();
    char *arguments = xformat("--base-checkpoint %s", (char *)base);
    ToyRun *run = toy_run_open(device, "/nowhere", arguments, 4, 0, 1);
    train_open_inference(&run->spec);
}

static void inference_wants_every_weight(void **state) {
    (void)state;
    char *path = path_join(run_directory(), "base.safetensors");
    float numbers[CLASSES * FEATURES] = {0};
    const TensorToWrite tensors[] = {
        {.name = "head.weight", .dtype = "F32", .rank = 2, .dims = {FEATURES, CLASSES}, .data = numbers}};
    Error error;
    assert_true(safetensors_write(path, tensors, 1, NULL, NULL, 0, &error));
    assert_int_equal(toy_try(infer, path), 1);
    assert_contains(toy_output, "2 tensors do not fit");
    assert_contains(toy_output, "head.weight is F32 [5, 3] there, F32 [3, 5] in the model");
    assert_contains(toy_output, "head.bias, F32 [3] in the model, is not there");
    free(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trainings_do_not_know_of_each_other),
        cmocka_unit_test(the_judge_sees_every_output_in_order),
        cmocka_unit_test(a_validation_ends_each_epoch),
        cmocka_unit_test(an_epoch_that_is_validated_has_its_line),
        cmocka_unit_test(nothing_is_written_into_a_folder_that_took_the_name),
        cmocka_unit_test(a_folder_that_came_back_is_the_runs_own),
        cmocka_unit_test(only_full_micro_batches_are_trained_on),
        cmocka_unit_test(the_metric_that_is_monitored_decides),
        cmocka_unit_test(patience_ends_the_run),
        cmocka_unit_test(patience_outlives_a_restart),
        cmocka_unit_test(a_late_best_adds_epochs),
        cmocka_unit_test(added_epochs_outlive_a_restart),
        cmocka_unit_test(choices_of_the_device_outlive_a_restart),
        cmocka_unit_test(groups_have_rates_of_their_own),
        cmocka_unit_test(decay_can_be_part_of_the_gradients),
        cmocka_unit_test(an_ended_run_goes_on_as_if_it_had_not_ended),
        cmocka_unit_test(a_run_that_goes_back_keeps_the_log_until_it_saves),
        cmocka_unit_test(a_run_begun_anew_keeps_the_log_before),
        cmocka_unit_test(a_finished_run_without_its_log_is_finished),
        cmocka_unit_test(a_signal_in_the_last_step_stops_nothing),
        cmocka_unit_test(a_best_that_cannot_be_written_is_not_the_best),
        cmocka_unit_test(a_lost_best_stays_lost_where_a_nan_stops_the_run),
        cmocka_unit_test(a_lost_best_is_no_loss_behind_a_better_one),
        cmocka_unit_test(a_validation_made_up_for_is_saved),
        cmocka_unit_test(choices_that_cannot_be_kept_stop_nothing),
        cmocka_unit_test(a_run_that_trained_nothing_fails),
        cmocka_unit_test(no_run_begins_where_another_one_is),
        cmocka_unit_test(inference_wants_every_weight),
    };
    toy_device = open_cpu;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
