/* The commands that train_psd prints as the next step run as printed, whatever the name of the folder. */
#include "tests/next_rig.h"

static void the_next_command_of_synthesize_reads_any_folder(void **state) {
    (void)state;
    for (int i = 0; i < NEXT_NAMES; i++) {
        char *make = next_synthesize("train_psd", "--sensors 1 --rows 3", next_names[i]);
        next_must_run(next_names[i], make);
        char *command = next_command("./train_psd");
        next_must_run(next_names[i], command);
        assert_contains(fixture.output, "data/manifest.csv");
        next_must_run(next_names[i], "rm -r data");
        free(command);
        free(make);
    }
}

int main(void) {
    next_open();
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_next_command_of_synthesize_reads_any_folder)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
