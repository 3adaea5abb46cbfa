/* train_bert on the emulated device: the classifier and masked words in every precision, frozen and compact, their
 * memory and their restarts (tests/cuda/program_rig.h). The loop's other duties do not depend on the model
 * (tests/gpt/cuda/test_program_gpt.c). */
#include "tests/bert/train_rig.h"
#include "tests/cuda/program_rig.h"

static const char *const cuda_run = "--device cuda --layers 1 --epochs 100 --max-steps 6 --log-interval 3 "
                                    "--save-interval 3 --val-interval 6 --learning-rate 1e-3";
static const char *program; /* train_bert, and with `pretrain` behind it fixture.program */

/* The same seed and data on both devices, dropout and masks too: f32 losses differ by the order of sums, which 6 steps
 * of AdamW at a rate of 1e-3 carry on; 16-bit ones by the rounding of activations, 2^-9 each, of which some dozen lie
 * one behind the other. */
TEST(training_matches_the_cpu) {
    static const struct {
        const char *command, *capability, *options, *model;
        double tolerance;
    } cards[] = {{"", NULL, "--no-tf32", "", 1e-4},
                 {"", NULL, "--no-tf32", "--freeze-embeddings --layer-decay 0.8", 1e-4},
                 {"", NULL, "--amp", "", 0.02},
                 {"", "75", "--amp", "--label-smoothing 0.1", 0.02},
                 {" pretrain", NULL, "--no-tf32", "--whole-words", 1e-4},
                 {" pretrain", "75", "--amp", "", 0.02}};
    static const char *const values[][2] = {
        {"train", "train/loss"}, {"train", "train/grad_norm"}, {"val", "val/loss"}, {"summary", "summary/flops"}};
    for (int i = 0; i < 6; i++) {
        if (!emulated && cards[i].capability) continue;
        char *cpu = kept_folder(), *run = kept_folder();
        fixture.program = kept_format("%s%s", program, cards[i].command);
        assert_int_equal(fixture_train(cpu, "%s --device cpu %s", cuda_run, cards[i].model), 0);
        set_emulator(NULL, cards[i].capability);
        int status = fixture_train(run, "%s %s %s", cuda_run, cards[i].options, cards[i].model);
        if (status) fail_msg("%s", fixture.output);
        for (int v = 0; v < 4; v++) {
            double want = logged_last(cpu, values[v][0], values[v][1]),
                   got = logged_last(run, values[v][0], values[v][1]);
            print_message("%s%s %s %s: %.6f, on the cpu %.6f\n", values[v][1], cards[i].command, cards[i].options,
                          cards[i].model, got, want);
            assert_true(fabs(got / want - 1) <= cards[i].tolerance);
        }
    }
    set_emulator(NULL, NULL);
    fixture.program = program;
}

static int train_more(const char *run, const char *more) { return fixture_train(run, "%s", more); }

static const char *const both[] = {"", " pretrain"};

/* Every micro-batch has other lengths. */
TEST(steps_are_recorded) {
    for (int i = 0; i < 2; i++) {
        fixture.program = kept_format("%s%s", program, both[i]);
        check_launches(train_more, "--device cuda --layers 1 --epochs 100 --amp --save-interval 0 --val-interval 999",
                       64, 5);
    }
    fixture.program = program;
}

TEST(recorded_steps_have_the_bits_of_direct_ones) {
    for (int i = 0; i < 2; i++) {
        fixture.program = kept_format("%s%s", program, both[i]);
        check_recorded(train_more, "--device cuda --layers 1 --epochs 100 --amp --max-steps 24 --val-interval 999");
    }
    fixture.program = program;
}

static void train_with_amp(const char *run) { fixture_must_train(run, kept_format("%s --amp", cuda_run)); }

TEST(every_schedule_gives_the_same_bits) { check_schedules(train_with_amp, assert_same_result); }

TEST(a_resumed_run_gives_the_same_bits) { check_resume(kept_format("%s --amp", cuda_run)); }

TEST(memory_is_as_planned) {
    static const char *const ways[] = {"--grad-checkpointing", "--amp", "--amp --frozen-layers 1",
                                       "--amp --token-budget 60 -g 2"};
    for (int i = 0; i < 4; i++) check_memory(cuda_run, ways[i]);
}

static int open_fixture(void **state) {
    bert_fixture_open(state);
    fixture.program = program = keep(xstrdup(cuda_program("train_bert")));
    return 0;
}

int main(void) { return tests_run(open_fixture, NULL); }
