/* Trains encoders of text on several ranks with emulated cards. */
#include "tests/bert/train_rig.h"
#include "tests/ranks_rig.h"

static RanksCase bert = {.cards = true,
                         .program = "train_bert",
                         .loss = "train/loss",
                         .run = "",
                         .validates = "--val-interval 2 --max-val-batches 5"};
static RanksCase masked = {.cards = true, .program = "train_bert pretrain", .loss = "train/loss", .run = ""};

static int open_case(void **state) {
    int status = bert_fixture_open(state);
    const char *options = kept_format("--data %s %s -b 2 --threads 1 --device cuda --no-tf32 --epochs 1000 "
                                      "--val-interval 4",
                                      fixture.data, fixture.options);
    bert.options = kept_format("%s --patience 0", options);
    masked.options = kept_format("%s", options);
    return status;
}

TEST(masked_words_are_shared) {
    ranks_check(&masked, "");
    assert_same_result(ranks_train(&masked, 3, "--zero 0"), ranks_train(&masked, 3, "--zero 1"));
}

TEST(unused_tokens_stay_as_they_are) {
    ranks_check(&bert, "--compact-vocabulary --zero 1");
    assert_same_result(ranks_train(&bert, 3, "--compact-vocabulary"),
                       ranks_trained(&bert, 3, "--compact-vocabulary --zero 1"));
}

int main(void) {
    const struct CMUnitTest shared[] = {RANKS_TESTS(&bert), CARDS_TESTS(&bert)};
    tests_add(shared, sizeof shared / sizeof *shared);
    return tests_run(open_case, NULL);
}
