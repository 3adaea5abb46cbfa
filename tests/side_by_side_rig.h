/* Trainings on the ranks of a job, beside those of one process. For tests in tests/X/mpi, which run programs over MPI,
 * and in tests/X/nccl, whose ranks have emulated cards. */
#pragma once

#include "tests/train_rig.h"

enum { SIDE_MOST_RANKS = 4 };

typedef struct {
    const char *program; /* "train_cv", with its command */
    char *options;       /* all but the output */
    bool cards;          /* ranks have emulated cards, between which is the stand-in for NCCL */
} SideCase;

/* Returns the command of a program of the build for emulated cards, with its first words, on a machine that has so many
 * of them and the stand-in for NCCL. */
char *side_on_cards(int cards, const char *program);
/* Trains on so many ranks, or as one process without a launcher. Returns the output folder, to be kept; fails the test
 * if the training fails. */
char *side_train(const SideCase *c, int ranks, const char *more);
/* The same into a folder; returns the exit status. What was printed is in fixture.output. */
int side_try(const SideCase *c, int ranks, const char *folder, const char *more);
/* Trains into a folder on ranks of which the launcher ends none, and sends a signal to one when the training in
 * FOLDER/RUN has logged a step; one that SIGSTOP has stopped goes on when the others have ended. Fills the exit
 * statuses of the ranks, 128 + the signal that has ended one. */
void side_signal(const SideCase *c, int ranks, const char *folder, int rank, const char *run, int step, int number,
                 int statuses[SIDE_MOST_RANKS]);
/* Fills the exit statuses of ranks, 128 + the signal that has ended one, from the files of tests/nccl/start.sh. */
void side_read_statuses(const char *facts, int ranks, int statuses[SIDE_MOST_RANKS]);
/* Fails unless two folders hold the same files with the same bytes, without those that tell times, places and options
 * (logs, state.json, pages), curves, which show restarts, what is in `others` ("--exclude=NAME ..."), and checkpoints
 * that are neither best nor last. */
void side_check_same(const char *a, const char *b, const char *others);
