/* program_run: chooses the command, and reports words that are not a command. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/version.h"
#include "commands/commands.h"
#include "tests/test.h"

static int tell(int argc, char **argv) {
    printf("ran");
    for (int i = 0; i < argc; i++) printf(" '%s'", argv[i]);
    printf("\n");
    if (argc > 1 && !strcmp(argv[1], "--wrong")) die_usage("unknown option --wrong");
    return 7;
}

static const Command with_training[] = {
    {NULL, "trains", tell}, {"prepare", "makes data", tell}, {"decode", "speaks", tell}};
static const Command named_only[] = {
    {"pretrain", "learns", tell}, {"finetune", "learns more", tell}, {"run", "both", tell}};
static const Program trainer = {"train_toy", "Trains a toy.", with_training, 3, ""};
static const Program stages = {"train_stages", "Trains in stages.", named_only, 3, " first "};
static const Program simple = {"simple", "Does one thing.", with_training, 1, ""};

typedef struct {
    const Program *program;
    const char *line; /* words with a space between */
} Start;

static void start(void *argument) {
    const Start *s = argument;
    char *argv[8] = {"prog"}, *rest = xstrdup(s->line), *word;
    int argc = 1;
    while ((word = strsep(&rest, " ")))
        if (*word) argv[argc++] = word;
    int status = program_run(s->program, argc, argv);
    fflush(NULL);
    _exit(status);
}

static char output[4096];

static int run(const Program *program, const char *line) {
    return run_function(output, sizeof output, start, &(Start){program, line});
}

TEST(a_command_gets_its_arguments_and_its_name) {
    assert_int_equal(run(&trainer, "decode -b 8"), 7);
    assert_string_equal(output, "ran 'train_toy decode' '-b' '8'\n");
    assert_int_equal(run(&stages, "pretrain"), 7);
    assert_string_equal(output, "ran 'train_stages pretrain'\n");
}

TEST(without_a_command_the_unnamed_one_runs) {
    assert_int_equal(run(&trainer, "-m x"), 7);
    assert_string_equal(output, "ran 'prog' '-m' 'x'\n");
    assert_int_equal(run(&trainer, ""), 7);
    assert_string_equal(output, "ran 'prog'\n");
    assert_int_equal(run(&simple, "x"), 7); /* its options know what is wrong with it */
    assert_string_equal(output, "ran 'prog' 'x'\n");
}

TEST(messages_name_the_command) {
    assert_int_equal(run(&stages, "finetune --wrong"), 2);
    assert_contains(output, "\ntrain_stages finetune: unknown option --wrong\ntrain_stages finetune: see --help\n");
}

TEST(an_unknown_command_names_the_nearest) {
    assert_int_equal(run(&stages, "pretrian -b 8"), 2);
    assert_contains(output,
                    "unknown command 'pretrian'; did you mean 'pretrain'?; expected pretrain, finetune or run\n");
    assert_int_equal(run(&trainer, "decoed"), 2);
    assert_contains(output, "unknown command 'decoed'; did you mean 'decode'?; expected prepare or decode\n");
    assert_int_equal(run(&stages, "zzzzzzzz"), 2);
    assert_contains(output, "unknown command 'zzzzzzzz'; expected pretrain, finetune or run\n");
}

TEST(a_missing_command_is_an_error_with_the_list) {
    assert_int_equal(run(&stages, ""), 2);
    assert_contains(output, "which command? pretrain, finetune or run\n");
    assert_int_equal(run(&stages, "-b 8"), 2);
    assert_contains(output, "which command? pretrain, finetune or run\n");
}

TEST(help_lists_the_commands) {
    assert_int_equal(run(&stages, "--help"), 0);
    assert_contains(output, "train_stages: Trains in stages.\n\nusage: ");
    assert_contains(output, "test_commands COMMAND [options]\n\n" /* as it was called */
                            "  train_stages pretrain  learns\n  train_stages finetune  learns more\n");
    assert_null(strstr(output, "ran"));
    assert_int_equal(run(&trainer, "-h"), 7);
    assert_contains(output, "test_commands [COMMAND] [options]\n\n  train_toy          trains\n"
                            "  train_toy prepare  makes data\n");
    assert_contains(output, "\n\nran 'prog' '-h'\n"); /* options of the command after the list */
    assert_int_equal(run(&simple, "--help"), 7);
    assert_string_equal(output, "ran 'prog' '--help'\n");
    assert_int_equal(run(&stages, "run --help"), 7);
    assert_string_equal(output, "ran 'train_stages run' '--help'\n");
}

TEST(help_is_a_word_too) {
    static char want[4096];
    assert_int_equal(run(&stages, "--help"), 0);
    strcpy(want, output);
    assert_int_equal(run(&stages, "help"), 0);
    assert_string_equal(output, want);
    assert_int_equal(run(&stages, "help help"), 0);
    assert_string_equal(output, want);
    assert_int_equal(run(&stages, "help --help"), 0);
    assert_string_equal(output, want);
    assert_int_equal(run(&stages, "run help"), 7);
    assert_string_equal(output, "ran 'train_stages run' '--help'\n");
    assert_int_equal(run(&stages, "help run"), 7);
    assert_string_equal(output, "ran 'train_stages run' '--help'\n");
    assert_int_equal(run(&trainer, "help decode -b 8"), 7); /* what follows is not read */
    assert_string_equal(output, "ran 'train_toy decode' '--help'\n");
    assert_int_equal(run(&stages, "help runn"), 2);
    assert_contains(output, "unknown command 'runn'; did you mean 'run'?");
}

TEST(version_names_revision_device_and_libraries) {
    char first[128];
    snprintf(first, sizeof first, "train_toy %s, revision %s\nbuilt for: cpu\nlinked with:\n", version_number,
             version_revision);
    assert_int_equal(run(&trainer, "-V"), 0);
    assert_memory_equal(output, first, strlen(first));
    assert_int_equal(run(&trainer, "--version"), 0);
    assert_memory_equal(output, first, strlen(first));
    assert_int_equal(run(&trainer, "prepare -V"), 0);
    assert_memory_equal(output, first, strlen(first));
    assert_contains(output, "\n  oneDNN                   ");
    assert_contains(output, "Apache-2.0\n");
    assert_contains(output, "\n  SentencePiece            ");
}

TEST(licences_of_shared_libraries_are_on_the_system) {
    assert_int_equal(run(&trainer, "--licenses"), 0);
    assert_contains(output, "\n  oneDNN                   ");
    assert_contains(output, "/usr/share/doc/PACKAGE/copyright");
}

int main(void) {
    setenv("GOMP_SPINCOUNT", "1000", 1); /* or program_run would start this program anew */
    return tests_run(NULL, NULL);
}
