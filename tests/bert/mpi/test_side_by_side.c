/* Fine-tunes an encoder in several folds or with several seeds side by side, on several ranks. */
#include "tests/bert/train_rig.h"
#include "tests/side_by_side_rig.h"

static SideCase bert = {.program = "train_bert"};

static int open_case(void **state) {
    int status = bert_fixture_open(state);
    bert.options = kept_format("%s --threads 1 --epochs 4 --log-interval 5", fixture.options);
    return status;
}

/* Trains in a row and on 2 ranks. */
static void check_side_by_side(const char *more) {
    char *row = side_train(&bert, 1, more), *side = side_train(&bert, 2, more);
    side_check_same(row, side, "");
}

TEST(seeds_side_by_side_have_the_bytes_of_seeds_in_a_row) {
    check_side_by_side(kept_format("--data %s --seeds 3", fixture.data));
    side_train(&bert, 2, kept_format("--data %s --seeds 3", fixture.data));
    assert_contains(fixture.output, "\n[rank 1] [Run] seed_43\n");
}

/* A -g that ranks could share makes no difference. */
TEST(folds_side_by_side_have_the_bytes_of_folds_in_a_row) {
    check_side_by_side(kept_format("--data %s/train.csv --folds 3 --seeds 2 -g 2", fixture.data));
}

TEST(a_signal_to_one_rank_stops_the_run_and_other_ranks_go_on) {
    int statuses[SIDE_MOST_RANKS];
    SideCase seeds = bert;
    char *folder = kept_folder();
    seeds.options = kept_format("%s --data %s --seeds 3 --epochs 40 --patience 0", bert.options, fixture.data);
    char *row = side_train(&seeds, 1, "");
    side_signal(&seeds, 3, folder, 2, "seed_44", 10, SIGTERM, statuses);
    for (int r = 0; r < 3; r++) assert_int_equal(statuses[r], 128 + SIGTERM);
    assert_contains(fixture.output, "\n[Run] stopped by signal 15; continue with the same command and --resume auto");
    assert_int_equal(side_try(&seeds, 2, folder, "--resume auto"), 0);
    side_check_same(row, folder, "");
}

int main(void) { return tests_run(open_case, NULL); }
