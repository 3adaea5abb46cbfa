/* Trains the folds of a cross-validation side by side, on several ranks. */
#include "tests/cv/train_rig.h"
#include "tests/side_by_side_rig.h"

static SideCase cv_folds = {.program = "train_cv"};
static const char *const with_times = "--exclude='*_results*.json' --exclude=test_evaluations.jsonl";

static int open_case(void **state) {
    (void)state;
    int64_t written;
    heed_signals();
    char *cells = cv_make_cells(60, &written);
    cv_folds.options = kept_format("--data %s --channels 8,8,8 -b 8 --threads 1 --epochs 30 --learning-rate 1e-3 "
                                   "--shift 2 --early-stopping-patience 0 --log-interval 1 --save-interval 10",
                                   cells);
    return 0;
}

/* Returns the folder of a run in a row. */
static const char *in_a_row(void) {
    static const char *run;
    if (!run) run = side_train(&cv_folds, 1, "");
    return run;
}

static void check_as_in_a_row(const char *folder) { side_check_same(in_a_row(), folder, with_times); }

TEST(folds_side_by_side_have_the_bytes_of_folds_in_a_row) {
    const char *row = in_a_row(), *two = side_train(&cv_folds, 2, "");
    assert_contains(fixture.output, "[Ranks] 3 trainings side by side");
    assert_contains(fixture.output, "\n[rank 1] [Fold D2] train ");
    assert_contains(fixture.output, "\n[Fold D1] train ");
    assert_null(strstr(fixture.output, "[rank 1] [Report]"));
    assert_null(strstr(fixture.output, "step 1/")); /* a line of progress */
    const char *four = side_train(&cv_folds, 4, "");
    assert_contains(fixture.output, "[Ranks] 1 of 4 ranks have nothing to train");
    side_check_same(row, two, with_times);
    side_check_same(row, four, with_times);
}

TEST(a_rank_that_is_killed_leaves_the_others_their_trainings) {
    int statuses[SIDE_MOST_RANKS];
    char *folder = kept_folder();
    side_signal(&cv_folds, 3, folder, 1, "fold_D2", 20, SIGKILL, statuses);
    assert_int_equal(statuses[1], 128 + SIGKILL);
    for (int r = 0; r < 3; r += 2)
        if (statuses[r] != 75) fail_msg("rank %d has ended with %d:\n%s", r, statuses[r], fixture.output);
    assert_contains(fixture.output, "has ended without a word; the job ends. What its and other trainings have written "
                                    "is kept; continue with the same command and --resume auto");
    for (int fold = 1; fold <= 3; fold += 2)
        must_run("cmp %s/fold_D%d/last/model.safetensors %s/fold_D%d/last/model.safetensors", in_a_row(), fold, folder,
                 fold);
    assert_null(strstr(fixture.output, "[Report]"));
    assert_int_equal(side_try(&cv_folds, 2, folder, "--resume auto"), 0);
    check_as_in_a_row(folder);
}

TEST(a_signal_to_one_rank_stops_the_run_when_the_others_have_trained) {
    int statuses[SIDE_MOST_RANKS];
    char *folder = kept_folder();
    side_signal(&cv_folds, 2, folder, 1, "fold_D2", 20, SIGTERM, statuses);
    for (int r = 0; r < 2; r++)
        if (statuses[r] != 128 + SIGTERM) fail_msg("rank %d has ended with %d:\n%s", r, statuses[r], fixture.output);
    assert_contains(fixture.output, "[rank 1] [Stopped] by signal 15 after step ");
    assert_contains(fixture.output, "\n[Run] stopped by signal 15; continue with the same command and --resume auto");
    assert_null(strstr(fixture.output, "[Report]"));
    assert_int_equal(side_try(&cv_folds, 3, folder, "--resume auto"), 0);
    check_as_in_a_row(folder);
}

/* Nothing larger than 51,200 bytes can be written by rank 1: no moments. */
TEST(a_training_that_fails_leaves_the_others_theirs) {
    SideCase limited = cv_folds;
    char *folder = kept_folder(), *program = kept_format("%s", program_at("mpi/train_cv"));
    assert_int_not_equal(
        run_command(fixture.output, sizeof fixture.output,
                    "timeout 120 tools/run_mpi.sh 2 sh -c '[ ${OMPI_COMM_WORLD_RANK-$PMI_RANK} = 0 ] || ulimit -f 100; "
                    "exec \"$@\"' sh %s %s -o %s",
                    program, limited.options, folder),
        0);
    assert_contains(fixture.output, "train_cv: warning: a training has failed");
    must_run("cmp %s/fold_D3/last/model.safetensors %s/fold_D3/last/model.safetensors", in_a_row(), folder);
    assert_int_equal(side_try(&cv_folds, 2, folder, "--resume auto"), 0);
    must_run("cmp %s/fold_D2/last/model.safetensors %s/fold_D2/last/model.safetensors", in_a_row(), folder);
}

TEST(a_single_fold_is_shared_only_if_g_says_so) {
    char *folder = kept_folder();
    assert_int_not_equal(side_try(&cv_folds, 2, folder, "--folds D1"), 0);
    assert_contains(fixture.output, "train_cv: 2 ranks cannot share the steps of -g 1 (batch norms see each "
                                    "micro-batch separately): give -g 2 or another multiple of 2");
    assert_int_not_equal(side_try(&cv_folds, 2, folder, "--folds D1 -g 3"), 0);
    assert_contains(fixture.output, "cannot share the steps of -g 3");
    side_train(&cv_folds, 2, "--folds D1 -g 2");
    assert_contains(fixture.output,
                    "[Ranks] 2 ranks share each step of 2 micro-batches; batch norms see each micro-batch separately");
    assert_contains(fixture.output, "effective batch 8 x 2 = 16");
}

TEST(folds_that_ranks_share_are_tested_once) {
    char *folder = side_train(&cv_folds, 2, "-g 2 --epochs 3"), *tests = kept_path(folder, "test_evaluations.jsonl");
    int lines = 0;
    assert_null(strstr(fixture.output, "side by side"));
    for (const char *at = kept_text(tests); (at = strchr(at, '\n')); at++) lines++;
    assert_int_equal(lines, 3);
    must_run("test -s %s/cross_validation_results.csv", folder);
}

int main(void) { return tests_run(open_case, NULL); }
