/* Short runs of train_cv leave the same weights whatever the number of threads. */
#include "tests/threads_rig.h"

static const char *root;

TEST(threads_change_no_bit_of_train_cv) {
    must_run("%s synthesize --output %s/cells --cells 96 --donors 3 --bins 64 --side 9", program_at("train_cv"), root);
    char *what = kept_format("%s --data %s/cells --folds D1 --channels 16,32,64 -b 8 --max-steps 3 --epochs 1 "
                             "--extensions 0 --save-interval 2 --keep-checkpoints 9",
                             program_at("train_cv"), root);
    threads_expect_same_weights(root, what, "fold_D1/last/model.safetensors");
    threads_expect_same_resumed(root, what, "fold_D1");
}

int main(void) {
    root = run_directory();
    return tests_run(NULL, NULL);
}
