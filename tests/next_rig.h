/* Helpers for tests of the "Next: " line of a program: its command must work whatever the name of the folder. */
#pragma once

#include "tests/train_rig.h"

/* Names of folders with characters that are special in a shell. */
enum { NEXT_NAMES = 5 };
extern const char *const next_names[NEXT_NAMES];

/* Makes a working folder with links to all programs, as in a checkout. */
int next_open(void **state);

/* Runs a command in the working folder into fixture.output. Fails the test, naming `what`, if the command fails. */
void next_must_run(const char *what, const char *command);

/* Returns the command of `program` in the line "Next: " of fixture.output. */
char *next_command(const char *program);

/* Returns the command with a word of it, such as NEW_CELLS, replaced by the name of a folder, quoted. */
char *next_with(const char *command, const char *word, const char *name);

/* Returns "./PROGRAM synthesize --output=NAME OPTIONS" with the name quoted. */
char *next_synthesize(const char *program, const char *options, const char *name);
