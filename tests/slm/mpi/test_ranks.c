/* Trains the text GPT on several ranks. */
#include "tests/ranks_rig.h"
#include "tests/slm/train_rig.h"

static RanksCase slm = {
    .program = "train_slm", .loss = "train/loss", .run = "", .validates = "--val-interval 1 --max-val-batches 5"};

static int open_case(void **state) {
    int status = slm_fixture_open(state);
    slm.options = kept_format("--data %s %s -b 2 --threads 1 --val-interval 8", fixture.data, slm_model_options);
    return status;
}

TEST(budgets_of_tokens_are_shared) { ranks_check(&slm, "-b 0 --token-budget 70 --documents separate"); }

TEST(losses_of_a_whole_step_have_one_divisor) { ranks_check(&slm, "--loss-norm batch --documents separate"); }

TEST(muon_s_matrices_have_one_owner_each) {
    ranks_check(&slm, "--optimizer muon --zero 1");
    assert_same_result(ranks_train(&slm, 3, "--optimizer muon"), ranks_train(&slm, 3, "--optimizer muon --zero 1"));
}

/* The data have a number of micro-batches that is no multiple of a step's, so steps span two epochs. */
TEST(epochs_end_amid_steps) { ranks_check(&slm, "-b 5 --val-interval 0"); }

int main(void) {
    const struct CMUnitTest shared[] = {RANKS_TESTS(&slm)};
    tests_add(shared, sizeof shared / sizeof *shared);
    return tests_run(open_case, NULL);
}
