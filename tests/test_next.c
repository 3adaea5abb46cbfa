/* What a program says to do next is a command that does it, whatever the name of the folder. */
#include <unistd.h>

#include "tests/helpers.h"

static char output[1 << 14];
static const char *root; /* the working folder, with the programs in it, as in a checkout */

/* Names that a shell would take apart. */
static const char *const names[] = {"of two words", "it's \"here\"", "$HOME `ls` ;#&", "-o", "a\\b*"};
enum { NAMES = sizeof names / sizeof *names };

static void must(const char *what, const char *command) {
    int status = run_command(output, sizeof output, "cd %s && %s", root, command);
    if (status) fail_msg("%s: %s\nexit status %d:\n%s", what, command, status, output);
}

/* The command of `program` in the line of what comes next. free() */
static char *next(const char *program) {
    char *line = strstr(output, "Next: "), *from;
    if (!line) fail_msg("no next command: %s", output);
    line[strcspn(line, "\n")] = 0;
    if (!(from = strstr(line, program))) fail_msg("no %s: %s", program, line);
    char *end = strstr(from, ", or ./");
    return end ? xformat("%.*s", (int)(end - from), from) : xstrdup(from);
}

static int open_root(void **state) {
    (void)state;
    const char *build = getenv("BUILD");
    char *programs = realpath(build ? build : "build/release", NULL);
    root = run_directory();

    int status = run_command(output, sizeof output, "ln -s %s/prepare_psd %s/prepare_flim %s/train_cv %s", programs,
                             programs, programs, root);
    free(programs);
    return status;
}

static char *synthetic(const char *program, const char *options, const char *name) {
    char *quoted = shell_word(name), *command = xformat("./%s --synthetic=%s %s", program, quoted, options);
    free(quoted);
    return command;
}

static void the_next_command_of_prepare_psd_reads_any_folder(void **state) {
    (void)state;
    for (int i = 0; i < NAMES; i++) {
        char *make = synthetic("prepare_psd", "--sensors 1 --rows 3", names[i]);
        must(names[i], make);
        char *command = next("./prepare_psd");
        must(names[i], command);
        assert_contains(output, "data/manifest.csv");
        must(names[i], "rm -r data");
        free(command);
        free(make);
    }
}

static void the_next_commands_of_prepare_flim_read_any_folder(void **state) {
    (void)state;
    for (int i = 0; i < NAMES; i++) {
        char *name = xformat("%s flim", names[i]);
        char *make = synthetic("prepare_flim", "--cells 24 --donors 3 --bins 32 --side 7", name);
        must(name, make);
        char *train = next("./train_cv"), *prepare = next("./prepare_flim");
        must(name, prepare);
        char *command = xformat("%s --dry-run -b 4 --channels 8,8,8 --shift 2", train);
        must(name, command);
        char *owned[] = {name, make, train, prepare, command};
        for (int k = 0; k < 5; k++) free(owned[k]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_next_command_of_prepare_psd_reads_any_folder),
                                       cmocka_unit_test(the_next_commands_of_prepare_flim_read_any_folder)};
    return cmocka_run_group_tests(tests, open_root, NULL);
}
