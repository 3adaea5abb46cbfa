/* The last lines of a run of train_gpt: its memory and the time of a step, as measured, planned and predicted. */
#include "tests/gpt/train_rig.h"
#include "tests/meter_rig.h"

TEST(memory_of_the_gpt_is_as_planned) {
    static const char *const ways[] = {"--num-workers 3", "--num-workers 1 --grad-checkpointing",
                                       "--token-budget 300 --num-workers 2"};
    for (int i = 0; i < 3; i++) {
        char *run = kept_folder();
        must_run("%s -m %s %s --output-dir %s -b 3 -g 2 --max-steps 5 --val-interval 3 --val-ratio 0.2 --device cpu %s",
                 fixture.program, fixture.manifest, gpt_model_options, run, ways[i]);
        meter_expect_planned_memory(run);
    }
}

/* 12 steps of the GPT; the predicted seconds of one. */
static double predicted_gpt(const char *rates, const char *more) {
    char *run = kept_folder();
    must_run("%s -m %s %s --output-dir %s -b 3 -g 2 --max-steps 12 --val-ratio 0.2 --save-interval 0 --device cpu "
             "--calibration %s %s",
             fixture.program, fixture.manifest, gpt_model_options, run, rates, more);
    double seconds = logged_last(run, "summary", "summary/predicted_step_seconds");
    char *times = kept_format("(measured / predicted %.2f), bound by ",
                              logged_last(run, "summary", "summary/step_seconds") / seconds);
    assert_contains(meter_line("[Done] a step: "), times);
    assert_contains(fixture.output, "(mean of 8; the first 4 are left out), predicted ");
    return seconds;
}

/* Nor does it matter how often the loop stops, or that the validation's batches are large. */
TEST(a_validation_is_no_part_of_a_step) {
    double once = predicted_gpt(meter_synthetic_rates(), "--val-interval 1000 --log-interval 100");
    print_message("predicted: %.6f s\n", once);
    assert_true(once > 0);
    assert_true(predicted_gpt(meter_synthetic_rates(), "--val-interval 1 --log-interval 1") == once);
    assert_true(predicted_gpt(meter_synthetic_rates(), "--val-interval 4 --val-batch-size 5 --log-interval 3") == once);
}

TEST(missing_predictions_are_explained) {
    char *run = kept_folder(), *short_one = kept_folder();
    double value;
    must_run("%s -m %s %s --output-dir %s -b 3 --max-steps 5 --val-ratio 0 --device cpu --calibration none",
             fixture.program, fixture.manifest, gpt_model_options, run);
    assert_contains(fixture.output, "(mean of 1; the first 4 are left out)");
    assert_contains(fixture.output, "--calibrate --device cpu");
    assert_true(logged_last(run, "summary", "summary/step_seconds") > 0);
    assert_int_equal(logged(run, "summary", "summary/predicted_step_seconds", &value, 1), 0);
    must_run("%s -m %s %s --output-dir %s -b 3 --max-steps 4 --val-ratio 0 --device cpu --calibration none",
             fixture.program, fixture.manifest, gpt_model_options, short_one);
    assert_contains(fixture.output, "[Done] a step: not measured");
    assert_int_equal(logged(short_one, "summary", "summary/step_seconds", &value, 1), 0);
}

int main(void) { return tests_run(gpt_fixture_open, NULL); }
