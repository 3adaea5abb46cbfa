/* -b auto in real runs: what is chosen where so much memory is available, what is recorded and taken again, and what is
 * refused before anything is allocated. */
#include "kernels/device_open.h"
#include "tests/train/loop_rig.h"
#include "train/plan/sizing.h"

#include <jansson.h>

/* The bytes that the device reports as available; 0: the real number. */
static size_t there_are;

static size_t available(const Device *device) {
    (void)device;
    return there_are;
}

typedef struct {
    const char *directory, *options;
    size_t bytes;
    int64_t b, g;      /* as they should come out */
    bool never_divide; /* the model's micro-batches are whole */
    int64_t least;     /* samples of a micro-batch */
} Try;

static ToyRun *open_run(const Try *try) {
    Device *device = cpu_device_open(1);
    char *options =
        xformat("--epochs 4 --log-interval 1 --val-interval 0 --save-interval 0 --learning-rate 0.05 %s", try->options);
    ToyRun *run = toy_run_open(device, try->directory, options, 144, 0, 5);
    free(options);
    run->spec.batch.min_samples = try->least;
    if (try->never_divide) run->spec.batch.indivisible = "it is a toy";
    there_are = try->bytes;
    if (there_are) device->available = available;
    return run;
}

static void forget(ToyRun *run) {
    device_close(run->spec.device);
    toy_run_forget(run);
}

/* Returns the bytes that a run needs with micro-batches of b and 48 samples a step. */
static size_t need(int64_t b) {
    char *options = kept_format("-b %lld -g %lld", (long long)b, (long long)(48 + b - 1) / b);
    ToyRun *run = open_run(&(Try){.directory = "/nowhere", .options = options});
    MemoryPlan plan = train_plan(&run->spec);
    size_t bytes = train_to_allocate(&run->spec, &plan);
    forget(run);
    return bytes;
}

static void train_toy(void *argument) {
    const Try *try = argument;
    ToyRun *run = open_run(try);
    toy_train(run);
    must_hold(run->options.batch_size == try->b && run->options.grad_accumulation == try->g);
    must_hold(run->options.val_batch_size == 2 * try->b);
    toy_run_close(run);
}

/* Number `name` of the options that a run's last checkpoint has recorded. */
static int64_t recorded(const char *directory, const char *name) {
    json_t *state = json_load_file(keep(path_through(directory, "last/state.json")), 0, NULL);
    const json_t *value = json_object_get(json_object_get(state, "options"), name);
    assert_true(json_is_integer(value));
    int64_t number = json_integer_value(value);
    json_decref(state);
    return number;
}

/* Returns how many of 48 fit; buffers come in whole lines, so that more may fit than the plan had. */
static int64_t most_in(size_t bytes) {
    int64_t n = 48;
    while (n && need(n) > bytes) n--;
    return n;
}

/* -b auto divides 48 by 16, the largest divisor that fits, and the run has the same bits as with both numbers given. */
TEST(the_largest_divisor_that_fits_is_trained_with) {
    const char *given = run_directory(), *chosen = run_directory();
    int64_t most = most_in(need(17));
    assert_true(most >= 17 && most < 24);
    toy_must(train_toy, &(Try){.directory = given, .options = "-b 16 -g 3", .b = 16, .g = 3});
    toy_must(train_toy, &(Try){chosen, "-b auto --effective-batch 48", need(17), 16, 3, false, 0});
    char *line =
        kept_format("[Batch] -b 16 -g 3 is an effective batch of 48: %lld would fit at once, ", (long long)most);
    assert_contains(toy_output, line);
    assert_same_weights(given, chosen);
    assert_int_equal(recorded(chosen, "batch-size"), 16);
    assert_int_equal(recorded(chosen, "grad-accumulation"), 3);
    toy_must(train_toy, &(Try){run_directory(), "-b auto --effective-batch 48", need(16) - 1, 12, 4, false, 0});
    toy_must(train_toy, &(Try){run_directory(), "-b auto --effective-batch 48", need(16), 16, 3, false, 0});
    toy_must(train_toy, &(Try){run_directory(), "-b auto --effective-batch 48", need(48), 48, 1, false, 0});
    assert_contains(toy_output, "[Batch] -b 48 -g 1 is an effective batch of 48: all of it fits at once, ");
}

/* No epoch could fill it: a step of 288 samples would have 144. */
TEST(a_micro_batch_is_no_larger_than_the_data) {
    toy_must(train_toy, &(Try){run_directory(), "-b auto --effective-batch 288", 0, 144, 2, false, 0});
    assert_contains(toy_output,
                    "[Batch] -b 144 -g 2 is an effective batch of 288: all 144 samples would fit at once, ");
}

/* 47 is divided by 1 alone, 46 by 23. */
TEST(a_better_effective_batch_is_named) {
    toy_must(train_toy, &(Try){run_directory(), "-b auto --effective-batch 47", need(32), 1, 47, false, 0});
    assert_contains(toy_output, "; --effective-batch 46 would use them better (-b 23)\n");
}

TEST(a_resumed_run_keeps_its_numbers) {
    const char *directory = run_directory();
    static const char three[] = "-b auto --effective-batch 48 --max-steps 3 --resume auto",
                      five[] = "-b auto --effective-batch 48 --max-steps 5 --resume auto";
    toy_must(train_toy, &(Try){directory, three, need(16), 16, 3, false, 0});
    toy_must(train_toy, &(Try){directory, five, need(48), 16, 3, false, 0}); /* there is memory for all of it now */
    assert_contains(toy_output, "[Batch] -b 16 -g 3, as in the run that is resumed\n");
    assert_contains(toy_output, "[Done] step 5 of 5");
    /* Without --effective-batch too; with another it would be another run. */
    toy_must(train_toy, &(Try){directory, "-b auto --max-steps 6 --resume auto", need(48), 16, 3, false, 0});
    Try other = {directory, "-b auto --effective-batch 24 --max-steps 7 --resume auto", need(48), 0, 0, false, 0};
    assert_int_equal(toy_try(train_toy, &other), 2);
    assert_contains(toy_output, "has 16 x 3 samples and --effective-batch is 24, so it would be another run");
}

/* Before anything is allocated: no line of the run's own comes. */
TEST(a_run_that_fits_with_no_batch_size_is_refused) {
    assert_true(need(1) > 2000);
    Try none = {run_directory(), "-b auto --effective-batch 48", 1000, 0, 0, false, 0};
    assert_int_equal(toy_try(train_toy, &none), 1);
    assert_contains(toy_output, " are available; no batch size makes it fit");
    assert_null(strstr(toy_output, "[Batch]"));
    assert_null(strstr(toy_output, "[Run]"));
    /* Micro-batches have at least 16 samples here. */
    toy_must(train_toy, &(Try){run_directory(), "-b auto --effective-batch 48", need(16), 16, 3, false, 16});
    none = (Try){run_directory(), "-b auto --effective-batch 48", need(16) - 1, 0, 0, false, 16};
    assert_int_equal(toy_try(train_toy, &none), 1);
    assert_contains(toy_output, " are available; no batch size makes it fit");
}

static void dry_run_toy(void *argument) {
    ToyRun *run = open_run(argument);
    train_dry_run(&run->spec);
    forget(run);
}

TEST(a_dry_run_reports_that_memory_does_not_suffice) {
    toy_must(dry_run_toy, &(Try){.directory = "/nowhere", .options = "-b 48 -g 1", .bytes = need(48)});
    assert_null(strstr(toy_output, "it does not fit"));
    toy_must(dry_run_toy, &(Try){.directory = "/nowhere", .options = "-b 48 -g 1", .bytes = need(32)});
    assert_contains(toy_output, "[Memory] it does not fit, ");
    assert_contains(toy_output, " are available; -b 24 -g 2 makes it fit"); /* 32 x 2 would be another batch */
    toy_must(dry_run_toy, &(Try){.directory = "/nowhere", .options = "-b 48 -g 3", .bytes = need(38)});
    assert_contains(toy_output, " are available; -b 36 -g 4 makes it fit");
    toy_must(dry_run_toy, &(Try){.directory = "/nowhere", .options = "-b 47 -g 1", .bytes = need(32)});
    assert_contains(toy_output, " are available; -b 1 -g 47 makes it fit");
}

TEST(an_indivisible_batch_is_refused_with_advice) {
    Try all = {run_directory(), "-b auto --effective-batch 48", need(48), 48, 1, true, 0};
    toy_must(train_toy, &all);
    assert_contains(toy_output, "; it is never divided: it is a toy\n");
    all.directory = run_directory();
    all.bytes = need(32);
    assert_int_equal(toy_try(train_toy, &all), 1);
    assert_contains(toy_output, " are available; -b 24 -g 2 makes it fit, but is not the same (it is a toy)");
}

/* A validation that is given stays as it is; the advice is to lower it, where it alone is too large. */
TEST(a_validation_that_was_given_stays) {
    Device *device = cpu_device_open(1);
    ToyRun *run = toy_run_open(device, run_directory(), "-b auto --effective-batch 12 --val-batch-size 20", 36, 30, 5);
    BatchChoice choice = sizing_choose_batch(&run->spec, DTYPE_F32, SIZE_MAX, NULL);
    assert_int_equal(choice.size, 12);
    assert_int_equal(run->options.val_batch_size, 20);
    MemoryPlan all = train_plan(&run->spec); /* the bytes in use are the sum in the next line */
    assert_int_equal(choice.used, memory_total(&all));
    size_t least = SIZE_MAX; /* that a run with such a validation needs */
    for (int64_t b = 1; b <= 12; b++) {
        sizing_set_batch(&run->spec, b, (12 + b - 1) / b);
        MemoryPlan plan = train_plan(&run->spec);
        size_t bytes = train_to_allocate(&run->spec, &plan);
        if (bytes < least) least = bytes;
    }
    sizing_set_batch(&run->spec, 12, 1);
    choice = sizing_choose_batch(&run->spec, DTYPE_F32, least - 1, NULL);
    assert_true(choice.most_at_once < choice.size);
    assert_int_equal(run->options.val_batch_size, 20);
    Changes changes = sizing_changes(&run->spec, least - 1);
    assert_int_equal(changes.n, 1);
    assert_memory_equal(changes.text[0], "--val-batch-size ", strlen("--val-batch-size "));
    forget(run);
}
