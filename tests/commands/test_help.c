/* --help of every command of every program. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/train_rig.h"

/* Calls check(program, command) for each command that --help of each program lists; "": the one without a name. */
static void for_each_command(void (*check)(const char *program, const char *command)) {
    int n, commands = 0;
    const char *const *names = program_names(&n);
    for (int i = 0; i < n; i++) {
        char *start = kept_format("\n  %s ", names[i]);
        must_run("COLUMNS=1000 %s --help", program_at(names[i]));
        char *list = keep(xstrdup(fixture.output));
        for (char *at = list; (at = strstr(at, start)); commands++) {
            at += strlen(start);
            char *command = xformat("%.*s", (int)strcspn(at, " "), at);
            check(names[i], command);
            free(command);
        }
    }
    assert_true(commands > 4 * n);
}

/* Returns the columns of a line. */
static int columns_of(const char *line) {
    int columns = 0;
    for (; *line && *line != '\n'; line++) columns += (*line & 0xC0) != 0x80;
    return columns;
}

/* Fails unless every line of fixture.output fits. */
static void must_fit(const char *program, const char *command, int width) {
    for (const char *line = fixture.output; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (columns_of(line) > width)
            fail_msg("%s %s --help: %d columns, of %d: %.*s", program, command, columns_of(line), width,
                     (int)strcspn(line, "\n"), line);
}

static void check_width(const char *program, const char *command) {
    static const int widths[] = {80, 120};
    for (int i = 0; i < 2; i++) {
        must_run("COLUMNS=%d %s %s --help", widths[i], program_at(program), command);
        must_fit(program, command, widths[i]);
        must_run("COLUMNS=%d %s %s -h", widths[i], program_at(program), command);
        must_fit(program, command, widths[i]);
    }
    must_run("env -u COLUMNS %s %s --help | cat", program_at(program), command); /* no terminal */
    must_fit(program, command, 80);
}

TEST(help_fits_80_and_120_columns) { for_each_command(check_width); }

static void check_example(const char *program, const char *command) {
    char *call = kept_format("%s%s%s ", program_at(program), *command ? " " : "", command),
         *usage = kept_format("\nusage:   %s", call), *example = kept_format("\nexample: %s", call);
    must_run("COLUMNS=120 %s %s --help", program_at(program), command);
    assert_contains(fixture.output, usage); /* as it was called */
    assert_contains(fixture.output, example);
}

TEST(help_has_the_usage_and_an_example) { for_each_command(check_example); }

/* A heading that is in one command only may be a slip of the pen. */
static void check_headings(const char *program, const char *command) {
    static const char *const headings[] = {"Options",      "Data",
                                           "Model",        "Training",
                                           "Batches",      "Validation and log",
                                           "Files",        "Device",
                                           "Estimates",    "Generation",
                                           "Speech",       "Voice",
                                           "Tokenizer",    "Tokenizer and codebook",
                                           "Clips to use", "Manifests",
                                           "Splits",       "Checks"};
    must_run("COLUMNS=120 %s help %s", program_at(program), *command ? command : "report");
    char *before = strstr(fixture.output, "example:");
    int found = 0;
    for (char *at = before; (at = strstr(at, "\n\n")) && strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZ", at[2]);) {
        size_t n = strcspn(at += 2, "\n");
        if (strncmp(at + n, "\n  ", 3)) break; /* the text behind the options */
        bool known = false;
        for (size_t i = 0; i < sizeof headings / sizeof *headings; i++)
            known |= strlen(headings[i]) == n && !strncmp(headings[i], at, n);
        if (!known) fail_msg("%s %s: unknown heading %.*s", program, command, (int)n, at);
        found++;
    }
    assert_true(found > 0);
}

TEST(options_stand_under_known_headings) { for_each_command(check_headings); }

/* Ends help, lists and estimates as `head` does: they end in silence, as SIGPIPE ends other programs. */
TEST(a_reader_that_ends_gets_no_message) {
    int n;
    const char *const *names = program_names(&n);
    static const char *const words[] = {"--help", "help", "-V", "--licenses", "help report", "report --help"};
    for (int i = 0; i < n; i++)
        for (size_t k = 0; k < sizeof words / sizeof *words; k++) {
            int status =
                run_command(fixture.output, sizeof fixture.output,
                            "bash -c 'exec 3> >(exit); wait $!; %s %s >&3; exit $?'", program_at(names[i]), words[k]);
            assert_int_equal(status, 128 + 13);
            assert_string_equal(fixture.output, "");
        }
}
