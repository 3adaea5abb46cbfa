#include "commands/commands.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/launch.h"
#include "base/options/help.h"
#include "base/program.h"
#include "base/version.h"
#include "commands/libraries.h"
#include "kernels/cpu/device.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/startup.h"
#include "kernels/device.h"
#include "kernels/mpi.h"

static bool is_word(const char *argument, const char *word) { return argument && !strcmp(argument, word); }

/* Returns the command without a name, or NULL. */
static const Command *unnamed_command(const Program *program) {
    return program->commands[0].name ? NULL : &program->commands[0];
}

static const Command *find_command(const Program *program, const char *name) {
    for (int i = 0; i < program->n_commands; i++)
        if (is_word(program->commands[i].name, name)) return &program->commands[i];
    return NULL;
}

/* Returns "pretrain, finetune or run"; free(). */
static char *command_names(const Program *program) {
    char *names = xstrdup("");
    for (int i = 0; i < program->n_commands; i++) {
        if (!program->commands[i].name) continue;
        const char *between = i + 1 < program->n_commands ? ", " : " or ";
        xappend(&names, "%s%s", *names ? between : "", program->commands[i].name);
    }
    return names;
}

static _Noreturn void die_unknown(const Program *program, const char *name) {
    const char *names[COMMANDS_MAX];
    int n = 0;
    for (int i = 0; i < program->n_commands && i < COMMANDS_MAX; i++)
        if (program->commands[i].name) names[n++] = program->commands[i].name;
    const char *near = nearest_name(name, names, n);
    die_usage("unknown command '%.64s'%s%s%s; expected %s", name, near ? "; did you mean '" : "", near ? near : "",
              near ? "'?" : "", command_names(program));
}

static void print_commands(const Program *program) {
    int width = 0;
    for (int i = 0; i < program->n_commands; i++) {
        const char *name = program->commands[i].name;
        int length = name ? (int)strlen(name) : 0;
        if (length > width) width = length;
    }
    OWNED char *title = xformat("%s: %s", program->name, program->purpose), *more = NULL;
    help_print_wrapped(title, 0, 2);
    printf("\nusage: %s %s [options]\n\n", program_as_called(), unnamed_command(program) ? "[COMMAND]" : "COMMAND");
    for (int i = 0; i < program->n_commands; i++) {
        const Command *command = &program->commands[i];
        int column = printf("  %s %-*s  ", program->name, width, command->name ? command->name : "");
        help_print_wrapped(command->purpose, column, column);
    }
    more = xformat("%s help COMMAND lists the options of a command, COMMAND -h the usual ones. %s --version (-V) names "
                   "the version and the libraries, --licenses prints their licences.",
                   program_as_called(), program_as_called());
    printf("\n");
    help_print_wrapped(more, 0, 0);
}

/* Prints what a program with a cuda device finds on this machine. */
static void print_found(void) {
    CudaLibrary found[CUDA_LIBRARIES];
    int n = cuda_find_libraries(found);
    if (!n) return;
    OWNED char *cards = cuda_list_cards();
    printf("found on this machine:\n  %s\n", cards);
    for (int i = 0; i < n; i++) printf("  %-24s %s\n", found[i].name, found[i].text);
}

static int print_version(const Program *program) {
    const char *cards = cuda_built_for();
    const char *mpi = mpi_library();
    printf("%s %s, revision %s\nbuilt for: cpu%s%s%s%s\n", program->name, version_number, version_revision,
           cards ? "; cuda: " : "", cards ? cards : "", mpi ? "; mpi: " : "", mpi ? mpi : "");
    libraries_print();
    print_found();
    return 0;
}

static bool is_version(const char *word) { return is_word(word, "--version") || is_word(word, "-V"); }
static bool is_help(const char *word) { return is_word(word, "--help") || is_word(word, "-h"); }

/* Lets "help" be "--help", "help COMMAND" and "COMMAND help" be "COMMAND --help", "COMMAND --version" be "--version".
 */
static void translate_help(const Program *program, int *argc, char **argv) {
    static char help[] = "--help";
    if (*argc == 3 && find_command(program, argv[1])) {
        if (is_word(argv[2], "help") && access(argv[2], F_OK)) argv[2] = help;
        if (is_version(argv[2])) argv[1] = argv[2];
    }
    if (*argc < 2 || !is_word(argv[1], "help")) return;
    if (*argc == 2 || is_word(argv[2], "help") || is_help(argv[2])) {
        argv[1] = help;
        *argc = 2;
    } else {
        if (!find_command(program, argv[2])) die_unknown(program, argv[2]);
        argv[1] = argv[2];
        argv[2] = help;
        *argc = 3;
    }
}

static bool is_for_ranks(const Program *program, const Command *command) {
    OWNED char *word = xformat(" %s ", command->name ? command->name : "");
    return !command->name || strstr(program->together, word);
}

/* Dies if this process is one of several, which would all do the same. */
static void refuse_ranks(void) {
    Launch launch;
    Error error;
    if (launch_read(&launch, &error) && launch.size > 1)
        die_usage("%s has started %d processes, and this command is one: start it without", launch.launcher,
                  launch.size);
}

int program_run(const Program *program, int argc, char **argv) {
    const Command *command = unnamed_command(program);
    cpu_limit_spinning(argv);
    program_start();
    translate_help(program, &argc, argv);
    const char *word = argc > 1 ? argv[1] : NULL;
    bool version = is_version(word), licenses = is_word(word, "--licenses"), help = is_help(word);
    if (version || licenses || help) program_end_with_reader();
    if (version) return print_version(program);
    if (licenses) {
        licenses_print();
        return 0;
    }
    if (help) {
        if (!command || program->n_commands > 1) print_commands(program);
        if (!command) return 0;
        if (program->n_commands > 1) printf("\n");
    }
    bool named = word && word[0] != '-' && !(command && program->n_commands == 1);
    if (named) {
        command = find_command(program, word);
        if (!command) die_unknown(program, word);
        argv[1] = xformat("%s %s", program->name, word);
        program_invocation_short_name = argv[1];
    }
    if (command && !is_for_ranks(program, command)) refuse_ranks();
    if (command) return command->run(argc - named, argv + named);
    die_usage("which command? %s", command_names(program));
}
