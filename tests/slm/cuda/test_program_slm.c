/* train_slm on the emulated device: packed and separate documents in every precision, its memory, and its restarts
 * (tests/cuda/program_rig.h). The loop's other duties do not depend on the model (tests/gpt/cuda/test_program_gpt.c).
 */
#include "tests/cuda/program_rig.h"
#include "tests/slm/train_rig.h"

static const char *const cuda_run =
    "--device cuda --d-model 32 --layers 1 --max-steps 6 --log-interval 3 --save-interval 3 --val-interval 6";

/* The same seed and data on both devices, dropout too: f32 losses differ by the order of sums, which 6 steps of AdamW
 * at a rate of 1e-3 carry on; 16-bit ones by the rounding of activations, 2^-9 each, of which some dozen lie one behind
 * the other. */
TEST(training_matches_the_cpu) {
    static const struct {
        const char *capability, *options;
        double tolerance;
    } cards[] = {{NULL, "--no-tf32", 1e-4},
                 {NULL, "--no-tf32 --documents separate", 1e-4},
                 {NULL, "--amp", 0.02},
                 {"75", "--amp --documents separate", 0.02}};
    static const char *const values[][2] = {
        {"train", "train/loss"}, {"train", "train/grad_norm"}, {"val", "val/loss"}, {"val", "val/bits_per_byte"}};
    for (int i = 0; i < 4; i++) {
        if (!emulated && cards[i].capability) continue;
        char *cpu = kept_folder(), *run = kept_folder();
        bool separate = strstr(cards[i].options, "separate") != NULL;
        assert_int_equal(fixture_train(cpu, "%s --device cpu%s", cuda_run, separate ? " --documents separate" : ""), 0);
        set_emulator(NULL, cards[i].capability);
        int status = fixture_train(run, "%s %s", cuda_run, cards[i].options);
        if (status) fail_msg("%s", fixture.output);
        for (int v = 0; v < 4; v++) {
            double want = logged_last(cpu, values[v][0], values[v][1]),
                   got = logged_last(run, values[v][0], values[v][1]);
            print_message("%s %s: %.6f, on the cpu %.6f\n", values[v][1], cards[i].options, got, want);
            assert_true(fabs(got / want - 1) <= cards[i].tolerance);
        }
    }
    set_emulator(NULL, NULL);
}

/* The line has the share of the card's stated rate, which the emulator is far from. */
TEST(the_line_divides_by_the_cards_peak) {
    if (!emulated) skip();
    char *run = kept_folder();
    set_variable("EMULATE_CARD", "NVIDIA A30");
    int status = fixture_train(run, "%s --amp --max-steps 1 --log-interval 1", cuda_run);
    set_variable("EMULATE_CARD", NULL);
    if (status) fail_msg("%s", fixture.output);
    assert_contains(fixture.output, "ms, mfu 0.00% of 165 TFLOP/s, ");
}

/* The last micro-batch of an epoch is smaller, and rarely comes at the same place of a step. */
static int train_more(const char *run, const char *more) { return fixture_train(run, "%s", more); }

TEST(steps_are_recorded) {
    check_launches(train_more, "--device cuda --d-model 32 --layers 1 --save-interval 0 --val-interval 999 --amp -g 1",
                   16, 5);
}

/* Documents of many lengths: recordings are repeated for others than they were made of. */
TEST(recorded_steps_have_the_bits_of_direct_ones) {
    check_recorded(train_more, "--device cuda --d-model 32 --layers 1 --amp --documents separate --max-steps 24 "
                               "--val-interval 999");
}

static void train_with_amp(const char *run) {
    fixture_must_train(run, kept_format("%s --amp --documents separate", cuda_run));
}

TEST(every_schedule_gives_the_same_bits) { check_schedules(train_with_amp, assert_same_result); }

TEST(a_resumed_run_gives_the_same_bits) { check_resume(kept_format("%s --amp", cuda_run)); }

TEST(memory_is_as_planned) {
    static const char *const ways[] = {"--grad-checkpointing", "--amp", "--amp --documents separate",
                                       "--amp --documents separate --sampling random"};
    for (int i = 0; i < 4; i++) check_memory(cuda_run, ways[i]);
}

static int train_briefly(const char *run) {
    return fixture_train(run, "%s --amp --documents separate --max-steps 3", cuda_run);
}

TEST(a_run_ends_or_goes_on_whichever_call_runs_out_of_memory) { check_shortage(train_briefly, assert_same_result, 23); }

/* Data are prepared by the program of the CPU, which is faster here. */
static int open_fixture(void **state) {
    slm_fixture_open(state);
    fixture.program = cuda_program("train_slm");
    return 0;
}

int main(void) { return tests_run(open_fixture, NULL); }
