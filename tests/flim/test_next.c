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

int main(void) {
    next_open();
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_next_commands_read_any_folder)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
