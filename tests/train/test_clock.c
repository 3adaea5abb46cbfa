/* The times that a run tells, by a clock that only this test moves: the linker puts the functions __wrap_X in the place
 * of X (mk/tests.mk). Here alone is it seen that the loop tells the prediction and the rates what was a pause. */
#include "base/format.h"
#include "checkpoint/checkpoint.h"
#include "kernels/cpu/device.h"
#include "tests/train/loop_rig.h"
#include "train/pass.h"
#include "train/run/progress.h"

/* Seconds: of a step, of a validation, of a checkpoint's copy, and of its write, for which the next step waits. */
enum { STEP = 100, VALIDATION = 400, COPY = 30, WRITE = 70 };
enum { MOST = 64 };

static _Atomic double now = 1e6;
static bool writing;
static struct {
    double at[MOST]; /* when step i was reported */
    int n;
} reports;

double __wrap_seconds_now(void);
double __wrap_seconds_now(void) { return now; }

void __real_step_end(Run *run);
void __wrap_step_end(Run *run);
void __wrap_step_end(Run *run) {
    now = now + STEP;
    __real_step_end(run);
}

static double micro_batch; /* seconds of each after the first, which takes first_micro_batch */
static double first_micro_batch;

void __real_passes_run(Passes *passes, const Batch *batch, Pass pass, const PassFrame *frame, Tensor outputs);
void __wrap_passes_run(Passes *passes, const Batch *batch, Pass pass, const PassFrame *frame, Tensor outputs);
void __wrap_passes_run(Passes *passes, const Batch *batch, Pass pass, const PassFrame *frame, Tensor outputs) {
    now = now + (first_micro_batch > 0 ? first_micro_batch : micro_batch);
    first_micro_batch = 0;
    __real_passes_run(passes, batch, pass, frame, outputs);
}

bool __real_passes_measure(Passes *passes, Loader *loader, int64_t batches, Tensor sums, Tensor outputs, double *counts,
                           Error *error);
bool __wrap_passes_measure(Passes *passes, Loader *loader, int64_t batches, Tensor sums, Tensor outputs, double *counts,
                           Error *error);
bool __wrap_passes_measure(Passes *passes, Loader *loader, int64_t batches, Tensor sums, Tensor outputs, double *counts,
                           Error *error) {
    now = now + VALIDATION;
    return __real_passes_measure(passes, loader, batches, sums, outputs, counts, error);
}

void __real_checkpointer_save(Checkpointer *checkpointer, const CheckpointBuffers *buffers, const TrainState *state);
void __wrap_checkpointer_save(Checkpointer *checkpointer, const CheckpointBuffers *buffers, const TrainState *state);
void __wrap_checkpointer_save(Checkpointer *checkpointer, const CheckpointBuffers *buffers, const TrainState *state) {
    now = now + COPY;
    writing = true;
    __real_checkpointer_save(checkpointer, buffers, state);
}

bool __real_checkpointer_wait(Checkpointer *checkpointer, Error *error);
bool __wrap_checkpointer_wait(Checkpointer *checkpointer, Error *error);
bool __wrap_checkpointer_wait(Checkpointer *checkpointer, Error *error) {
    if (writing) now = now + WRITE;
    writing = false;
    return __real_checkpointer_wait(checkpointer, error);
}

void __real_progress_log(Run *run, ReportForm form);
void __wrap_progress_log(Run *run, ReportForm form);
void __wrap_progress_log(Run *run, ReportForm form) {
    if (reports.n < MOST) reports.at[reports.n++] = now;
    __real_progress_log(run, form);
}

/* FLOPs of a pass of the largest micro-batch, and of an update; 0: as they are counted. Products are done at 1e9 a
 * second. */
static double dry_flops;
static double product; /* seconds of every product besides */

void __real_device_totals(const Device *device, double *flops, double *bytes);
void __wrap_device_totals(const Device *device, double *flops, double *bytes);
void __wrap_device_totals(const Device *device, double *flops, double *bytes) {
    __real_device_totals(device, flops, bytes);
    if (dry_flops > 0 && !device->ops) *flops = dry_flops;
}

void __real_linear_forward(Device *device, Tensor y, Tensor x, Tensor w, Tensor bias, WeightLayout layout);
void __wrap_linear_forward(Device *device, Tensor y, Tensor x, Tensor w, Tensor bias, WeightLayout layout);
void __wrap_linear_forward(Device *device, Tensor y, Tensor x, Tensor w, Tensor bias, WeightLayout layout) {
    if (device->ops) now = now + product;
    if (dry_flops > 0 && device->ops) now = now + 2e-9 * (double)x.dims[0] * (double)x.dims[1] * (double)y.dims[1];
    __real_linear_forward(device, y, x, w, bias, layout);
}

/* The lines of progress, one after the other. */
static char shown[1 << 12];

void __wrap_terminal_progress(const char *format, ...) PRINTF_LIKE(1, 2);
void __wrap_terminal_progress(const char *format, ...) {
    size_t used = strlen(shown);
    va_list list;
    va_start(list, format);
    used += (size_t)vsnprintf(shown + used, sizeof shown - used, format, list);
    va_end(list);
    snprintf(shown + used, sizeof shown - used, "\n");
}

static void read_clock(Device *device, DeviceSensors *sensors) {
    (void)device;
    *sensors = (DeviceSensors){NAN, NAN, now, NAN};
}

/* A run whose validations are all the best so far, or none is. */
typedef struct {
    const char *directory, *arguments;
    bool better;
    int64_t patience;
    int follow;
} Timed;

/* Trains, and prints the time that was left at each report: "[Clock] report 3: 5m12s left". */
static void train_timed(void *argument) {
    const Timed *timed = argument;
    Judged judged = {.n_verdicts = MOST};
    for (int i = 0; i < MOST; i++) judged.verdicts[i] = timed->better ? -1 - i : INFINITY;
    Device *device = cpu_device_open(1);
    device->read_sensors = read_clock;
    ToyRun *run = toy_run_open(device, timed->directory, timed->arguments, 18, 8, 1);
    set_judge(run, &judged);
    run->spec.selection.patience = timed->patience;
    run->spec.labels.part = "fold 2 of 6";
    run->spec.labels.follow = timed->follow;
    toy_train(run);
    for (int i = 0; i < reports.n; i++) {
        char left[32];
        printf("[Clock] report %d: %s left\n", i + 1, format_duration(now - reports.at[i], left));
    }
    toy_run_close(run);
    device_close(device);
}

/* Returns what stands behind the first `before` in the output, up to `after`. */
static char *between(const char *before, const char *after) {
    const char *from = strstr(toy_output, before);
    if (!from) fail_msg("no \"%s\" in:\n%s", before, toy_output);
    from += strlen(before);
    const char *to = strstr(from, after);
    assert_non_null(to);
    return kept_format("%.*s", (int)(to - from), from);
}

/* Compares the time left that was told after each step from `first` on with the one that then passed. */
static void compare_times_left(int first, int last) {
    for (int step = first; step <= last; step++) {
        char *report = kept_format("[Clock] report %d: ", step), *head = kept_format(" step=%d loss=", step);
        char *left = between(report, " left"), *line = between(head, "\n"),
             *want = kept_format(" ETA %s of fold 2 of 6", left);
        assert_contains(line, want);
    }
}

static void assert_rates(const char *directory, int n) {
    double rates[MOST];
    assert_int_equal(logged(directory, "train", "train/steps_per_second", rates, MOST), n);
    for (int i = 0; i < n; i++) assert_near(rates[i], 1. / STEP, 1e-9);
}

/* Epochs of 5 micro-batches end within the steps of 2. The first of them ends in step 3, the first checkpoint is that
 * of step 4. */
TEST(the_time_left_is_the_time_that_passes) {
    Timed timed = {run_directory(),
                   "-b 4 -g 2 --max-steps 20 --val-interval 0 --save-interval 4 --log-interval 1 --bucketing off",
                   false, 0, 0};
    toy_must(train_timed, &timed);
    compare_times_left(5, 20);
    assert_rates(timed.directory, 20);
}

/* The weights of each validation are kept, and the validations that are left will take as long. The last one's
 * checkpoint is also the run's. */
TEST(a_validation_takes_as_long_as_the_checkpoint_of_its_weights) {
    Timed timed = {run_directory(), "-b 4 -g 1 --max-steps 12 --val-interval 3 --save-interval 0 --log-interval 1",
                   true, 0, 0};
    toy_must(train_timed, &timed);
    char *line = between(" step=7 loss=", "\n"), text[32];
    double left = 5 * STEP + 2 * (VALIDATION + COPY + WRITE);
    assert_contains(line, format_duration(left, text));
    assert_rates(timed.directory, 12);
}

TEST(a_run_out_of_patience_has_no_time_left) {
    Timed timed = {run_directory(), "-b 4 -g 1 --max-steps 60 --val-interval 3 --save-interval 0 --log-interval 1000",
                   false, 2, 0};
    toy_must(train_timed, &timed);
    char *line = between("[Train] ", "\n");
    assert_contains(line, " step=6 ");
    assert_null(strstr(line, "ETA"));
    double end = 1e6 + 6 * STEP + 2 * VALIDATION;
    assert_near(logged_last(timed.directory, "train", "gpu_power_w"), end, 1e-3); /* read for this line */
    assert_rates(timed.directory, 1);
}

/* The time that is told once is that of the progress line, until, and at one a second the cost. */
TEST(the_time_of_a_run_is_told_when_a_step_is_known) {
    setenv("TZ", "XYZ-3", 1);
    toy_must(train_timed, &(Timed){run_directory(),
                                   "-b 4 -g 1 --max-steps 40 --val-interval 2 --log-interval 1 "
                                   "--price 3600EUR",
                                   false, 0, 0});
    unsetenv("TZ");
    char *second = between(" step=2 loss=", "\n"), *told = between("[Run] fold 2 of 6: about ", ","),
         *want = kept_format(" ETA %s of fold 2 of 6", told), *rest = between("[Run] fold 2 of 6: about ", "\n");
    assert_contains(second, want);
    assert_contains(rest, ", until ");
    assert_contains(rest, " XYZ, ");
    assert_contains(rest, " EUR, by the first steps; validations, 20, not included");
    assert_near(atof(strstr(rest, " XYZ, ") + 6), 38 * STEP, 0.01 * STEP); /* 1 EUR a second */
    assert_true(strstr(toy_output, " step=2 loss=") < strstr(toy_output, "[Run] fold 2 of 6: "));
    const char *first = strstr(toy_output, "[Run] fold 2 of 6: ");
    assert_null(strstr(first + 1, "[Run] fold 2 of 6: "));
}

/* Four whole trainings follow. */
TEST(the_trainings_that_follow_are_counted) {
    toy_must(train_timed, &(Timed){run_directory(),
                                   "-b 4 -g 1 --epochs 99 --max-steps 80 --log-interval 1 --val-interval 99 "
                                   "--price 3600EUR",
                                   false, 0, 4});
    char *told = between("[Run] fold 2 of 6: about ", ","),
         *all = between("the trainings that follow, 4, about ", "\n");
    double minutes = atof(told) * 60 + atof(strchr(told, 'h') + 1),
           of_all = atof(all) * 60 + atof(strchr(all, 'h') + 1);
    assert_near(of_all, minutes * (1 + 4 * 80 / 78.), 5); /* rounded to minutes */
    assert_contains(all, ", until ");                     /* what all of them cost, at one a second */
    assert_near(atof(strrchr(all, ',') + 1), 60 * of_all, 120);
}

typedef struct {
    double first, other; /* seconds of micro-batches */
    const char *directory, *arguments;
} Slow;

static void train_slowly(void *argument) {
    static const OptionRow size = {
        .name = "size", .type = OPTION_CHOICE, .metavar = "tiny|huge", .default_value = "huge"};
    static const char *sizes[] = {"huge"};
    const Slow *slow = argument;
    first_micro_batch = slow->first;
    micro_batch = slow->other;
    Device *device = cpu_device_open(1);
    ToyRun *run = toy_run_open(device, slow->directory, slow->arguments, 18, 0, 1);
    options_add(&run->set, &size, 1, sizes);
    toy_train(run);
    toy_run_close(run);
    device_close(device);
}

/* Before the line of the first step. */
static void assert_told_first(const char *told) {
    const char *at = strstr(toy_output, told), *line = strstr(toy_output, " step=1 ");
    if (!at || at > line) fail_msg("no \"%s\" before step 1 in\n%s", told, toy_output);
}

TEST(a_first_step_of_minutes_is_not_waited_for) {
    toy_must(train_slowly, &(Slow){50, 60, run_directory(), "-b 6 -g 3 --max-steps 7 --log-interval 1"});
    assert_told_first("[Run] about 17m30s, until "); /* 7 * 3 * 50 seconds */
    assert_contains(toy_output, ", by the first micro-batch\n");
}

/* 0.9 s with what is done for the first time; 0.6 and 0.6 are more than a second. */
TEST(a_short_first_micro_batch_is_left_out) {
    toy_must(train_slowly,
             &(Slow){0.9, 0.6, run_directory(), "-b 6 -g 10 --epochs 200 --max-steps 50 --log-interval 1"});
    assert_told_first("[Run] about 5m00s, until ");
    assert_contains(toy_output, ", by the first micro-batches\n");
}

TEST(a_run_of_days_says_what_to_give_instead) {
    toy_must(train_slowly, &(Slow){8000, 0, run_directory(), "-b 6 -g 3 --epochs 99 --max-steps 40 --log-interval 1"});
    assert_told_first("[Run] about 11 days, until ");
    assert_told_first(
        "warning: the run will take about 11 days on this CPU: give --size tiny, or a smaller --epochs or "
        "--max-steps; --estimate tells how long a GPU needs\n");
    toy_must(train_slowly, &(Slow){1000, 0, run_directory(), "-b 6 -g 3 --epochs 99 --max-steps 40 --log-interval 1"});
    assert_null(strstr(toy_output, "warning: the run will take"));
    toy_must(train_slowly, &(Slow){4e9, 0, run_directory(), "-b 6 -g 3 --max-steps 4 --log-interval 1"});
    assert_told_first("[Run] about 1000 years or more, until ");
}

/* Where no rates are known: three passes and an update of 50 seconds each. One of ten times that is of days. */
TEST(what_is_known_before_the_first_micro_batch_is_told_roughly) {
    dry_flops = 5e10;
    toy_must(train_slowly, &(Slow){50, 60, run_directory(),
                                   "-b 6 -g 3 --max-steps 7 --log-interval 1 --price 3600EUR --calibration none"});
    const char *roughly = strstr(toy_output, "[Run] roughly 23m20s, until "),
               *about = strstr(toy_output, "[Run] about ");
    assert_true(roughly && about > roughly);
    assert_contains(roughly, ", 1400.00 EUR, by the FLOPs of a step at the rate of a matrix product\n");
    assert_null(strstr(toy_output, "will take about"));
    dry_flops = 8e12;
    toy_must(train_slowly, &(Slow){8000, 0, run_directory(),
                                   "-b 6 -g 3 --epochs 99 --max-steps 40 --log-interval 1 --calibration none"});
    const char *warning = strstr(toy_output, "warning: the run will take about 15 days on this CPU: give --size tiny");
    assert_non_null(warning);
    assert_null(strstr(warning + 1, "warning: the run will take")); /* though the first micro-batch says it again */
    assert_contains(toy_output, "[Run] about 11 days, ");
    dry_flops = 7e9;
    toy_must(train_slowly, &(Slow){2, 2, run_directory(), "-b 6 -g 3 --max-steps 7 --calibration none"});
    assert_null(strstr(toy_output, "roughly")); /* it is told soon enough */
    dry_flops = 0;
}

/* ---- a pass over a data set ---- */

static void infer_slowly(void *timed) {
    static float outputs[16 * CLASSES];
    Device *device = cpu_device_open(1);
    ToyRun *run = toy_run_open(device, ((Timed *)timed)->directory, "-b 4 --val-batch-size 4 --max-steps 1", 18, 11, 1);
    toy_train(run);
    product = 0.3; /* seconds; a batch has one */
    train_outputs(run->training, run->validation, outputs);
    printf("%s", shown);
    toy_run_close(run);
    device_close(device);
}

/* Batches of 4, 4 and 3 samples: what follows less than half a second later is not shown. */
TEST(a_pass_over_a_data_set_shows_how_far_it_is) {
    toy_must(infer_slowly, &(Timed){.directory = run_directory()});
    assert_contains(toy_output, "[Model] 8 of 11 samples\tETA 0.2 s\n");
    assert_null(strstr(toy_output, "[Model] 4 of"));
    assert_null(strstr(toy_output, "[Model] 11 of"));
}
