/* Trains the text GPT on ranks of which one dies, stops, is asked to stop, has other options or another program. */
#include "tests/side_by_side_rig.h"
#include "tests/slm/train_rig.h"

static SideCase slm = {.program = "train_slm"};

static int open_case(void **state) {
    int status = slm_fixture_open(state);
    slm.options = kept_format("--data %s %s -b 2 -g 2 --threads 1 --val-interval 10 --save-interval 0 --log-interval 1 "
                              "--max-steps 300",
                              fixture.data, slm_model_options);
    return status;
}

static const char *whole_run(void) {
    static const char *run;
    if (!run) run = side_train(&slm, 3, "");
    return run;
}

/* Goes on with a run that was cut off, to the end. */
static void check_the_rest(const char *folder) {
    if (side_try(&slm, 3, folder, "--resume auto")) fail_msg("%s", fixture.output);
    assert_same_result(whole_run(), folder);
    assert_same_losses(whole_run(), folder);
}

TEST(a_killed_rank_is_named_and_the_last_whole_step_kept) {
    int statuses[SIDE_MOST_RANKS];
    char *folder = kept_folder();
    side_signal(&slm, 3, folder, 2, ".", 20, SIGKILL, statuses);
    assert_int_equal(statuses[0], 75);
    assert_int_equal(statuses[1], 75);
    assert_int_equal(statuses[2], 128 + SIGKILL);
    assert_contains(fixture.output, "train_slm: rank 2 (host ");
    assert_contains(fixture.output, ") has ended without a word; the job ends. ");
    assert_contains(fixture.output, " is whole: the same command with --resume auto goes on from it\n");
    assert_contains(fixture.output, "train_slm [rank 1]: rank 2 (host ");
    check_the_rest(folder);
}

TEST(a_stopped_rank_is_named_and_hears_of_it) {
    int statuses[SIDE_MOST_RANKS];
    char *folder = kept_folder();
    side_signal(&slm, 3, folder, 1, ".", 20, SIGSTOP, statuses);
    for (int r = 0; r < 3; r++) assert_int_equal(statuses[r], 75);
    assert_contains(fixture.output, "train_slm: rank 1 (host ");
    assert_contains(fixture.output, ") has not answered for 20 s; the job ends. ");
    assert_contains(fixture.output, "train_slm [rank 1]: rank 1 (host ");
    check_the_rest(folder);
}

TEST(without_the_first_rank_the_others_end) {
    int statuses[SIDE_MOST_RANKS];
    char *folder = kept_folder();
    side_signal(&slm, 3, folder, 0, ".", 20, SIGKILL, statuses);
    assert_int_equal(statuses[1], 75);
    assert_int_equal(statuses[2], 75);
    assert_contains(fixture.output, "rank 0 (host ");
    check_the_rest(folder);
}

TEST(a_signal_to_any_rank_stops_all_after_the_same_step) {
    int statuses[SIDE_MOST_RANKS];
    for (int rank = 0; rank < 3; rank++) {
        char *folder = kept_folder();
        side_signal(&slm, 3, folder, rank, ".", 20, SIGTERM, statuses);
        for (int r = 0; r < 3; r++) assert_int_equal(statuses[r], 128 + SIGTERM);
        assert_contains(fixture.output, "[Stopped] by signal 15 after step ");
        if (rank == 1) check_the_rest(folder);
    }
}

/* Runs two ranks, of which the second has more in front of its command or behind it. */
static void check_refused(const char *front, const char *behind, const char *message) {
    char *path = keep(xstrdup(program_at("mpi/train_slm"))), *folder = kept_folder();
    int status = run_command(fixture.output, sizeof fixture.output,
                             "timeout 60 tools/run_mpi.sh 1 %s %s -o %s : -n 1 %s %s %s -o %s %s", path, slm.options,
                             folder, front, path, slm.options, folder, behind);
    assert_int_not_equal(status, 0);
    assert_contains(fixture.output, message);
    assert_null(strstr(fixture.output, "step 1:"));
}

TEST(ranks_that_differ_are_named_before_anything_trains) {
    check_refused("", "--seed 4", ") has --seed 4, but rank 0 (host ");
    check_refused("env TRAINC_CPU_SET=sse4", "", ") has the device ");
}

TEST(a_type_that_the_cpu_lacks_is_refused_where_it_is_sent) {
    assert_int_equal(side_try(&slm, 1, kept_folder(), "--max-steps 1 --reduce-type bf16"), 0);
    assert_int_not_equal(side_try(&slm, 2, kept_folder(), "--max-steps 1 --reduce-type bf16"), 0);
    assert_contains(fixture.output, "--reduce-type bf16: the cpu device has no such type");
}

TEST(ranks_with_other_data_are_named) {
    char *options = kept_format("--data prepared %s -b 2 -g 2 --threads 1 -o %s", slm_model_options, kept_folder()),
         *here = getcwd(NULL, 0);
    char *path = kept_format("%s/%s", here, program_at("mpi/train_slm")), *places[2];
    for (int i = 0; i < 2; i++) {
        char *data = keep(slm_make_data(20 + i, ""));
        places[i] = kept_folder();
        assert_int_equal(symlink(data, kept_path(places[i], "prepared")), 0);
    }
    free(here);
    int status = run_command(fixture.output, sizeof fixture.output,
                             "timeout 60 tools/run_mpi.sh 1 env -C %s %s %s : -n 1 env -C %s %s %s", places[0], path,
                             options, places[1], path, options);
    assert_int_not_equal(status, 0);
    assert_contains(fixture.output, ") has the validation data ");
}

TEST(ranks_that_cannot_share_a_step_are_told_which_can) {
    char *folder = side_train(&slm, 2, "--max-steps 3");
    assert_int_not_equal(side_try(&slm, 3, folder, "--max-steps 6 --resume auto"), 0);
    assert_contains(fixture.output, "has 4 micro-batches of -b 2, which 3 ranks cannot share; start as many ranks as "
                                    "divide it: 1 with -g 4, 2 with -g 2, 4 with -g 1");
    assert_int_equal(side_try(&slm, 4, folder, "--max-steps 6 --resume auto"), 0);
    assert_contains(fixture.output, "[Ranks] -g 1, so that a step keeps its 4 micro-batches");
}

TEST(one_process_goes_on_with_other_micro_batches_of_the_same_step) {
    char *folder = side_train(&slm, 1, "-b 2 -g 4 --max-steps 3");
    assert_int_not_equal(side_try(&slm, 1, folder, "-b 4 -g 3 --max-steps 6 --resume auto"), 0);
    assert_contains(fixture.output, "so it would be another run");
    assert_int_equal(side_try(&slm, 1, folder, "-b 4 -g 2 --max-steps 6 --resume auto"), 0);
    assert_contains(fixture.output, "a step was 2 x 4 samples and is now 4 x 2: the same samples a step, with other "
                                    "roundings and masks of dropout");
    assert_contains(fixture.output, "step 3, epoch 1, next micro-batch 6\n"); /* after 24 samples */
    folder = side_train(&slm, 1, "-b 4 -g 2 --max-steps 3");
    assert_int_equal(side_try(&slm, 2, folder, "-b 1 -g 4 --max-steps 6 --resume auto"), 0);
    assert_contains(fixture.output, "step 3, epoch 1, next micro-batch 24\n");
    folder = side_train(&slm, 1, "-b 4 -g 2 --token-budget 90 --max-steps 3");
    assert_int_not_equal(side_try(&slm, 1, folder, "-b 2 -g 4 --token-budget 90 --max-steps 6 --resume auto"), 0);
    assert_contains(fixture.output, "so it would be another run");
}

TEST(an_effective_batch_decides_g) {
    char *options =
        kept_format("--data %s %s -b 2 --threads 1 --max-steps 2 --effective-batch 8", fixture.data, slm_model_options);
    SideCase effective = {.program = "train_slm", .options = options};
    side_train(&effective, 2, "");
    assert_contains(fixture.output, "[Run] effective batch 2 x 4 = 8;");
    assert_int_not_equal(side_try(&effective, 3, kept_folder(), ""), 0);
    assert_contains(fixture.output, "a step of 4 micro-batches cannot be shared by 3 ranks");
    options = kept_format("--data %s %s -b auto --threads 1 --max-steps 2 --effective-batch 8", fixture.data,
                          slm_model_options);
    side_train(&(SideCase){.program = "train_slm", .options = options}, 2, "");
    assert_contains(fixture.output, "[Batch] -b 4 -g 2 is an effective batch of 8");
    char *folder = side_train(&(SideCase){.program = "train_slm", .options = options}, 1, "");
    assert_contains(fixture.output, "[Batch] -b 8 -g 1 is an effective batch of 8");
    assert_int_equal(
        side_try(&(SideCase){.program = "train_slm", .options = options}, 2, folder, "--max-steps 4 --resume auto"), 0);
    assert_contains(fixture.output, "[Batch] -b 4 -g 2, which the ranks can share");
}

TEST(a_full_disk_of_the_first_rank_ends_all_with_one_status) {
    char *folder = kept_folder();
    int status =
        run_command(fixture.output, sizeof fixture.output,
                    "timeout 60 tools/run_mpi.sh 2 sh -c 'ulimit -f 200; exec \"$@\"' sh %s %s -o %s --max-steps 9",
                    program_at("mpi/train_slm"), slm.options, folder);
    assert_int_equal(status, 1);
    assert_contains(fixture.output, "no checkpoint was written");
    assert_int_equal(side_try(&slm, 2, folder, "--max-steps 9 --resume auto"), 0);
}

TEST(launchers_that_cannot_be_followed_are_named) {
    const char *job = "WORLD_SIZE=2 RANK=1 LOCAL_RANK=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=29411";
    char *with = keep(xstrdup(program_at("mpi/train_slm")));
    assert_int_equal(
        run_command(fixture.output, sizeof fixture.output, "%s %s generate --checkpoint x --prompt y", job, with), 2);
    assert_contains(fixture.output, "torchrun has started 2 processes, and this command is one: start it without");
    assert_int_equal(run_command(fixture.output, sizeof fixture.output, "%s %s %s -o %s", job, program_at("train_slm"),
                                 slm.options, kept_folder()),
                     1);
    assert_contains(fixture.output, "torchrun has started rank 1 of 2, and this program was built without MPI");
    assert_int_equal(run_command(fixture.output, sizeof fixture.output, "WORLD_SIZE=2 %s %s -o %s", with, slm.options,
                                 kept_folder()),
                     1);
    assert_contains(fixture.output, "RANK");
}

int main(void) { return tests_run(open_case, NULL); }
