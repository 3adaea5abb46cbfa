/* Trains the text GPT on several ranks whose devices have memory of their own and repeat recorded passes: emulated
 * cards, between which numbers go through the host. */
#include "tests/ranks_rig.h"
#include "tests/slm/train_rig.h"

static RanksCase slm = {.build = "emulated_mpi", .program = "train_slm", .loss = "train/loss", .run = ""};

static int open_case(void **state) {
    int status = slm_fixture_open(state);
    slm.options = kept_format("--data %s %s -b 2 --threads 1 --device cuda --val-interval 2 --max-val-batches 3 "
                              "--sample-tokens 0",
                              fixture.data, slm_model_options);
    return status;
}

static char *train(int ranks, const char *more) {
    return ranks_train(&slm, ranks, kept_format("--max-steps 4 %s", more));
}

TEST(ranks_with_cards_train_as_one) {
    char *one = train(1, "--no-tf32"), *two = train(2, "--no-tf32"), *divided = train(2, "--no-tf32 --zero 1");
    ranks_compare(&slm, two, one);
    assert_same_result(two, divided);
}

TEST(sixteen_bit_copies_are_those_of_the_gathered_weights) {
    char *one = train(1, "--amp"), *two = train(2, "--amp"), *divided = train(2, "--amp --zero 1");
    ranks_compare(&slm, two, one);
    assert_same_result(two, divided);
}

/* Each of 12 gradients is rounded to 8 bits once before it is sent. */
TEST(gradients_are_sent_in_bf16_if_asked_for) {
    char *one = train(1, "--amp"), *two = train(2, "--amp --reduce-type bf16");
    double a = logged_last(one, "train", "train/loss"), b = logged_last(two, "train", "train/loss");
    assert_true(a != b);
    assert_near(a, b, 1e-3 * a);
    assert_int_equal(ranks_try(&slm, 1, kept_folder(), "--device cpu --max-steps 1 --reduce-type bf16"), 0);
    assert_int_not_equal(ranks_try(&slm, 2, kept_folder(), "--device cpu --max-steps 1 --reduce-type bf16"), 0);
    assert_contains(fixture.output, "--reduce-type bf16: the cpu device has no such type");
}

int main(void) { return tests_run(open_case, NULL); }
