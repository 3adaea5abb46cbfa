/* Short runs of train_slm leave the same weights whatever the number of threads. */
#include "tests/slm/train_rig.h"
#include "tests/threads_rig.h"

TEST(threads_change_no_bit_of_train_slm) {
    static const char *const ways[] = {"packed", "separate"};
    for (int i = 0; i < 2; i++) {
        const char *root = kept_folder();
        char *what = kept_format("%s --data %s --d-model 256 --layers 2 --heads 4 --context 64 -b 2 --max-steps 4 "
                                 "--save-interval 2 --keep-checkpoints 9 --learning-rate 1e-3 --warmup-steps 0 "
                                 "--documents %s",
                                 fixture.program, fixture.data, ways[i]);
        threads_expect_same_weights(root, what, "last/model.safetensors");
        threads_expect_same_resumed(root, what, ".");
    }
}

int main(void) { return tests_run(slm_fixture_open, NULL); }
