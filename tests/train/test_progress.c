/* The reports of a run about its machine while it trains: sensors and cost. */
#include "kernels/cpu/device.h"
#include "tests/estimate/rates_rig.h"
#include "tests/train/loop_rig.h"

static int reads; /* one before the first step, at most one for each record */

static void read_fake(Device *device, DeviceSensors *sensors) {
    (void)device;
    reads++;
    *sensors = (DeviceSensors){.memory = 23e9, .temperature = NAN, .power = 312.5, .utilisation = 98};
}

static void train_with_sensors(void *directory) {
    Device *device = cpu_device_open(1);
    device->read_sensors = read_fake;
    ToyRun *run = toy_run_open(device, directory, "-b 4 -g 1 --max-steps 6 --log-interval 2", 18, 0, 1);
    toy_train(run);
    must_hold(reads >= 2 && reads <= 4);
    toy_run_close(run);
    device_close(device);
}

TEST(sensors_are_logged_where_the_card_has_them) {
    const char *directory = run_directory();
    static const char *const names[] = {"gpu_memory_bytes", "gpu_power_w", "gpu_utilization_percent"};
    static const double want[] = {23e9, 312.5, 98};
    double values[8];
    toy_must(train_with_sensors, (void *)directory);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(logged(directory, "train", names[i], values, 8), 3);
        for (int k = 0; k < 3; k++) assert_true(values[k] == want[i]);
    }
    assert_int_equal(logged(directory, "train", "gpu_temperature_c", values, 8), 0);
    assert_contains(toy_output, " GPU 23.0 GB 312 W 98 %\n");
}

static void print_step(const void *context, const StepLine *line) {
    must_hold(context == &reads && line->epoch == 1 && line->step_seconds > 0 && line->tokens > 0 && line->flops > 0);
    must_hold(line->peak == 0 && line->learning_rate > 0 && line->grad_norm > 0 && line->values[0] > 0);
    printf("step %lld%s.\n", (long long)line->step, line->rest[0] ? " rest" : "");
}

static void print_validation(const void *context, const ValidationLine *line) {
    must_hold(context == &reads && line->epoch == 1 && line->batches == 1 && line->seconds > 0 && line->values[0] > 0);
    printf("validation %lld: %.9g.\n", (long long)line->step, line->train[0]);
}

static void write_sample(void *context, Training *training, int64_t step) {
    must_hold(context == &reads && train_state(training)->step == step);
    train_log_text(training, "samples/0", kept_format("after %lld", (long long)step));
}

static void train_in_its_own_words(void *directory) {
    Device *device = cpu_device_open(1);
    ToyRun *run =
        toy_run_open(device, directory, "-b 4 -g 1 --max-steps 4 --log-interval 3 --val-interval 2", 18, 6, 1);
    run->spec.labels = (LogLabels){.print_step = print_step, .print_validation = print_validation, .context = &reads};
    run->spec.after_validation = (ValidationHook){write_sample, &reads};
    toy_train(run);
    toy_run_close(run);
    device_close(device);
}

/* A validation within a window has the means of the window so far; at its end it has those of the record. */
TEST(a_program_prints_lines_and_samples_of_its_own) {
    const char *directory = run_directory();
    double loss[4];
    toy_must(train_in_its_own_words, (void *)directory);
    assert_contains(toy_output, "step 3");
    assert_contains(toy_output, "step 4");
    assert_contains(toy_output, "validation 2: ");
    assert_int_equal(logged(directory, "train", "train/loss", loss, 4), 2);
    char *want = kept_format("validation 4: %.9g.\n", loss[1]), *path = kept_path(directory, "log.jsonl");
    assert_contains(toy_output, want);
    assert_null(strstr(toy_output, "[Train]"));
    assert_null(strstr(toy_output, "[Val]"));
    char *text = kept_text(path);
    assert_contains(text, "\"name\": \"samples/0\", \"text\": \"after 2\"}");
    assert_contains(text, "\"name\": \"samples/0\", \"text\": \"after 4\"}");
}

/* A part of a run. */
typedef struct {
    const char *directory, *arguments;
} Part;

static void train_part(void *argument) {
    const Part *part = argument;
    Device *device = cpu_device_open(1);
    ToyRun *run = toy_run_open(device, part->directory, part->arguments, 18, 0, 1);
    toy_train(run);
    toy_run_close(run);
    device_close(device);
}

static void train_to(const char *directory, int steps, const char *price) {
    char *arguments = kept_format("-b 4 -g 1 --max-steps %d --resume auto --log-interval 2 %s", steps, price);
    toy_must(train_part, &(Part){directory, arguments});
}

static double saved(const char *directory, const char *name) {
    json_t *state = json_load_file(keep(path_through(directory, "last/state.json")), 0, NULL);
    const json_t *value = json_object_get(state, name);
    double number = json_is_string(value) ? NAN : json_number_value(value);
    assert_non_null(value);
    json_decref(state);
    return number;
}

/* 3600 an hour are 1 a second. */
TEST(the_cost_of_earlier_parts_is_remembered) {
    const char *directory = run_directory();
    double values[8];
    train_to(directory, 4, "--price 3600EUR");
    double seconds = saved(directory, "seconds"), cost = saved(directory, "cost");
    assert_true(seconds > 0);
    assert_near(cost / seconds, 1, 1e-9);
    assert_contains(toy_output, "[Done] cost: ");
    assert_null(strstr(toy_output, "in this part"));
    train_to(directory, 8, "--price 7200EUR"); /* a dearer machine */
    assert_near((saved(directory, "cost") - cost) / (saved(directory, "seconds") - seconds), 2, 1e-6);
    assert_int_equal(logged(directory, "start", "price_per_hour", values, 8), 2);
    assert_true(values[0] == 3600 && values[1] == 7200);
    assert_true(logged_last(directory, "summary", "summary/cost") >= saved(directory, "cost"));
    char *path = kept_path(directory, "log.jsonl"), *log = kept_text(path);
    assert_contains(log, "\"currency\": \"EUR\"");
}

TEST(a_cost_that_is_not_known_of_all_parts_is_of_this_part) {
    const char *directory = run_directory();
    double values[8];
    train_to(directory, 4, "");
    assert_true(isnan(saved(directory, "cost")));
    assert_null(strstr(toy_output, "[Done] cost"));
    assert_int_equal(logged(directory, "start", "price_per_hour", values, 8), 0);
    train_to(directory, 8, "--price 3600");
    assert_contains(toy_output, " USD in this part\n");
    const char *other = run_directory();
    train_to(other, 4, "--price 3600EUR");
    train_to(other, 8, "--price 3600CHF");
    assert_contains(toy_output, " CHF in this part\n");
    assert_true(isnan(saved(other, "cost")));
    assert_int_equal(logged(other, "summary", "summary/cost", values, 8),
                     1); /* of the first part, and not of the second */
}

/* A number of seconds would be a guess before a step was measured. */
TEST(the_first_line_has_no_time_left) {
    toy_must(train_part, &(Part){run_directory(), "-b 4 -g 1 --max-steps 4 --log-interval 1"});
    const char *line = strstr(toy_output, "[Train] epoch=1 step=1 ");
    assert_non_null(line);
    assert_null(memmem(line, strcspn(line, "\n"), "ETA", 3));
    line = strstr(toy_output, "[Train] epoch=1 step=2 ");
    assert_non_null(line);
    assert_non_null(memmem(line, strcspn(line, "\n"), " ETA ", 5));
}

/* Before the first step. */
TEST(with_rates_the_time_is_told_at_once) {
    char *rates = kept_path(run_directory(), "rates.json"), name[128];
    Device *device = cpu_device_open(1);
    rates_device_name(device, name);
    device_close(device);
    Rates measured = rates_synthetic(name);
    Error error;
    measured.copy = 0;
    assert_true(rates_write(rates, &measured, &error));
    char *arguments = kept_format("-b 4 -g 2 --max-steps 4 --log-interval 1 --price 1 --calibration %s", rates);
    toy_must(train_part, &(Part){run_directory(), arguments});
    const char *told = strstr(toy_output, "[Run] about "), *first = strstr(toy_output, " step=1 ");
    assert_true(told && told < first);
    assert_non_null(memmem(told, strcspn(told, "\n") + 1, " USD, by the rates of --calibrate\n", 34));
    assert_null(strstr(told + 1, "[Run] about "));
}

/* 18 samples are 5 micro-batches. */
TEST(thousands_of_epochs_are_warned_of) {
    toy_must(train_part, &(Part){run_directory(), "-b 18 -g 2 --epochs 2000 --log-interval 1000"});
    assert_contains(toy_output, "warning: 1000 steps go 2000 times through the data, which are then known by heart: 10 "
                                "epochs are --max-steps 5\n");
    toy_must(train_part, &(Part){run_directory(), "-b 18 -g 2 --epochs 2000 --max-steps 499 --log-interval 1000"});
    assert_null(strstr(toy_output, "times through the data"));
}
