/* The commands of a program; the first word of the command line names one:
 *
 *     static const Command commands[] = {{NULL, "trains the model", train_command}, ...};
 *     static const Program program = {"train_gpt", "Trains the Amharic TTS GPT.", commands, 2};
 *     int main(int argc, char **argv) { return program_run(&program, argc, argv); }
 *
 * The words --help (-h), help, help COMMAND, --version (-V) and --licenses are understood in place of a command. */
#pragma once

enum { COMMANDS_MAX = 16 };

typedef struct {
    const char *name;    /* "prepare"; NULL in the first row: the command that needs no name */
    const char *purpose; /* one line for --help */
    /* Returns the exit status. argv[0] is "train_gpt prepare", as messages and usage call it. */
    int (*run)(int argc, char **argv);
} Command;

typedef struct {
    const char *name;    /* "train_gpt" */
    const char *purpose; /* one sentence */
    const Command *commands;
    int n_commands; /* at most COMMANDS_MAX */
    /* The commands that several processes of a job may do together, besides one without a name: " pretrain run ". */
    const char *together;
} Program;

/* Starts the program (cpu_limit_spinning, program_start), runs the command that argv names, and returns its exit
 * status. Ends with status 2 if there is no such command, or none is named although the program needs one. */
int program_run(const Program *program, int argc, char **argv);
