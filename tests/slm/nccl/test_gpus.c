/* --gpus on a machine with several emulated cards: what is found, and what is refused before anything is started. */
#include "tests/train_rig.h"

/* Runs train_slm on a machine with two cards. Returns the exit status. */
static int run_with_two(const char *options) {
    return run_command(fixture.output, sizeof fixture.output, "EMULATE_DEVICES=2 %s %s",
                       program_at("emulated/train_slm"), options);
}

TEST(the_version_lists_the_cards) {
    assert_int_equal(run_with_two("--version"), 0);
    assert_contains(fixture.output, "found on this machine:\n  2 GPUs: emulated, emulated\n");
    assert_int_equal(
        run_command(fixture.output, sizeof fixture.output, "EMULATE_DEVICES=1 %s -V", program_at("emulated/train_slm")),
        0);
    assert_contains(fixture.output, "found on this machine:\n  1 GPU: emulated\n");
}

TEST(cards_that_are_not_there_are_refused) {
    static const struct {
        const char *options, *why;
    } cases[] = {
        {"--gpus 3", "--gpus 3: this machine has 2 GPUs that the driver shows (CUDA_VISIBLE_DEVICES"},
        {"--gpus 1,2", "--gpus 1,2: this machine has 2 GPUs that the driver shows, counted from 0"},
        {"--gpus 1,1", "--gpus 1,1: GPU 1 is there twice"},
        {"--gpus two", "--gpus two: expected a number of GPUs"},
        {"--gpus 2 --device cpu", "--gpus 2 and --device cpu contradict each other"},
    };
    for (int i = 0; i < 5; i++) {
        assert_int_equal(run_with_two(kept_format("--data . %s", cases[i].options)), 2);
        assert_contains(fixture.output, cases[i].why);
    }
}

TEST(nothing_is_started_where_nothing_is_trained) {
    char *folder = kept_folder();
    assert_int_equal(run_with_two(kept_format("--data %s --gpus 2 --dry-run", folder)), 1);
    const char *first = strstr(fixture.output, "has no split 'train'");
    assert_non_null(first);
    assert_null(strstr(first + 1, "has no split 'train'"));
}
