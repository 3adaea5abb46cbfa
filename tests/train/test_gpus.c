/* --gpus: which cards its text means, what contradicts it, and one card that two ranks have. */
#include <unistd.h>

#include "tests/test.h"
#include "tests/train_rig.h"
#include "train/parallel/cards.h"
#include "train/parallel/gpus.h"

static GpuChoice choice;
static Error error;

static bool choose(const char *text, int here, const char *visible) {
    *error.text = 0;
    return gpus_choose(text, here, visible, &choice, &error);
}

static void assert_chosen(int count, const char *cards) {
    assert_string_equal(error.text, "");
    assert_int_equal(choice.count, count);
    assert_string_equal(choice.cards ? choice.cards : "as it is", cards);
    free(choice.cards);
}

TEST(a_number_takes_the_first_cards_and_auto_all) {
    assert_true(choose("2", 4, NULL));
    assert_chosen(2, "as it is");
    assert_false(choice.automatic);
    assert_true(choose("4", 4, "0,1,2,3"));
    assert_chosen(4, "as it is");
    assert_true(choose("auto", 8, NULL));
    assert_chosen(8, "as it is");
    assert_true(choice.automatic);
}

TEST(a_list_names_cards_among_those_that_are_visible) {
    assert_true(choose("0,2", 4, NULL));
    assert_chosen(2, "0,2");
    assert_true(choose("2,0", 3, "3,5,7"));
    assert_chosen(2, "7,3");
    assert_true(choose("1,2", 3, "GPU-8932f937,MIG-cba663e8/1/2,GPU-1"));
    assert_chosen(2, "MIG-cba663e8/1/2,GPU-1");
    assert_true(choose("10,1,0", 11, "0,1,2,3,4,5,6,7,8,9,15"));
    assert_chosen(3, "15,1,0");
}

static void assert_not_chosen(const char *text, int here, const char *visible, const char *why) {
    assert_false(choose(text, here, visible));
    assert_string_equal(error.text, why);
    assert_null(choice.cards);
}

TEST(cards_that_are_not_there_are_refused) {
    assert_not_chosen("4", 2, "0,1",
                      "--gpus 4: this machine has 2 GPUs that the driver shows (CUDA_VISIBLE_DEVICES=0,1)");
    assert_not_chosen("2", 1, NULL,
                      "--gpus 2: this machine has 1 GPU that the driver shows (CUDA_VISIBLE_DEVICES is not set)");
    assert_not_chosen(
        "0,2", 2, NULL,
        "--gpus 0,2: this machine has 2 GPUs that the driver shows, counted from 0 (CUDA_VISIBLE_DEVICES is "
        "not set)");
    assert_not_chosen("0,1,0", 2, NULL, "--gpus 0,1,0: GPU 0 is there twice");
    assert_not_chosen("99999999999999999999", 2, "",
                      "--gpus 99999999999999999999: this machine has 2 GPUs that the driver "
                      "shows (CUDA_VISIBLE_DEVICES=)");
}

TEST(other_texts_are_refused) {
    static const char *const texts[] = {"0", "-1", "two", "", "2x", "0,", ",1", "0,,1", "0, 1", "0;1", "0,x", "all"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_not_chosen(
            texts[i], 4, NULL,
            kept_format("--gpus %s: expected a number of GPUs, auto, or a list of their numbers such as 0,2",
                        texts[i]));
}

TEST(programs_refuse_gpus_that_they_cannot_have) {
    const char *program = program_at("train_slm");
    static const struct {
        const char *options, *why;
        int status;
    } cases[] = {
        {"--data . --gpus 2", "train_slm: --gpus 2: this program was built without CUDA", 1},
        {"--data . --gpus 2 --device cpu", "--gpus 2 and --device cpu contradict each other", 2},
        {"evaluate --checkpoint none --gpus 2 none", "--gpus", 2},
    };
    for (int i = 0; i < 3; i++) {
        assert_int_equal(run_command(fixture.output, sizeof fixture.output, "%s %s", program, cases[i].options),
                         cases[i].status);
        assert_contains(fixture.output, cases[i].why);
    }
    assert_int_equal(run_command(fixture.output, sizeof fixture.output,
                                 "RANK=1 WORLD_SIZE=4 LOCAL_RANK=1 %s --data . --gpus 4", program),
                     2);
    assert_contains(fixture.output, "--gpus 4: torchrun has started this process as rank 1 of 4");
    run_command(fixture.output, sizeof fixture.output, "SLURM_NTASKS=4 SLURM_PROCID=0 %s --data .", program);
    assert_contains(fixture.output, "train_slm: warning: Slurm has been asked for 4 tasks, and without srun");
}

/* ---- one card twice ---- */

static void refuse_twice(void *all) { cards_refuse_twice(all, 3); }

TEST(two_ranks_on_one_card_are_named) {
    char output[600];
    RankCard all[3] = {{"h", "NVIDIA A30", "GPU-1"}, {"h", "NVIDIA A30", "GPU-2"}, {"h", "NVIDIA A30", "GPU-1"}};
    assert_int_equal(run_function(output, sizeof output, refuse_twice, all), 1);
    assert_contains(output, "rank 0 and rank 2 both compute on the GPU NVIDIA A30 (uuid GPU-1) of host h: start");
    strcpy(all[2].host, "pod-7");
    assert_int_equal(run_function(output, sizeof output, refuse_twice, all), 1);
    assert_contains(output, "of host h, there called pod-7: start");
    strcpy(all[2].uuid, "GPU-3");
    assert_int_equal(run_function(output, sizeof output, refuse_twice, all), 0);
    for (int r = 0; r < 3; r++) *all[r].uuid = 0; /* CPUs */
    assert_int_equal(run_function(output, sizeof output, refuse_twice, all), 0);
}
