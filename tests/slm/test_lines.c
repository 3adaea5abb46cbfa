/* The log lines of train_slm: the MFU of the reference and the true one, on the numbers of its own run. */
#include "commands/slm/lines.h"
#include "model/slm.h"
#include "tests/test.h"

/* 12 layers of width 768, 30,000 tokens; 20 x 1024 tokens in 0.6851 s on an A30 of 165 TFLOP/s. */
static const double layers = 12, width = 768, vocabulary = 30000, length = 1024, rows = 20 * 1024, seconds = 0.6851;
static const double counted = 107993856; /* parameters without the position table */

static double palm_flops(void) { return rows * (6 * counted + 12 * layers * width * length); }
static double causal_flops(void) {
    return rows * (6 * (12 * layers * width * width + vocabulary * width) + 6 * layers * width * (length + 1));
}

/* Prints a line into a text. */
static char *line_of(const SlmLines *lines, double flops, double peak) {
    static const double values[SLM_METRICS] = {8.51736, 0.25, 4999.5, 2.2};
    char *text;
    size_t size;
    FILE *before = stdout;
    stdout = open_memstream(&text, &size);
    slm_print_step(lines, &(StepLine){.step = 100,
                                      .epoch = 1,
                                      .values = values,
                                      .step_seconds = seconds,
                                      .tokens = rows / seconds,
                                      .flops = flops / seconds,
                                      .peak = peak,
                                      .learning_rate = 6.0479041916e-05,
                                      .grad_norm = 1.5,
                                      .rest = " ETA 11h24m"});
    slm_print_validation(lines, &(ValidationLine){.step = 4000,
                                                  .train = (const double[]){2.74441, 0, 0, 0},
                                                  .values = (const double[]){3.44089, 0.5, 31.2147, 1.25},
                                                  .batches = 1,
                                                  .seconds = 2});
    fclose(stdout);
    stdout = before;
    return keep(text);
}

TEST(the_reference_s_run_has_its_printed_mfu) {
    assert_near(100 * slm_printed_mfu(counted, rows / seconds), 8.278, 0.0005);
    assert_near(palm_flops() / seconds / 1e12, 22.76, 0.005);
    assert_near(causal_flops() / seconds / 1e12, 21.06, 0.005);
}

TEST(a_line_begins_as_the_reference_s) {
    SlmLines lines = {.parameters = counted, .bits = true};
    char *text = line_of(&lines, causal_flops(), 165e12);
    assert_string_equal(text, "iter 100: loss 8.5174, time 685.10ms, mfu 12.76% of 165 TFLOP/s, 29893 tokens/s, lr "
                              "6.05e-05, grad_norm 1.500 ETA 11h24m\n"
                              "step 4000: train loss 2.7444, val loss 3.4409, perplexity 31.21, bits per byte 1.2500, "
                              "top1 50.00% (1 batch, 2.0 s)\n");
}

TEST(the_reference_s_mfu_is_printed_by_choice) {
    SlmLines lines = {.printed = true, .parameters = counted};
    char *text = line_of(&lines, causal_flops(), 165e12);
    assert_contains(text, "ms, mfu 8.28% as the reference prints it, true mfu 12.76% of 165 TFLOP/s, ");
    assert_contains(text, "perplexity 31.21, top1");
}

TEST(a_device_without_a_stated_peak_has_a_measured_one_or_none) {
    SlmLines lines = {.parameters = counted};
    char *none = line_of(&lines, causal_flops(), 0);
    lines.peak = 42.12e12;
    char *measured = line_of(&lines, causal_flops(), 0);
    assert_contains(none, "time 685.10ms, mfu n/a, 21.1 TFLOP/s, 29893 tokens/s");
    assert_contains(measured, "time 685.10ms, mfu 50.00% of 42.1 TFLOP/s measured, 29893 tokens/s");
}

/* FLOPs that are done twice are the hardware's use, not the model's. */
TEST(recomputed_flops_are_no_mfu) {
    SlmLines lines = {.parameters = counted, .recomputes = true};
    char *text = line_of(&lines, causal_flops() * 4 / 3, 165e12);
    assert_contains(text, "time 685.10ms, hfu 17.02% of 165 TFLOP/s, ");
}
