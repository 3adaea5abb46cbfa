/* The commands that train_cv prints to do next work for any name of the folder. */
#include "tests/next_rig.h"

/* With a -b that the few cells of a fold can fill. */
TEST(the_next_commands_read_any_folder) {
    for (int i = 0; i < NEXT_NAMES; i++) {
        char *name = kept_format("%s flim", next_names[i]);
        char *quoted = shell_word(name),
             *make = kept_format("./train_cv synthesize --output=%s --cells 24 --donors 3 --bins 32 --side 7", quoted);
        next_must_run(name, make);
        char *doctor = next_command("./train_cv doctor");
        next_must_run(name, doctor);
        char *train = next_command("./train_cv");
        char *command = kept_format("%s --dry-run --channels 8,8,8 --shift 2", train);
        next_must_run(name, command);
        free(quoted);
    }
}

TEST(the_next_command_has_the_classes) {
    next_must_run("classes", "./train_cv synthesize --output=classes --cells 24 --donors 3 --bins 32 --side 7 && "
                             "(echo file,class; cd classes; ls -d */*_in_* | sed 's/$/,0/'; ls -d */*_act_* | sed "
                             "'s/$/,1/') >'a table.csv'");
    static const char *const options[] = {"--class-words in/rest,act", "--class-table 'a table.csv'",
                                          "--class-words in/rest,act --class-table 'a table.csv'"};
    for (int i = 0; i < 3; i++) {
        char *make = kept_format("./train_cv doctor --data classes %s", options[i]);
        next_must_run("classes", make);
        char *train = next_command("./train_cv"),
             *want = kept_format("./train_cv --data classes %s -o run -b 4", options[i]);
        assert_string_equal(train, want);
    }
}

/* Two donors make no fold. */
TEST(no_next_command_is_named_where_none_works) {
    next_must_run("two", "./train_cv synthesize --output two --cells 24 --donors 2 --bins 32 --side 7 >made && "
                         "./train_cv doctor --data two");
    assert_contains(fixture.output, "[Data] no cross-validation: there are 2 donors; at least 3 are needed");
    assert_null(strstr(fixture.output, "Next: "));
}

/* From the cells to predictions by nothing but the printed commands, with options that make them quick. */
TEST(the_training_names_the_command_that_predicts) {
    next_must_run("cells", "./train_cv synthesize --output cells --cells 24 --donors 3 --bins 32 --side 7");
    next_must_run("train",
                  "./train_cv --data cells -o \"it's run\" --epochs 1 -b 4 --channels 8,8,8 --shift 2 --filter off");
    char *predict = next_command("./train_cv predict"), *command = next_with(predict, "NEW_CELLS", "cells");
    next_must_run("predict", command);
    assert_contains(fixture.output, " rows written to predictions.csv");
}

int main(void) { return tests_run(next_open, NULL); }
