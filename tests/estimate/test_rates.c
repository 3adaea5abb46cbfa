/* The measured rates of devices: curves and times compared with values by hand, the file and damages to it. */
#include <jansson.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cost/cost.h"
#include "kernels/device_open.h"
#include "kernels/ops_table.h"
#include "tests/estimate/rates_rig.h"
#include "tests/test.h"

static Error error;

static char output[1 << 16];

static void expect_near(const char *what, double got, double want) {
    if (!(fabs(got - want) <= 1e-12 * fabs(want))) fail_msg("%s: got %.15g, want %.15g", what, got, want);
}

/* ---- curves ---- */

TEST(a_curve_is_straight_between_its_points_in_logarithms) {
    const RateCurve curve = {.n = 3, .size = {1e3, 1e5, 1e6}, .rate = {1e9, 4e9, 2e9}};
    expect_near("a point", rate_curve_at(&curve, 1e5), 4e9);
    expect_near("half way", rate_curve_at(&curve, 1e4), 2e9);
    expect_near("behind it", rate_curve_at(&curve, pow(10, 5.5)), 4e9 / sqrt(2));
    expect_near("below", rate_curve_at(&curve, 1), 1e9);
    expect_near("above", rate_curve_at(&curve, 1e12), 2e9);
    const RateCurve point = {.n = 1, .size = {1e3}, .rate = {1e9}};
    expect_near("one point", rate_curve_at(&point, 1e9), 1e9);
}

/* 1e6 FLOPs are 2e9 on one curve and 8e9 on the other; at 1, 4, 16 and 100 FLOPs a byte. */
TEST(curves_are_between_each_other_by_density) {
    const RateCurve curves[CURVES] = {{.n = 1, .density = 4, .size = {1e3}, .rate = {2e9}},
                                      {.n = 2, .density = 64, .size = {1e3, 1e9}, .rate = {4e9, 16e9}}};
    const RateCurve none[CURVES] = {{0}};
    expect_near("narrow", rate_curves_at(curves, 1e6, 1e6), 2e9);
    expect_near("as the narrow ones", rate_curves_at(curves, 1e6, 1e6 / 4), 2e9);
    expect_near("half way", rate_curves_at(curves, 1e6, 1e6 / 16), 4e9);
    expect_near("wide", rate_curves_at(curves, 1e6, 1e4), 8e9);
    expect_near("no byte", rate_curves_at(curves, 1e6, 0), 8e9);
    expect_near("not measured", rate_curves_at(none, 1e6, 1e6), 0);
}

/* ---- times ---- */

/* Two sizes of call, each at its own rate: 3 of 1e6 FLOPs at 1e9, 2 of 1e8 at 1e10, their bytes at 1e12 and 1e11 and so
 * less; and 5 launches. */
TEST(calls_of_each_size_take_their_own_rate) {
    const Rates rates = rates_synthetic("x");
    const Card card = {
        .capability = 80, .f32 = 1e15, .of_f32 = 1, .tf32 = 1e15, .half = 1e15, .bandwidth = 1, .launch = 1};
    Machine machine = {.card = &card, .half = DTYPE_F32, .tf32 = true, .workers = 1, .rates = &rates};
    OpWork work = {0};
    work_add_calls(&work, (CallWork){3, 3e6, 3e4});
    work_add_calls(&work, (CallWork){2, 2e8, 2e6});
    OpTime t = cost_of_op(&machine, OP_linear_forward, &work);
    expect_near("compute", t.compute, 3e-3 + 2e-2);
    expect_near("memory", t.memory, 3e4 / 1e12 + 2e6 / 1e11);
    expect_near("launches", t.launches, 5e-6);
    expect_near("all", t.seconds, 23e-3 + 5e-6);
    assert_int_equal(t.bound, BY_COMPUTE);
    machine.half = DTYPE_BF16;
    expect_near("16 bits", cost_of_op(&machine, OP_linear_forward, &work).compute, 203e6 / 1e13);
    machine.half = DTYPE_F32;
    /* A kind that is not measured is bound by bytes, or by the card's share. */
    OpWork moved = {0};
    work_add_calls(&moved, (CallWork){1, 0, 1e8});
    t = cost_of_op(&machine, OP_gather_rows, &moved);
    expect_near("moved", t.seconds, 1e-2 + 1e-6);
    assert_int_equal(t.bound, BY_MEMORY);
    const Work batch = {.batch_bytes = 1e8};
    expect_near("copied", cost_of_work(&machine, &batch).copy, 1e-2);
}

/* ---- the file ---- */

static void expect_curve(const RateCurve *got, const RateCurve *want) {
    assert_int_equal(got->n, want->n);
    for (int i = 0; i < want->n; i++) {
        expect_near("size", got->size[i], want->size[i]);
        expect_near("rate", got->rate[i], want->rate[i]);
    }
}

static void expect_rates(const char *path, const Rates *want) {
    Rates got;
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

TEST(the_file_keeps_every_device) {
    char *directory = kept_folder(), *path = kept_path(directory, "new/folder/rates.json");
    Rates one = rates_synthetic("NVIDIA One"), other = rates_synthetic("A \"CPU\", 2 threads"), none;
    char names[4][128];
    assert_false(rates_read(path, one.device, &none, &error));
    assert_string_equal(error.text, "");
    assert_int_equal(rates_devices(path, names, 4, &error), 0);
    other.launch = 3e-6;
    other.half = DTYPE_F32;
    other.copy = 0;
    other.flops[WORK_NORM][NUMBERS_F32][1] =
        (RateCurve){.n = 3, .density = 2, .size = {1, 2, 3}, .rate = {0.125, 0.25, 8}};
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
}

/* The file with `from` replaced by `to` is refused with these words, and is not written over. */
static void expect_refused(const char *whole, const char *from, const char *to, const char *part) {
    char *path = kept_path(run_directory(), "damaged.json"), *at = strstr(whole, from);
    Rates rates;
    if (!at) fail_msg("'%s' is not in %s", from, whole);
    write_text(path, "%.*s%s%s", (int)(at - whole), whole, to, at + strlen(from));
    assert_false(rates_read(path, "x", &rates, &error));
    assert_contains(error.text, "damaged.json");
    assert_contains(error.text, part);
}

TEST(damage_is_reported_with_its_place) {
    char *path = kept_path(run_directory(), "rates.json");
    Rates rates = rates_synthetic("x");
    rates.flops[WORK_PRODUCT][NUMBERS_F32][1] = (RateCurve){.n = 1, .density = 99, .size = {7}, .rate = {8}};
    assert_true(rates_write(path, &rates, &error));
    char *whole = kept_text(path), *sum = strstr(whole, ",\n \"xxh3_64\"");
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
    /* A damaged file is not replaced, since it has other devices' rates. */
    write_text(path, "%s", "{\"version\": 3}");
    assert_false(rates_write(path, &rates, &error));
    assert_contains(error.text, "version");
    assert_string_equal(kept_text(path), "{\"version\": 3}");
}

/* No writer loses what others write at the same time, and a name that JSON cannot hold is reported. */
TEST(writers_at_once_keep_all_devices) {
    enum { WRITERS = 6, TIMES = 20 };
    char *path = kept_path(run_directory(), "at_once.json"), names[WRITERS + 1][128];
    Rates rates = rates_synthetic("CPU \xff, 2 threads");
    assert_false(rates_write(path, &rates, &error));
    assert_contains(error.text, "at_once.json cannot hold a device of the name 'CPU ");
    for (int i = 0; i < WRITERS; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child) continue;
        bool ok = true;
        for (int k = 0; k < TIMES && ok; k++) {
            char *name = kept_format("device %d", i);
            Rates own = rates_synthetic(name);
            ok = rates_write(path, &own, &error);
        }
        _exit(ok ? 0 : 1);
    }
    for (int i = 0, status; i < WRITERS; i++) {
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    assert_int_equal(rates_devices(path, names, WRITERS + 1, &error), WRITERS);
}

int main(void) {
    setenv("XDG_CACHE_HOME", run_directory(), 1); /* not this user's own rates */
    return tests_run(NULL, NULL);
}

/* ---- the floor ---- */

/* The floor of one call is the larger of its FLOPs at the stated rate and its bytes at the stated bandwidth, for
 * attention, too. */
TEST(a_floor_is_the_stated_rates) {
    static const int ops[] = {OP_linear_forward, OP_attention_forward, OP_attention_backward, OP_layernorm_forward};
    const Card *card = card_of_key("v100");
    Machine machine = {.card = card, .half = DTYPE_F16, .workers = 1};
    for (int i = 0; i < 4; i++) {
        double peak = i < 3 ? card->half : card->f32;
        for (int bound = 0; bound < 2; bound++) { /* by compute, by memory */
            Work work = {0};
            work_add_calls(&work.ops[ops[i]], (CallWork){1, peak * (bound ? 0.5 : 2), card->bandwidth});
            double floor = cost_floor(&machine, &work), estimate = cost_of_work(&machine, &work).seconds;
            assert_true(fabs(floor - (bound ? 1 : 2)) < 1e-12);
            assert_true(estimate > 1.05 * floor);
        }
    }
}
