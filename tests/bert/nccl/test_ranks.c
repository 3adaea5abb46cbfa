/* Trains encoders of text on several ranks with emulated cards. */
#include "tests/bert/train_rig.h"
#include "tests/ranks_rig.h"

static RanksCase bert = {.cards = true,
                         .program = "train_bert",
                         .loss = "train/loss",
                         .run = "",
                         .validates = "--val-interval 2 --max-val-batches 5"};

static int open_case(void **state) {
    int status = bert_fixture_open(state);
    bert.options = kept_format("--data %s %s -b 2 --threads 1 --device cuda --no-tf32 --epochs 1000 --val-interval 4 "
                               "--patience 0",
                               fixture.data, fixture.options);
    return status;
}

int main(void) {
    const struct CMUnitTest shared[] = {RANKS_TESTS(&bert)};
    tests_add(shared, sizeof shared / sizeof *shared);
    return tests_run(open_case, NULL);
}
