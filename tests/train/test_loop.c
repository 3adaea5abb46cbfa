/* The training loop: validations and what they decide, rates by group, full micro-batches only, a folder that is moved,
 * the autotune cache, several trainings in one process, inference. */
#include "kernels/device_open.h"
#include "tests/page_rig.h"
#include "tests/train/loop_rig.h"

#include <unistd.h>

#include "base/file.h"

static Device *open_cpu(void) { return cpu_device_open(1); }

/* A run of 10 samples in micro-batches of two, two of them a step: an epoch is two and a half steps. */
typedef struct {
    const char *directory, *options;
    Judged judged;
    int64_t patience, extension_epochs, most_extensions;
    int monitor;
    bool drop_last, hook, coupled, muon, moved, moved_back;
} Plan;

static double by_group(const void *context, int group, int64_t step, int64_t epoch) {
    (void)context;
    return group ? 0 : 0.01 * (double)(1 + step) + 0.1 * (double)epoch;
}

static double at_all_times(const void *context, int group, int64_t step, int64_t epoch) {
    (void)context, (void)group, (void)step, (void)epoch;
    return 0.05;
}

/* In the fourth step another run takes the name of the folder. */
static double move_the_folder(const void *context, int group, int64_t step, int64_t epoch) {
    char text[64];
    const char *run = toy_output_dir(context);
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
    const char *run = toy_output_dir(context), *const suffixes[] = {"", ".moved"};
    if ((step == 3 || step == 7) && !group)
        must_hold(!run_command(text, sizeof text, "! [ -e %s%s ] || mv %s%s %s%s", run, suffixes[step == 7], run,
                               suffixes[step == 7], run, suffixes[step == 3]));
    return by_group(context, group, step, epoch);
}

static char *no_cache(const Device *device) {
    (void)device;
    return keep(xstrdup("none\n"));
}

static void follow(void *argument) {
    Plan *plan = argument;
    Device *device = open_cpu();
    char *options = xformat("-b 2 -g 2 --log-interval 1 --learning-rate 0.05 --bucketing off %s", plan->options);
    ToyRun *run = toy_run_open(device, plan->directory, options, 10, 7, 3);
    TrainSpec *spec = &run->spec;
    if (plan->judged.n_verdicts) set_judge(run, &plan->judged);
    spec->selection.patience = plan->patience;
    spec->selection.extension_epochs = plan->extension_epochs;
    spec->selection.max_extensions = plan->most_extensions;
    spec->selection.metric = plan->monitor;
    spec->batch.drop_last = plan->drop_last;
    spec->optimizer.coupled_decay = plan->coupled;
    if (plan->muon) {
        spec->optimizer.muon = true;
        spec->model->params.items[0].matrices = 1;
        toy_set_rate(run, at_all_times);
    }
    if (plan->hook) toy_set_rate(run, by_group);
    if (plan->moved) toy_set_rate(run, move_the_folder);
    if (plan->moved_back) toy_set_rate(run, move_and_move_back);
    if (plan->moved) device->autotune_cache = no_cache;
    toy_train(run);
    toy_run_close(run);
    device_close(device);
}

/* Reads the steps of the records of a kind and returns their number. */
static int steps_of(const char *directory, const char *kind, double *steps) {
    return logged(directory, kind, "step", steps, 64);
}

TEST(a_validation_ends_each_epoch) {
    Plan plan = {.directory = run_directory(), .options = "--epochs 4 --val-interval 0", .monitor = -1};
    static const double want[] = {3, 5, 8, 10}; /* micro-batches 5 and 10 lie in steps 3 and 5, and so on */
    double steps[64];
    toy_must(follow, &plan);
    assert_int_equal(steps_of(plan.directory, "val", steps), 4);
    assert_memory_equal(steps, want, sizeof want);
}

/* Also if an epoch has fewer steps than --log-interval. */
TEST(an_epoch_that_is_validated_has_its_line) {
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

TEST(nothing_is_written_into_a_folder_that_took_the_name) {
    char *run = kept_path(run_directory(), "run"), *moved = kept_format("%s.moved", run), text[256];
    double steps[64];
    Plan plan = {.directory = run, .options = "--epochs 4 --save-interval 2", .monitor = -1, .moved = true};
    assert_int_equal(toy_try(follow, &plan), 1);
    assert_contains(toy_output, "is not the run's folder any more: what it has written is in ");
    run_command(text, sizeof text, "cd %s && echo * && cat *", run);
    assert_string_equal(text, "choices.txt log.jsonl loss.svg\nother\nother\nother\n");
    run_command(text, sizeof text,
                "cd %s && ls -d choices.txt loss.svg && (readlink last || cat last) && ! grep other *.*", moved);
    assert_string_equal(text, "choices.txt\nloss.svg\nstep_00000010\n");
    assert_int_equal(steps_of(moved, "train", steps), 10);
}

TEST(a_folder_that_came_back_is_the_runs_own) {
    char *run = kept_format("%s/./run", run_directory()), text[256];
    Plan plan = {.directory = run, .options = "--epochs 4 --save-interval 2", .monitor = -1, .moved_back = true};
    toy_must(follow, &plan);
    assert_contains(toy_output, "the run goes on in ");
    run_command(text, sizeof text, "cd %s && ls -d loss.svg && (readlink last || cat last)", run);
    assert_string_equal(text, "loss.svg\nstep_00000010\n");
}

TEST(only_full_micro_batches_are_trained_on) {
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

TEST(the_metric_that_is_monitored_decides) {
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
        char text[256], *link = kept_path(plan.directory, "best"), *want = kept_format("step_%08d", best + 1);
        assert_int_equal(run_command(text, sizeof text, "readlink %s || cat %s", link, link), 0);
        assert_contains(text, want);
    }
}

/* An epoch has five micro-batches, a step two; the training record before the best validation is of another epoch. */
TEST(a_validation_names_the_epoch_that_it_is_in) {
    Plan plan = {.directory = run_directory(),
                 .options = "--epochs 4 --val-interval 1 --log-interval 5 --save-interval 0",
                 .judged = {.verdicts = {9, 9, 9, 9, 9, 9, 9, 3, 9, 9}, .n_verdicts = 10},
                 .monitor = -1};
    double epochs[64];
    toy_must(follow, &plan);
    assert_int_equal(logged(plan.directory, "val", "val/epoch", epochs, 64), 10);
    for (int step = 1; step <= 10; step++) assert_near(epochs[step - 1], 1 + (2 * step - 1) / 5, 0);
    char *picture = kept_path(plan.directory, "loss.svg"), *svg = kept_text(picture);
    assert_contains(svg, ", step 8, epoch 4</text>"); /* epoch 2 in the record of step 5 */
}

/* The fourth validation is the best, the seventh the third without a better one. */
static Plan patient(void) {
    return (Plan){.directory = run_directory(),
                  .options = "--epochs 40 --val-interval 1 --save-interval 0",
                  .judged = {.verdicts = {5, 4, 6, 3, 3, 4, 9, 1, 1, 1}, .n_verdicts = 10},
                  .patience = 3,
                  .monitor = -1};
}

static void expect_end(const char *directory) {
    double steps[64];
    assert_contains(toy_output, "[Done] no better error for 3 validations: stopped at epoch 3; best at step 4\n");
    assert_null(strstr(toy_output, "[Stopped]"));
    assert_int_equal(steps_of(directory, "val", steps), 7);
    assert_int_equal(steps_of(directory, "train", steps), 7);
    assert_int_equal(logged(directory, "val", "val/best_step", steps, 64), 7);
    static const double best[] = {1, 2, 2, 4, 4, 4, 4};
    assert_memory_equal(steps, best, sizeof best);
    static const char *const pictures[] = {"loss.svg", "curves.svg"};
    for (int i = 0; i < 2; i++) {
        char *picture = kept_path(directory, pictures[i]), *svg = kept_text(picture);
        assert_contains(svg, ", step 4, epoch ");
    }
}

TEST(patience_ends_the_run) {
    Plan plan = patient();
    toy_must(follow, &plan);
    expect_end(plan.directory);
    plan.options = "--epochs 40 --val-interval 1 --save-interval 0 --resume auto";
    toy_must(follow, &plan); /* and it does not go on */
    expect_end(plan.directory);
}

/* Stopped after the fifth validation, with one that was no better behind it: two more may follow. */
TEST(patience_outlives_a_restart) {
    Plan plan = patient();
    plan.options = "--epochs 40 --val-interval 1 --save-interval 0 --max-steps 5";
    toy_must(follow, &plan);
    plan.options = "--epochs 40 --val-interval 1 --save-interval 0 --resume auto";
    plan.judged.verdicts[0] = 4;
    plan.judged.verdicts[1] = 9;
    double steps[64];
    assert_int_equal(steps_of(plan.directory, "start", steps), 1);
    toy_must(follow, &plan);
    expect_end(plan.directory);
    assert_int_equal(steps_of(plan.directory, "start", steps), 2);
    assert_near(steps[0], 0, 0);
    assert_near(steps[1], 5, 0); /* the restart */
    toy_must(follow, &plan);     /* a run that is over does not start */
    assert_int_equal(steps_of(plan.directory, "start", steps), 2);
    char *page = read_page(plan.directory);
    assert_page_has(page, (const char *[]){"Ended early at step 7 of ", "<dt>Restarts</dt><dd>1</dd>",
                                           "<td>max-steps 5 to 0</td>", NULL});
}

/* Returns how many epochs the FLIM reference would train: a new best in one of the last three epochs adds two more,
 * twice at most; the run ends after five epochs in a row without a better one. */
static int epochs_of_reference(const double *verdicts, int epochs) {
    int without_improvement = 0, extensions = 0;
    double best = INFINITY;
    for (int e = 0; e < epochs; e++) {
        without_improvement = verdicts[e] < best ? 0 : without_improvement + 1;
        if (without_improvement >= 5) return e + 1;
        if (without_improvement) continue;
        best = verdicts[e];
        if (e + 1 >= epochs - 2 && extensions < 2) {
            extensions++;
            epochs += 2;
        }
    }
    return epochs;
}

TEST(a_late_best_adds_epochs) {
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

/* Returns the plan of a run of four epochs, the last of which is the best so far and adds two. */
static Plan extended_run(const char *options) {
    return (Plan){.directory = run_directory(),
                  .options = options,
                  .judged = {.verdicts = {5, 6, 6, 4, 7, 7, 7}, .n_verdicts = 7},
                  .extension_epochs = 2,
                  .most_extensions = 1,
                  .monitor = -1};
}

/* Stopped in the epochs that were added, a run goes on to their end. */
TEST(added_epochs_outlive_a_restart) {
    Plan plan = extended_run("-b 5 -g 1 --epochs 4 --val-interval 0 --save-interval 0 --max-steps 9");
    double steps[64];
    toy_must(follow, &plan);
    assert_contains(toy_output, "the best so far came in epoch 4, the last is 4: 2 more (1 of 1 times)");
    assert_int_equal(logged(plan.directory, "extension", "total_steps", steps, 64), 1);
    assert_near(steps[0], 9, 0); /* --max-steps */
    plan.options = "-b 5 -g 1 --epochs 4 --val-interval 0 --save-interval 0 --resume auto";
    toy_must(follow, &plan);
    int n = steps_of(plan.directory, "val", steps);
    assert_true(steps[n - 1] == 12);
    assert_int_equal(logged(plan.directory, "start", "total_steps", steps, 64), 2);
    assert_near(steps[1], 12, 0);
}

/* The page knows the steps that were added, as the log does. */
TEST(added_epochs_are_on_the_page) {
    Plan plan = extended_run("-b 5 -g 1 --epochs 4 --val-interval 0 --save-interval 0");
    double steps[64];
    toy_must(follow, &plan);
    assert_int_equal(logged(plan.directory, "start", "total_steps", steps, 64), 1);
    assert_near(steps[0], 8, 0);
    assert_int_equal(logged(plan.directory, "extension", "total_steps", steps, 64), 1);
    assert_near(steps[0], 12, 0);
    char *page = read_page(plan.directory);
    assert_page_has(page, (const char *[]){"Finished after all 12 steps.", "<dt>Steps</dt><dd>12</dd>",
                                           "<dd class=\"note\">of 12; 6 epochs</dd>", NULL});
}

/* A device's autotune cache is written before the first checkpoint and given back to it when the run goes on. */
static char loaded_cache[64];
static char *cache_text(const Device *device) {
    (void)device;
    return keep(xstrdup("one two three\n"));
}

static bool load_cache(Device *device, const char *text, Error *error) {
    (void)device;
    snprintf(loaded_cache, sizeof loaded_cache, "%s", text);
    return text[0] == 'o' || error_set(error, "strange ones");
}

static void train_with_a_cache(void *argument) {
    Plan *plan = argument;
    Device *device = open_cpu();
    device->autotune_cache = cache_text;
    device->load_autotune_cache = load_cache;
    char *options = kept_format("-b 2 -g 2 --bucketing off %s", plan->options);
    ToyRun *run = toy_run_open(device, plan->directory, options, 10, 7, 3);
    toy_train(run);
    printf("loaded: %s\n", loaded_cache);
    toy_run_close(run);
    device_close(device);
}

TEST(an_autotune_cache_that_cannot_be_written_stops_nothing) {
    Plan plan = {.directory = run_directory(), .options = "--max-steps 2", .monitor = -1};
    make_directories(kept_path(plan.directory, "choices.txt"));
    toy_must(train_with_a_cache, &plan);
    assert_contains(toy_output, "the autotune cache could not be written: ");
}

TEST(the_autotune_cache_outlives_a_restart) {
    Plan plan = {.directory = run_directory(), .options = "--max-steps 2"};
    toy_must(train_with_a_cache, &plan);
    assert_contains(toy_output, "loaded: \n");
    char *path = kept_path(plan.directory, "choices.txt"), *text = kept_text(path);
    assert_true(!strncmp(text, "one two three\nxxh3_64 ", 22));
    plan.options = "--max-steps 4 --resume auto";
    toy_must(train_with_a_cache, &plan);
    assert_contains(toy_output, "loaded: one two three\n");
    write_text(path, "damaged");
    plan.options = "--max-steps 5 --resume auto";
    toy_must(train_with_a_cache, &plan);
    assert_contains(toy_output, "choices.txt: strange ones: the fastest kernels are chosen again");
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

/* The hook of the rate gets the epoch of a step's first micro-batch: steps 1 to 3 begin in the first. */
TEST(groups_have_rates_of_their_own) {
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

/* A coupled decay of 10 outweighs gradients clipped to 1e-6: Adam's first step is then the rate, against the sign of
 * each weight, whatever its size. A decoupled decay shrinks the weights in proportion, by rate times decay. */
TEST(decay_can_be_part_of_the_gradients) {
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

TEST(a_schedule_of_the_spec_replaces_the_cosine_to_zero) {
    const Schedule wsd = {.kind = SCHEDULE_WSD, .minimum = 0.25, .decay_share = 0.5};
    TrainOptions options = {.learning_rate = 2, .warmup_steps = 3};
    TrainSpec spec = {.options = &options};
    assert_true(train_learning_rate(&spec, 0, 20) == 0);
    spec.rate.schedule = &wsd;
    assert_true(train_learning_rate(&spec, 0, 20) == 0.5);
    assert_true(train_learning_rate(&spec, 10, 20) == 2);
    assert_true(train_learning_rate(&spec, 15, 20) == 1.25);
    assert_true(train_learning_rate(&spec, 20, 20) == 0.5);
}

/* The first step changes the matrix by Muon: rows of gradients of logits add up to 0, so two singular values of three
 * are not 0, and come between 0.67 and 1.21; whatever the gradient, the change has the norm of about 0.2 sqrt(5) of two
 * such numbers. The bias changes by AdamW, whose first step is the rate. */
TEST(muon_updates_matrices_and_adamw_the_rest) {
    float first[CLASSES * FEATURES], weight[CLASSES * FEATURES], bias[CLASSES], squares[CLASSES * FEATURES] = {0};
    Plan start = {.directory = run_directory(), .monitor = -1, .options = "--max-steps 1 --learning-rate 0"};
    Plan plan = {
        .directory = run_directory(), .monitor = -1, .muon = true, .options = "--max-steps 1 --weight-decay 0"};
    toy_must(follow, &start);
    toy_must(follow, &plan);
    assert_contains(toy_output, "[Optimizer] Muon updates 1 matrices (15 parameters), AdamW the other 3 parameters");
    read_weights(start.directory, first, bias);
    read_weights(plan.directory, weight, bias);
    double change = 0, unit = 0.05 * 0.2 * sqrt(FEATURES);
    for (int i = 0; i < CLASSES * FEATURES; i++) change += pow((double)weight[i] - (double)first[i], 2);
    assert_true(sqrt(change / 2) > 0.67 * unit && sqrt(change / 2) < 1.21 * unit);
    for (int i = 0; i < CLASSES; i++) assert_near(fabs((double)bias[i]), 0.05, 1e-5);
    TensorFile file = open_in(plan.directory, "last/optimizer.safetensors");
    float *matrix = floats(&file, "exp_avg_sq.", "head.weight"), *vector = floats(&file, "exp_avg_sq.", "head.bias");
    assert_memory_equal(matrix, squares, sizeof squares); /* is not used */
    assert_true(vector[0] > 0);
    free(matrix);
    free(vector);
    tensor_file_close(&file);
}

TEST(muon_resumes_with_the_same_bits) {
    Plan whole = {.directory = run_directory(), .monitor = -1, .muon = true, .options = "--epochs 4 --max-steps 5"};
    Plan parts = {.directory = run_directory(), .monitor = -1, .muon = true, .options = "--epochs 4 --max-steps 2"};
    double steps[64];
    toy_must(follow, &whole);
    toy_must(follow, &parts);
    parts.options = "--epochs 4 --max-steps 5 --resume auto";
    toy_must(follow, &parts);
    assert_int_equal(steps_of(parts.directory, "start", steps), 2);
    assert_near(steps[1], 2, 0);
    assert_same_weights(whole.directory, parts.directory);
}

static void run_muon_without_matrices(void *argument) {
    ToyRun *run = toy_run_open(open_cpu(), argument, "-b 2 -g 2 --max-steps 1", 10, 7, 3);
    run->spec.optimizer.muon = true;
    toy_train(run);
}

TEST(muon_wants_a_model_with_blocks) {
    assert_int_equal(toy_try(run_muon_without_matrices, (void *)run_directory()), 1);
    assert_contains(toy_output, "Muon: the model has no transformer blocks, whose matrices it updates");
}

TEST(the_spec_sets_the_optimizer_s_numbers) {
    TrainOptions options = {.grad_clip = 0.5};
    TrainSpec spec = {.options = &options};
    AdamW o = train_adamw(&spec);
    assert_true(o.beta1 == 0.9f && o.beta2 == 0.999f && o.epsilon == 1e-8f && o.clip == 0.5f && !o.coupled);
    spec.optimizer = (OptimizerSpec){.beta1 = 0.8f, .beta2 = 0.95f, .epsilon = 1e-6f, .coupled_decay = true};
    o = train_adamw(&spec);
    assert_true(o.beta1 == 0.8f && o.beta2 == 0.95f && o.epsilon == 1e-6f && o.clip == 0.5f && o.coupled);
}

/* Inference refuses weights that are incomplete or of another shape. */
static void infer(void *base) {
    Device *device = open_cpu();
    char *arguments = xformat("--base-checkpoint %s", (char *)base);
    ToyRun *run = toy_run_open(device, "/nowhere", arguments, 4, 0, 1);
    train_open_inference(&run->spec);
}

TEST(inference_wants_every_weight) {
    char *path = kept_path(run_directory(), "base.safetensors");
    float numbers[CLASSES * FEATURES] = {0};
    const TensorToWrite tensors[] = {
        {.name = "head.weight", .dtype = "F32", .rank = 2, .dims = {FEATURES, CLASSES}, .data = numbers}};
    Error error;
    assert_true(safetensors_write(path, tensors, 1, NULL, NULL, 0, &error));
    assert_int_equal(toy_try(infer, path), 1);
    assert_contains(toy_output, "2 tensors do not fit");
    assert_contains(toy_output, "head.weight is F32 [5, 3] there, F32 [3, 5] in the model");
    assert_contains(toy_output, "head.bias, F32 [3] in the model, is not there");
}

int main(void) {
    toy_device = open_cpu;
    return tests_run(NULL, NULL);
}
