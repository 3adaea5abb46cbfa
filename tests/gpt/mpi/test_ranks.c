/* Trains the TTS GPT on several ranks. */
#include "tests/gpt/train_rig.h"
#include "tests/ranks_rig.h"

static RanksCase gpt = {
    .program = "train_gpt", .loss = "train/mel_loss", .run = "", .validates = "--val-interval 1 --max-val-batches 5"};

static int open_case(void **state) {
    int status = gpt_fixture_open(state);
    gpt.options =
        kept_format("-m %s %s -b 2 --threads 1 --val-interval 8 --val-ratio 0.2", fixture.manifest, gpt_model_options);
    return status;
}

TEST(losses_of_a_whole_step_have_one_divisor) { ranks_check(&gpt, "--loss-norm batch --grad-checkpointing"); }

/* Rows are frozen when the moments are dealt out already. */
TEST(frozen_rows_stay_as_they_are) {
    ranks_check(&gpt, "--frozen-text-rows 20 --zero 1");
    assert_same_result(ranks_train(&gpt, 3, "--frozen-text-rows 20"),
                       ranks_train(&gpt, 3, "--frozen-text-rows 20 --zero 1"));
}

TEST(budgets_of_tokens_are_shared) { ranks_check(&gpt, "-b 0 --token-budget 150"); }

int main(void) {
    const struct CMUnitTest shared[] = {RANKS_TESTS(&gpt)};
    tests_add(shared, sizeof shared / sizeof *shared);
    return tests_run(open_case, NULL);
}
