/* The commands that train_cv prints to do next work for any name of the folder. */
#include "tests/next_rig.h"

static void the_next_commands_read_any_folder(void **state) {
    (void)state;
    for (int i = 0; i < NEXT_NAMES; i++) {
        char *name = xformat("%s flim", next_names[i]);
        char *quoted = shell_word(name),
             *make = xformat("./train_cv synthesize --output=%s --cells 24 --donors 3 --bins 32 --side 7", quoted);
        next_must_run(name, make);
        char *doctor = next_command("./train_cv doctor");
        next_must_run(name, doctor);
        char *train = next_command("./train_cv");
        char *command = xformat("%s --dry-run -b 4 --channels 8,8,8 --shift 2", train);
        next_must_run(name, command);
        char *owned[] = {name, quoted, make, doctor, train, command};
        for (int k = 0; k < 6; k++) free(owned[k]);
    }
}

/* From the cells to predictions by nothing but the printed commands, with options that make them quick. */
static void the_training_names_the_command_that_predicts(void **state) {
    (void)state;
    next_must_run("cells", "./train_cv synthesize --output cells --cells 24 --donors 3 --bins 32 --side 7");
    next_must_run("train",
                  "./train_cv --data cells -o \"it's run\" --epochs 1 -b 4 --channels 8,8,8 --shift 2 --filter off");
    char *predict = next_command("./train_cv predict"), *command = next_with(predict, "new_cells", "cells");
    next_must_run("predict", command);
    assert_contains(fixture.output, " rows written to predictions.csv");
    free(command);
    free(predict);
}

int main(void) {
    next_open();
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_next_commands_read_any_folder),
                                       cmocka_unit_test(the_training_names_the_command_that_predicts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
