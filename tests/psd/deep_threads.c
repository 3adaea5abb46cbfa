/* Short runs of train_psd write the same weights with any number of threads. */
#include "tests/threads_rig.h"

static const char *root;

TEST(threads_change_no_bit_of_train_psd) {
    char *program = keep(xstrdup(program_at("train_psd")));
    must_run("%s synthesize -o %s/raw --sensors 4 --rows 4 && %s prepare --input %s/raw --output %s/psd", program, root,
             program, root, root);
    const char *const commands[] = {"pretrain", "finetune"};
    for (int i = 0; i < 2; i++) {
        char *command =
            xformat("%s %s -m %s/psd/manifest.csv --split %s/psd/splits/by_file_seed42_frac1.0.json --size l4 "
                    "--n-layers 2 -b 4 --epochs 1 --max-steps 3 --save-interval 2 --keep-checkpoints 9",
                    program, commands[i], root, root);
        threads_expect_same_weights(root, command, "last/model.safetensors");
        threads_expect_same_resumed(root, command, ".");
        free(command);
    }
}

int main(void) {
    root = run_directory();
    return tests_run(NULL, NULL);
}
