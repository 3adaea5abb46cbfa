/* The rates that train_gpt measures with --calibrate, and their use by --estimate. */
#include <jansson.h>

#include "cost/cost.h"
#include "kernels/cpu/device.h"
#include "kernels/ops_table.h"
#include "tests/estimate/rates_rig.h"
#include "tests/test.h"

static char output[1 << 16];

static void run(int status, const char *format, const char *rates) {
    const char *build = getenv("BUILD") ? getenv("BUILD") : "build/release";
    char *arguments = kept_format("%s/%s", build, format);
    int got = run_command(output, sizeof output, arguments, rates); /* NOLINT: formats of this file */
    if (got != status) fail_msg("%s: exit %d instead of %d: %s", arguments, got, status, output);
}

/* Under another name of a file each, whose rates are of a card of the table. */
TEST(a_measured_card_is_estimated_by_its_rates) {
    char *path = kept_path(run_directory(), "card.json");
    Rates rates = rates_synthetic("NVIDIA L4"), unknown = rates_synthetic("NVIDIA Nobody's"),
          cpu = rates_synthetic("AMD A10-7850K, 4 threads");
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
        run(0, kept_format("train_gpt --estimate --gpu %s --amp --calibration %%s", others[i]), path);
        assert_null(strstr(output, "[Measured]"));
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
}

TEST(gpu_here_needs_a_calibration) {
    char *path = kept_path(run_directory(), "here.json");
    setenv("TRAINC_CALIBRATE_SECONDS", "4", 1);
    run(2, "train_gpt --estimate --gpu here --device cpu --calibration %s", path);
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
    assert_contains(output, "copies 0.000 ms");
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
            fail_msg("%s is not measured", work_kind_names[k]);
    for (int i = 1; i < rates.bytes.n; i++) assert_true(rates.bytes.size[i] > 4 * rates.bytes.size[i - 1]);
    assert_int_equal(rates.flops[WORK_PRODUCT][NUMBERS_16_BITS][0].n, 0);
    device_close(device);
    unsetenv("TRAINC_CALIBRATE_SECONDS");
}

/* Estimates as in a container without a home: no rates were measured, and all else works. */
TEST(without_a_home_there_are_no_rates) {
    char *cache = keep(xstrdup(getenv("XDG_CACHE_HOME"))), *home = keep(xstrdup(getenv("HOME") ? getenv("HOME") : ""));
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    run(0, "train_gpt --estimate --gpu l4 %s", "");
    assert_contains(output, "[Assumed] sustained");
    run(2, "train_gpt --calibrate --device cpu %s", "");
    assert_contains(output, "give --calibration FILE, as neither XDG_CACHE_HOME nor HOME is set");
    setenv("XDG_CACHE_HOME", cache, 1);
    if (*home) setenv("HOME", home, 1);
}

TEST(wrong_options_are_refused) {
    static const struct {
        int status;
        const char *arguments, *message;
    } cases[] = {
        {1, "train_gpt --estimate --gpu l4 --calibration %s", "wrong.json:1: "},
        {1, "train_gpt --estimate --gpu here --device cpu --calibration %s", "wrong.json:1: "},
        {1, "train_gpt --calibrate --device cpu --calibration %s", "remove it and measure again"},
        {2, "train_gpt --estimate --gpu l4 --calibration %s.not", "there is no such file; --calibrate writes it"},
        {2, "train_gpt --calibrate --calibration none", "where is --calibrate to keep"},
        {2, "train_gpt --calibrate --estimate", "given alone"},
        {2, "train_gpt --estimate --gpu hear", "did you mean 'here'?"},
    };
    char *path = kept_path(run_directory(), "wrong.json");
    write_text(path, "{");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run(cases[i].status, cases[i].arguments, path);
        assert_contains(output, cases[i].message);
    }
}

int main(void) {
    setenv("XDG_CACHE_HOME", run_directory(), 1); /* not this user's own rates */
    return tests_run(NULL, NULL);
}
