/* Helpers for tests that run programs as a user does: paths of programs, runs in the background, signals, and results
 * of runs. */
#pragma once

#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/files.h"

/* The program under test, its data, how it trains, and its last output. */
typedef struct {
    const char *program;
    char *data, *manifest; /* for -m, or for --data if there is no manifest */
    char *options;         /* of every training: the model, the batch size */
    const char *short_run; /* further options of fixture_reference_run */
    const char *loss;      /* its name in the log */
    char output[1 << 16];
} Fixture;

extern Fixture fixture;

/* Returns the path of `which` ("train_gpt") in the build under test; valid until the next call. */
const char *program_at(const char *which);

/* Returns the names of all programs, one per source train_*.c, and writes their number to n. */
const char *const *program_names(int *n);

/* Runs a program ("train_cv") with the words of its command line, and returns the exit status. What it printed is in
 * `output`. */
int run_program(char *output, size_t size, const char *program, const char *format, va_list arguments);

/* Runs a command into fixture.output. Fails the test if the command fails. */
void must_run(const char *format, ...) PRINTF_LIKE(1, 2);

/* A command that must fail. */
typedef struct {
    int status;
    const char *options, *message;
} Refusal;

/* Fails unless a command, whose output is in fixture.output, has ended with this status and said this message. */
void assert_refused(int status, const Refusal *want);

/* Trains into `run` with fixture.options and more. Returns the exit status; what was printed is in fixture.output. */
int fixture_train(const char *run, const char *more, ...) PRINTF_LIKE(2, 3);
/* Trains. Fails the test if the training fails. */
void fixture_must_train(const char *run, const char *more);
/* The same on other data. */
int fixture_train_on(const char *data, const char *run, const char *options);
void fixture_must_train_on(const char *data, const char *run, const char *options);
/* Returns the folder of a short run to compare others with, made once. */
const char *fixture_reference_run(void);
/* Makes the short run with more options. Fails unless it logs the losses and ends with the bytes of
 * fixture_reference_run. */
void fixture_check_same(const char *more);
/* Makes the short run, of 12 steps, with more options, once as a whole and once killed at steps 2 and 10 and stopped by
 * a signal at step 6. Fails unless both log the same losses and end with the same bytes; without more options, those of
 * fixture_reference_run. */
void fixture_check_restarts(const char *more);
/* Makes the short run, of 12 steps, in three parts, of which a signal ends the first two: on a disk that lacks links,
 * locks and more, on this one, and on the former again. Fails unless it logs the losses and ends with the bytes of
 * fixture_reference_run, and `use` ("generate --prompt x --checkpoint"; NULL: nothing), with a path behind it, writes
 * to stdout what it writes for that run, for every path to the best weights. */
void fixture_check_poor_disk(const char *use);
/* Fails unless a training of 60 steps allocates as often as one of 30. Both log as many lines, and validate at their
 * end. */
void fixture_check_allocations(const char *options);
/* Gives programs that are started from now on a disk that lacks all that tests/base/substitute/disk.c knows, then the
 * usual one again. Returns whether it is poor: never under the address sanitizer. */
bool poor_disk(bool poor);
/* Starts a training in the background with its output in RUN/output. */
pid_t fixture_start(const char *run, const char *more);
/* Starts a training and sends it a signal at a step, as signal_at_step does. */
int fixture_train_and_signal(const char *run, const char *more, int step, int number);

/* Fails unless two runs have logged the same losses. */
void assert_same_losses(const char *a, const char *b);
/* Fails unless the last checkpoints of two runs have the same bytes. */
void assert_same_result(const char *a, const char *b);

/* Starts a command in the background with its output in RUN/output. */
pid_t start_command(const char *run, const char *command);

/* Waits until RUN/log.jsonl has a line of this step, or until the program has ended. */
void wait_for_step(const char *run, pid_t child, int step);

/* Sends a signal to the program when it has logged this step. Returns its exit status, or 128 + the signal that ended
 * the program. */
int signal_at_step(const char *run, pid_t child, int step, int number);
