/* Trains the text GPT on ranks with emulated cards of which one dies or is asked to stop, or whose NCCL hangs, fails,
 * is missing or too old. */
#include "tests/side_by_side_rig.h"
#include "tests/slm/train_rig.h"

enum { RANKS = 2, STEPS = 24 };

static SideCase slm = {.program = "train_slm", .cards = true};

static int open_case(void **state) {
    int status = slm_fixture_open(state);
    slm.options = kept_format("--data %s %s -b 2 -g 2 --threads 1 --device cuda --no-tf32 --val-interval 10 "
                              "--save-interval 0 --log-interval 1 --bucket-mb 0.05 --sample-tokens 0 --max-steps %d",
                              fixture.data, slm_model_options, STEPS);
    return status;
}

/* Returns a run that nothing disturbs, with the checkpoints of all steps. */
static const char *whole_run(void) {
    static const char *run;
    if (!run) run = side_train(&slm, RANKS, "--save-interval 1 --keep-checkpoints 99");
    return run;
}

/* Fails unless a run that was cut off in the middle has kept the bits of a step of the whole run. */
static void check_kept(const char *folder) {
    char name[64] = "";
    ssize_t n = readlink(kept_path(folder, "last"), name, sizeof name - 1);
    assert_true(n > 0);
    must_run("cmp %s/%s/model.safetensors %s/%s/model.safetensors", whole_run(), name, folder, name);
    must_run("cmp %s/%s/optimizer.safetensors %s/%s/optimizer.safetensors", whole_run(), name, folder, name);
    assert_int_not_equal(atoi(strchr(name, '_') + 1), STEPS);
}

/* Goes on with a run that was cut off, to the end. */
static void check_the_rest(const char *folder) {
    if (side_try(&slm, RANKS, folder, "--resume auto")) fail_msg("%s", fixture.output);
    assert_same_result(whole_run(), folder);
    assert_same_losses(whole_run(), folder);
}

TEST(a_killed_rank_is_named_and_the_last_whole_step_kept) {
    int statuses[SIDE_MOST_RANKS];
    char *folder = kept_folder();
    side_signal(&slm, RANKS, folder, 1, ".", 6, SIGKILL, statuses);
    assert_int_equal(statuses[0], 75);
    assert_int_equal(statuses[1], 128 + SIGKILL);
    assert_contains(fixture.output, "train_slm: rank 1 (host ");
    assert_contains(fixture.output, ") has ended without a word; the job ends. ");
    assert_contains(fixture.output, " is whole: the same command with --resume auto goes on from it\n");
    check_kept(folder);
    check_the_rest(folder);
}

TEST(a_stopped_rank_is_named_and_hears_of_it) {
    int statuses[SIDE_MOST_RANKS];
    char *folder = kept_folder();
    side_signal(&slm, RANKS, folder, 1, ".", 6, SIGSTOP, statuses);
    for (int r = 0; r < RANKS; r++) assert_int_equal(statuses[r], 75);
    assert_contains(fixture.output, "train_slm: rank 1 (host ");
    assert_contains(fixture.output, ") has not answered for 20 s; the job ends. ");
    check_kept(folder);
}

TEST(without_the_first_rank_the_others_end) {
    int statuses[SIDE_MOST_RANKS];
    char *folder = kept_folder();
    side_signal(&slm, RANKS, folder, 0, ".", 6, SIGKILL, statuses);
    assert_int_equal(statuses[0], 128 + SIGKILL);
    assert_int_equal(statuses[1], 75);
    assert_contains(fixture.output, "train_slm [rank 1]: rank 0 (host ");
    check_the_rest(folder);
}

TEST(a_signal_to_any_rank_stops_all_after_the_same_step) {
    int statuses[SIDE_MOST_RANKS];
    for (int rank = 0; rank < RANKS; rank++) {
        char *folder = kept_folder();
        side_signal(&slm, RANKS, folder, rank, ".", 6, SIGTERM, statuses);
        for (int r = 0; r < RANKS; r++) assert_int_equal(statuses[r], 128 + SIGTERM);
        assert_contains(fixture.output, "[Stopped] by signal 15 after step ");
        check_kept(folder);
    }
}

TEST(a_signal_to_the_parent_of_gpus_stops_all) {
    char *folder = kept_folder();
    char *command = kept_format("%s %s -o %s --gpus %d", side_on_cards(RANKS, slm.program), slm.options, folder, RANKS);
    int status = signal_at_step(folder, start_command(folder, command), 6, SIGTERM);
    assert_int_equal(status, 128 + SIGTERM);
    assert_contains(kept_text(kept_path(folder, "output")), "[Stopped] by signal 15 after step ");
    check_kept(folder);
}

/* Has an operation in the middle of a step fail, and checks what is said and kept. */
static void check_fault(const char *setting, const char *value, const char *more, const char *const *said) {
    char *folder = kept_folder();
    setenv(setting, value, 1);
    setenv("TRAINC_NCCL_LIMIT", "2", 1);
    int status = side_try(&slm, RANKS, folder, more);
    unsetenv("TRAINC_NCCL_LIMIT");
    unsetenv(setting);
    if (status != 75) fail_msg("%s=%s: exit status %d:\n%s", setting, value, status, fixture.output);
    for (; *said; said++) assert_contains(fixture.output, *said);
    check_kept(folder);
    check_the_rest(folder);
}

static const char goes_on[] = " is whole: the same command with --resume auto goes on from it\n";

/* The operation is one of a recording, launched for the eighth time. Aborting it leaves NaN in the gradients, or
 * sums that look right. */
TEST(an_exchange_that_hangs_is_aborted_and_the_step_before_kept) {
    const char *const said[] = {"NCCL has not ended its operations for ", "TRAINC_NCCL_LIMIT=seconds gives them",
                                goes_on, NULL};
    check_fault("STAND_IN_NCCL_HANG_AT", "1.2/8", "", said);
    setenv("EMULATE_SEED", "1", 1);
    setenv("STAND_IN_NCCL_LEAVES_OLD", "1", 1);
    check_fault("STAND_IN_NCCL_HANG_AT", "1.4/8@1", "", said);
    check_fault("STAND_IN_NCCL_HANG_AT", "1.4/8@1", "--skip-nonfinite", said);
    unsetenv("EMULATE_SEED");
    unsetenv("STAND_IN_NCCL_LEAVES_OLD");
}

TEST(an_error_of_nccl_is_told_and_the_step_before_kept) {
    const char *const said[] = {"rank 0 of 2: NCCL, ", "STAND_IN_NCCL_ERROR_AT", goes_on, NULL};
    check_fault("STAND_IN_NCCL_ERROR_AT", "1.2/8", "", said);
}

/* No file over 200 blocks can be written: a model of 170 KB, and not its optimizer. */
TEST(a_full_disk_of_the_first_rank_ends_all_with_one_status) {
    char *folder = kept_folder();
    int status =
        run_command(fixture.output, sizeof fixture.output, "ulimit -f 200; exec timeout -k 9 60 %s %s -o %s --gpus %d",
                    side_on_cards(RANKS, slm.program), slm.options, folder, RANKS);
    assert_int_equal(status, 1);
    assert_contains(fixture.output, "no checkpoint was written");
    check_the_rest(folder);
}

int main(void) { return tests_run(open_case, NULL); }
