/* Trains the text GPT on several ranks with emulated cards. */
#include "tests/ranks_rig.h"
#include "tests/slm/train_rig.h"

static RanksCase slm = {.cards = true,
                        .program = "train_slm",
                        .loss = "train/loss",
                        .run = "",
                        .validates = "--val-interval 2 --max-val-batches 5"};

static int open_case(void **state) {
    int status = slm_fixture_open(state);
    slm.options = kept_format("--data %s %s -b 2 --threads 1 --device cuda --no-tf32 --val-interval 4 "
                              "--max-val-batches 3 --sample-tokens 0",
                              fixture.data, slm_model_options);
    return status;
}

TEST(muon_s_matrices_have_one_owner_each) {
    ranks_check(&slm, "--optimizer muon --zero 1");
    assert_same_result(ranks_train(&slm, 3, "--optimizer muon"), ranks_trained(&slm, 3, "--optimizer muon --zero 1"));
    assert_same_result(ranks_train(&slm, 2, "--optimizer muon --amp"),
                       ranks_train(&slm, 2, "--optimizer muon --amp --zero 1"));
}

int main(void) {
    const struct CMUnitTest shared[] = {RANKS_TESTS(&slm), CARDS_TESTS(&slm)};
    tests_add(shared, sizeof shared / sizeof *shared);
    return tests_run(open_case, NULL);
}
