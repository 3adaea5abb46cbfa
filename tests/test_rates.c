/* What --calibrate measures and keeps, and what --estimate makes of it: curves and times by hand, the file and its
 * damages, and the programs. */
#include <jansson.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/ops_table.h"
#include "tests/helpers.h"
#include "train/estimate.h"

static char output[1 << 16];

static void expect_near(const char *what, double got, double want) {
    if (!(fabs(got - want) <= 1e-12 * fabs(want))) fail_msg("%s: got %.15g, want %.15g", what, got, want);
}

/* ---- curves ---- */

static void a_curve_is_straight_between_its_points_in_logarithms(void **state) {
    (void)state;
    const Curve curve = {.n = 3, .size = {1e3, 1e5, 1e6}, .rate = {1e9, 4e9, 2e9}};
    expect_near("a point", curve_at(&curve, 1e5), 4e9);
    expect_near("half way", curve_at(&curve, 1e4), 2e9);
    expect_near("behind it", curve_at(&curve, pow(10, 5.5)), 4e9 / sqrt(2));
    expect_near("below", curve_at(&curve, 1), 1e9);
    expect_near("above", curve_at(&curve, 1e12), 2e9);
    const Curve point = {.n = 1, .size = {1e3}, .rate = {1e9}};
    expect_near("one point", curve_at(&point, 1e9), 1e9);
}

/* 1e6 FLOPs are 2e9 on one curve and 8e9 on the other; at 1, 4, 16 and 100 FLOPs a byte. */
static void curves_are_between_each_other_by_density(void **state) {
    (void)state;
    const Curve curves[CURVES] = {{.n = 1, .density = 4, .size = {1e3}, .rate = {2e9}},
                                  {.n = 2, .density = 64, .size = {1e3, 1e9}, .rate = {4e9, 16e9}}};
    const Curve none[CURVES] = {{0}};
    expect_near("narrow", curves_at(curves, 1e6, 1e6), 2e9);
    expect_near("as the narrow ones", curves_at(curves, 1e6, 1e6 / 4), 2e9);
    expect_near("half way", curves_at(curves, 1e6, 1e6 / 16), 4e9);
    expect_near("wide", curves_at(curves, 1e6, 1e4), 8e9);
    expect_near("no byte", curves_at(curves, 1e6, 0), 8e9);
    expect_near("not measured", curves_at(none, 1e6, 1e6), 0);
}

/* ---- times ---- */

static Rates made_up(const char *device) {
    Rates r = {.date = "2026-01-02", .memory = 0x1p33, .launch = 1e-6, .seconds = 5, .half = DTYPE_BF16, .copy = 1e10};
    snprintf(r.device, sizeof r.device, "%s", device);
    r.bytes = (Curve){.n = 2, .size = {1e4, 1e8}, .rate = {1e12, 1e10}};
    r.flops[WORK_PRODUCT][NUMBERS_F32][0] = (Curve){.n = 2, .density = 10, .size = {1e6, 1e10}, .rate = {1e9, 1e11}};
    r.flops[WORK_PRODUCT][NUMBERS_16_BITS][0] = (Curve){.n = 1, .density = 10, .size = {1e6}, .rate = {1e13}};
    r.flops[WORK_NORM][NUMBERS_F32][0] = (Curve){.n = 1, .density = 0.5, .size = {1e6}, .rate = {1e10}};
    return r;
}

/* Two sizes of call, each at its own rate: 3 of 1e6 FLOPs at 1e9, 2 of 1e8 at 1e10, their bytes at 1e12 and 1e11 and so
 * less; and 5 launches. */
static void calls_of_each_size_take_their_own_rate(void **state) {
    (void)state;
    const Rates rates = made_up("x");
    const Card card = {
        .capability = 80, .f32 = 1e15, .of_f32 = 1, .tf32 = 1e15, .half = 1e15, .bandwidth = 1, .launch = 1};
    Machine machine = {&card, DTYPE_F32, true, 1, &rates};
    OpWork work = {0};
    op_work_add(&work, (CallWork){3, 3e6, 3e4});
    op_work_add(&work, (CallWork){2, 2e8, 2e6});
    OpTime t = estimate_op(&machine, OP_linear_forward, &work);
    expect_near("compute", t.compute, 3e-3 + 2e-2);
    expect_near("memory", t.memory, 3e4 / 1e12 + 2e6 / 1e11);
    expect_near("launches", t.launches, 5e-6);
    expect_near("all", t.seconds, 23e-3 + 5e-6);
    assert_int_equal(t.bound, BY_COMPUTE);
    machine.half = DTYPE_BF16;
    expect_near("16 bits", estimate_op(&machine, OP_linear_forward, &work).compute, 203e6 / 1e13);
    machine.half = DTYPE_F32;
    /* A kind that is not measured is bound by bytes, or by the card's share. */
    OpWork moved = {0};
    op_work_add(&moved, (CallWork){1, 0, 1e8});
    t = estimate_op(&machine, OP_gather_rows, &moved);
    expect_near("moved", t.seconds, 1e-2 + 1e-6);
    assert_int_equal(t.bound, BY_MEMORY);
    const Work batch = {.batch_bytes = 1e8};
    expect_near("copied", estimate_work(&machine, &batch).copy, 1e-2);
}

/* ---- the file ---- */

static void expect_curve(const Curve *got, const Curve *want) {
    assert_int_equal(got->n, want->n);
    for (int i = 0; i < want->n; i++) {
        expect_near("size", got->size[i], want->size[i]);
        expect_near("rate", got->rate[i], want->rate[i]);
    }
}

static void expect_rates(const char *path, const Rates *want) {
    Rates got;
    Error error;
    if (!rates_read(path, want->device, &got, &error)) fail_msg("%s: %s", want->device, error.text);
    assert_string_equal(got.device, want->device);
    assert_string_equal(got.date, want->date);
    assert_int_equal(got.half, want->half);
    expect_near("memory", got.memory, want->memory);
    expect_near("launch", got.launch, want->launch);
    expect_near("copy", got.copy, want->copy);
    expect_curve(&got.bytes, &want->bytes);
    for (int k = 0; k < WORK_KINDS; k++)
        for (int t = 0; t < NUMBER_TYPES; t++)
            for (int i = 0; i < CURVES; i++) {
                expect_curve(&got.flops[k][t][i], &want->flops[k][t][i]);
                expect_near("density", got.flops[k][t][i].density, want->flops[k][t][i].density);
            }
}

static void the_file_keeps_every_device(void **state) {
    (void)state;
    char *directory = scratch_directory(), *path = path_join(directory, "new/folder/rates.json");
    Rates one = made_up("NVIDIA One"), other = made_up("A \"CPU\", 2 threads"), none;
    Error error;
    char names[4][128];
    assert_false(rates_read(path, one.device, &none, &error));
    assert_string_equal(error.text, "");
    assert_int_equal(rates_devices(path, names, 4, &error), 0);
    other.launch = 3e-6;
    other.half = DTYPE_F32;
    other.copy = 0;
    other.flops[WORK_NORM][NUMBERS_F32][1] = (Curve){.n = 3, .density = 2, .size = {1, 2, 3}, .rate = {0.125, 0.25, 8}};
    assert_true(rates_write(path, &one, &error));
    assert_true(rates_write(path, &other, &error));
    expect_rates(path, &one);
    expect_rates(path, &other);
    one.launch = 7e-6;
    one.flops[WORK_NORM][NUMBERS_F32][0].n = 0;
    one.flops[WORK_NORM][NUMBERS_F32][0].density = 0;
    assert_true(rates_write(path, &one, &error));
    expect_rates(path, &one);
    expect_rates(path, &other);
    assert_int_equal(rates_devices(path, names, 4, &error), 2);
    assert_false(rates_read(path, "NVIDIA On", &none, &error));
    assert_string_equal(error.text, "");
    run_command(output, sizeof output, "ls -A %s/new/folder", directory);
    assert_string_equal(output, "rates.json\n"); /* nothing temporary is left */
    free(path);
    free(directory);
}

/* The file with `from` replaced by `to` is refused with these words, and is not written over. */
static void expect_refused(const char *whole, const char *from, const char *to, const char *part) {
    char *path = path_join(run_directory(), "damaged.json"), *at = strstr(whole, from);
    Rates rates;
    Error error;
    if (!at) fail_msg("'%s' is not in %s", from, whole);
    write_text(path, "%.*s%s%s", (int)(at - whole), whole, to, at + strlen(from));
    assert_false(rates_read(path, "x", &rates, &error));
    assert_contains(error.text, "damaged.json");
    assert_contains(error.text, part);
    free(path);
}

static void damage_is_told_by_its_place(void **state) {
    (void)state;
    char *path = path_join(run_directory(), "rates.json");
    Rates rates = made_up("x");
    Error error;
    rates.flops[WORK_PRODUCT][NUMBERS_F32][1] = (Curve){.n = 1, .density = 99, .size = {7}, .rate = {8}};
    assert_true(rates_write(path, &rates, &error));
    char *whole = read_text(path), *sum = strstr(whole, ",\n \"xxh3_64\"");
    expect_refused(whole, "\"launch\"", "\"launcH\"", "is not as it was written: its checksum is");
    expect_refused(whole, "7.0", "7.5", "is not as it was written");
    assert_non_null(sum);
    strcpy(sum, "\n}"); /* who changes it by hand takes that away */
    expect_refused(whole, whole + strlen(whole) / 2, "", "damaged.json:");
    expect_refused(whole, "\"version\": 1", "\"version\": 2", "version is missing, or not 1");
    expect_refused(whole, "\"devices\"", "\"device\"", "devices is missing");
    expect_refused(whole, "\"launch\": ", "\"launch\": -", "x: launch is missing, or no number of 0 or more");
    expect_refused(whole, "\"memory\"", "\"memories\"", "x: memory is missing");
    expect_refused(whole, "\"copy\"", "\"copies\"", "x: copy is missing");
    expect_refused(whole, "\"bf16\"", "\"f17\"", "x: half is 'f17'");
    expect_refused(whole, "\"2026-01-02\"", "2026", "x: date is missing, or no text");
    expect_refused(whole, "\"flops\"", "\"flop\"", "x: flops is missing");
    expect_refused(whole, "\"bytes\"", "\"byte\"", "x: bytes is no list");
    expect_refused(whole, "99", "9", "x: flops: product: f32: the flops_per_byte of curve 1 is not above");
    expect_refused(whole, "10.0", "0.0", "x: flops: product: 16 bits: the flops_per_byte of curve 0 is not above 0");
    expect_refused(whole, "7.0", "0", "x: flops: product: f32: rates: entry 0 is no pair");
    expect_refused(whole, "8.0", "\"8\"", "x: flops: product: f32: rates: entry 0 is no pair");
    /* What is damaged is not replaced: other devices are in it. */
    write_text(path, "%s", "{\"version\": 3}");
    assert_false(rates_write(path, &rates, &error));
    assert_contains(error.text, "version");
    char *left = read_text(path);
    assert_string_equal(left, "{\"version\": 3}");
    free(left);
    free(whole);
    free(path);
}

/* Of writers at the same time none loses what the others wrote, and a name that JSON cannot hold is told. */
static void writers_at_once_keep_all_devices(void **state) {
    (void)state;
    enum { WRITERS = 6, TIMES = 20 };
    char *path = path_join(run_directory(), "at_once.json"), names[WRITERS + 1][128];
    Rates rates = made_up("CPU \xff, 2 threads");
    Error error;
    assert_false(rates_write(path, &rates, &error));
    assert_contains(error.text, "at_once.json cannot hold a device of the name 'CPU ");
    for (int i = 0; i < WRITERS; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child) continue;
        bool fine = true;
        for (int k = 0; k < TIMES && fine; k++) {
            char *name = xformat("device %d", i);
            Rates own = made_up(name);
            fine = rates_write(path, &own, &error);
            free(name);
        }
        _exit(fine ? 0 : 1);
    }
    for (int i = 0, status; i < WRITERS; i++) {
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    assert_int_equal(rates_devices(path, names, WRITERS + 1, &error), WRITERS);
    free(path);
}

/* ---- the programs ---- */

static void run(int status, const char *format, const char *rates) {
    const char *build = getenv("BUILD") ? getenv("BUILD") : "build/release";
    char *arguments = xformat("%s/%s", build, format);
    int got = run_command(output, sizeof output, arguments, rates); /* NOLINT: formats of this file */
    if (got != status) fail_msg("%s: exit %d instead of %d: %s", arguments, got, status, output);
    free(arguments);
}

/* Under another name of a file each, whose rates are of a card of the table. */
static void a_measured_card_is_estimated_by_its_rates(void **state) {
    (void)state;
    char *path = path_join(run_directory(), "card.json");
    Rates rates = made_up("NVIDIA L4"), unknown = made_up("NVIDIA Nobody's"), cpu = made_up("AMD A10-7850K, 4 threads");
    Error error;
    cpu.copy = 0; /* it is no A10 */
    assert_true(rates_write(path, &rates, &error) && rates_write(path, &unknown, &error));
    assert_true(rates_write(path, &cpu, &error));
    run(0, "train_gpt --estimate --gpu l4 --amp --calibration %s", path);
    assert_contains(output, "[Measured] on 2026-01-02, NVIDIA L4: ");
    assert_contains(output, path);
    assert_null(strstr(output, "[Assumed] sustained"));
    const char *const others[] = {"a30", "a10"};
    for (int i = 0; i < 2; i++) {
        char *of_card = xformat("train_gpt --estimate --gpu %s --amp --calibration %%s", others[i]);
        run(0, of_card, path);
        assert_null(strstr(output, "[Measured]"));
        free(of_card);
    }
    run(0, "train_gpt --estimate --gpu all --amp --calibration %s", path);
    char *measured = strstr(output, "rates measured");
    assert_true(measured && measured > strstr(output, "\nl4 ") && measured < strstr(output, "\nl40 "));
    assert_null(strstr(measured + 1, "rates measured"));
    run(0, "train_gpt --estimate --gpu l4 --amp --json --calibration %s 2>/dev/null", path);
    json_t *root = json_loads(output, 0, NULL), *card = json_array_get(json_object_get(root, "gpus"), 0);
    assert_string_equal(json_string_value(json_object_get(json_object_get(card, "measured"), "date")), "2026-01-02");
    assert_null(json_object_get(card, "assumed"));
    json_decref(root);
    run(0, "train_gpt --estimate --gpu l4 --calibration none", path);
    assert_contains(output, "[Assumed] sustained");
    run(0, "train_gpt --estimate --gpu t4 --calibration none", path);
    assert_contains(output, "f32, as it has no TF32");
    free(path);
}

static void here_is_known_once_it_is_measured(void **state) {
    (void)state;
    char *path = path_join(run_directory(), "here.json");
    setenv("TRAINC_CALIBRATE_SECONDS", "4", 1);
    run(2, "train_psd pretrain --estimate --gpu here --device cpu --calibration %s", path);
    assert_contains(output, "nothing is known of this machine's ");
    assert_contains(output, "--calibrate --device cpu --calibration ");
    run(0, "train_gpt --calibrate --device cpu --threads 1 --calibration %s", path);
    assert_contains(output, ", 1 thread, for up to");
    const char *const kinds[] = {"\nproduct ", "\nattention_backward ", "\nnorm ", "\nupdate ", "\nmemory "};
    for (int i = 0; i < 5; i++) assert_contains(output, kinds[i]);
    assert_contains(output, "; kept in ");
    run(2, "train_gpt --estimate --gpu here --device cpu --threads 2 --calibration %s", path); /* another device */
    assert_contains(output, "--calibrate --device cpu --threads 2 --calibration ");
    run(0, "train_gpt --estimate --gpu here --device cpu --threads 1 --amp --max-steps 3 --calibration %s", path);
    assert_contains(output, "GiB: f32: --amp has no effect on a CPU");
    assert_contains(output, "[Measured] on ");
    assert_contains(output, "copy 0.000 ms");
    assert_null(strstr(output, "kWh"));
    Rates rates;
    Error error;
    Device *device = cpu_device_open(1);
    char name[128];
    rates_device_name(device, name);
    assert_true(rates_read(path, name, &rates, &error));
    assert_true(rates.copy == 0 && rates.half == DTYPE_F32 && rates.launch > 0 && rates.memory > 1e8);
    for (int k = 0; k < WORK_OTHER; k++) /* a cell is much work: a slow machine leaves it out of so short a time */
        if ((k < WORK_CONVOLUTION || k > WORK_STEM_BACKWARD) && !rates.flops[k][NUMBERS_F32][0].n)
            fail_msg("%s is not measured", work_names[k]);
    for (int i = 1; i < rates.bytes.n; i++) assert_true(rates.bytes.size[i] > 4 * rates.bytes.size[i - 1]);
    assert_int_equal(rates.flops[WORK_PRODUCT][NUMBERS_16_BITS][0].n, 0);
    device_close(device);
    unsetenv("TRAINC_CALIBRATE_SECONDS");
    free(path);
}

/* As in a container: nothing can have been measured, and all else works. */
static void without_a_home_there_are_no_rates(void **state) {
    (void)state;
    char *cache = xstrdup(getenv("XDG_CACHE_HOME")), *home = xstrdup(getenv("HOME") ? getenv("HOME") : "");
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    run(0, "train_gpt --estimate --gpu l4 %s", "");
    assert_contains(output, "[Assumed] sustained");
    run(2, "train_gpt --calibrate --device cpu %s", "");
    assert_contains(output, "give --calibration FILE, as neither XDG_CACHE_HOME nor HOME is set");
    setenv("XDG_CACHE_HOME", cache, 1);
    if (*home) setenv("HOME", home, 1);
    free(cache);
    free(home);
}

static void wrong_options_are_told(void **state) {
    (void)state;
    char *path = path_join(run_directory(), "wrong.json");
    write_text(path, "{");
    run(1, "train_gpt --estimate --gpu l4 --calibration %s", path);
    assert_contains(output, "wrong.json:1: ");
    run(1, "train_gpt --estimate --gpu here --device cpu --calibration %s", path);
    assert_contains(output, "wrong.json:1: ");
    run(1, "train_gpt --calibrate --device cpu --calibration %s", path);
    assert_contains(output, "remove it and measure again");
    run(2, "train_gpt --estimate --gpu l4 --calibration %s.not", path);
    assert_contains(output, "there is no such file; --calibrate writes it");
    run(2, "train_gpt --calibrate --calibration none", path);
    assert_contains(output, "where is --calibrate to keep");
    run(2, "train_gpt --calibrate --estimate", path);
    assert_contains(output, "given alone");
    run(2, "train_gpt --estimate --gpu hear", path);
    assert_contains(output, "did you mean 'here'?");
    run(2, "train_psd run --calibrate", path);
    assert_contains(output, "unknown option --calibrate");
    free(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_curve_is_straight_between_its_points_in_logarithms),
        cmocka_unit_test(curves_are_between_each_other_by_density),
        cmocka_unit_test(calls_of_each_size_take_their_own_rate),
        cmocka_unit_test(the_file_keeps_every_device),
        cmocka_unit_test(damage_is_told_by_its_place),
        cmocka_unit_test(writers_at_once_keep_all_devices),
        cmocka_unit_test(a_measured_card_is_estimated_by_its_rates),
        cmocka_unit_test(here_is_known_once_it_is_measured),
        cmocka_unit_test(without_a_home_there_are_no_rates),
        cmocka_unit_test(wrong_options_are_told),
    };
    setenv("XDG_CACHE_HOME", run_directory(), 1); /* not this user's own rates */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
