/* Short runs of train_cv leave the same weights whatever the number of threads. */
#include "tests/threads_rig.h"

static const char *root;

static void threads_change_no_bit_of_train_cv(void **state) {
    (void)state;
    must_run("%s synthesize --output %s/cells --cells 96 --donors 3 --bins 64 --side 9", program_at("train_cv"), root);
    char *what = xformat("%s --data %s/cells --folds D1 --channels 16,32,64 -b 8 --max-steps 3 --epochs 1 "
                         "--extensions 0 --save-interval 2 --keep-checkpoints 9",
                         program_at("train_cv"), root);
    threads_expect_same_weights(root, what, "fold_D1/last/model.safetensors");
    threads_expect_same_resumed(root, what, "fold_D1");
    free(what);
}

int main(void) {
    root = run_directory();
    const struct CMUnitTest tests[] = {cmocka_unit_test(threads_change_no_bit_of_train_cv)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
