/* Trains the TTS GPT on several ranks with emulated cards. */
#include "tests/gpt/train_rig.h"
#include "tests/ranks_rig.h"

static RanksCase gpt = {.cards = true,
                        .program = "train_gpt",
                        .loss = "train/mel_loss",
                        .run = "",
                        .validates = "--val-interval 2 --max-val-batches 5"};

static int open_case(void **state) {
    int status = gpt_fixture_open(state);
    gpt.options =
        kept_format("-m %s %s --layers 1 -b 1 --threads 1 --device cuda --no-tf32 --val-interval 4 --val-ratio 0.2",
                    fixture.manifest, gpt_model_options);
    return status;
}

/* Rows are frozen when the moments are dealt out already. */
TEST(frozen_rows_stay_as_they_are) {
    ranks_check(&gpt, "--frozen-text-rows 20 --zero 1 --loss-norm batch --grad-checkpointing");
    assert_same_result(ranks_train(&gpt, 2, "--frozen-text-rows 20"),
                       ranks_train(&gpt, 2, "--frozen-text-rows 20 --zero 1"));
}

int main(void) {
    const struct CMUnitTest shared[] = {RANKS_TESTS(&gpt), CARDS_TESTS(&gpt)};
    tests_add(shared, sizeof shared / sizeof *shared);
    return tests_run(open_case, NULL);
}
