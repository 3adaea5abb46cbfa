/* Trains classifiers of spectra on several ranks with emulated cards. */
#include "tests/psd/train_rig.h"
#include "tests/ranks_rig.h"

static RanksCase finetune = {
    .cards = true, .program = "train_psd finetune", .loss = "train/loss", .run = "", .validates = "--val-interval 2"};
static RanksCase pretrain = {
    .cards = true, .program = "train_psd pretrain", .loss = "train/mae_loss", .whole_step = true, .run = ""};
static RanksCase cnn = {
    .cards = true, .program = "train_psd finetune", .loss = "train/loss", .whole_step = true, .run = ""};

static int open_case(void **state) {
    int status = psd_make_toy(state);
    const char *options = kept_format("%s --size tiny --threads 1 --device cuda --no-tf32 --epochs 1000",
                                      strchr(psd_toy_options(""), '-'));
    finetune.options = kept_format("%s -b 2", options);
    pretrain.options = kept_format("%s -b 2", options);
    cnn.options = kept_format("%s -b 2 --encoder cnn", options);
    return status;
}

TEST(pretraining_is_shared_if_g_says_so) {
    ranks_check(&pretrain, "");
    assert_same_result(ranks_train(&pretrain, 3, "--zero 0"), ranks_train(&pretrain, 3, "--zero 1"));
}

TEST(running_statistics_move_in_the_order_of_the_stream) {
    ranks_check(&cnn, "--zero 1");
    assert_same_result(ranks_train(&cnn, 3, "--zero 0"), ranks_trained(&cnn, 3, "--zero 1"));
}

int main(void) {
    const struct CMUnitTest shared[] = {RANKS_TESTS(&finetune), CARDS_TESTS(&finetune)};
    tests_add(shared, sizeof shared / sizeof *shared);
    return tests_run(open_case, NULL);
}
