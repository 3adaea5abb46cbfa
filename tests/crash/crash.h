/* Kills a run, or lets its file operations fail, at one operation after the other, then runs the same command again.
 * The result must be that of a run without faults. Runs should take at most a second.
 *
 *   CRASH_STRIDE=1 build/release/tests/psd/deep_crash                                 every point, not each thirtieth
 *   CRASH_POINT=list TEST_FILTER=train_cv build/release/tests/cv/deep_crash         the numbered operations
 *   CRASH_POINT=o17.kill TEST_FILTER=train_cv build/release/tests/cv/deep_crash     one point; its folder stays */
#pragma once

#include "tests/test.h"

typedef struct {
    const char *command; /* continues in its folder, a copy of start/; $PROGRAMS/ is the folder of the programs */
    const char *log;     /* log.jsonl of a training whose best checkpoint is checked; NULL for none */
    const char *lowest;  /* the validation value that chooses the best; after a '-' the highest is best */
    const char *done;    /* message of a command that refuses to run again when it is done; NULL if it never refuses */
    const char *alike;   /* extended regular expression of reports, which get fewer fault points; NULL for none */
} CrashRun;

/* Makes a new folder, in memory if possible, with an empty start/ in it. Skips the calling test if
 * programs cannot be traced here. */
char *crash_root(void);
/* Runs a command in the folder, which must succeed. */
void crash_make(const char *root, const char *command);

/* Fails the calling test if the result is wrong for one of every CRASH_STRIDE-th fault point (30 if unset), of at least
 * six if there are; another CRASH_TURN takes other ones. `root` has start/, and may have other files, which the command
 * finds as ../NAME. */
void crash_at_every(const char *root, const CrashRun *run);

/* Returns whether two trees have the same names, links and bytes; ignores times. allow_more: `got` may have more files,
 * and no or an earlier report.html. */
bool crash_same_tree(const char *want, const char *got, bool allow_more, Error *error);

/* Runs the tests of a program. Returns the exit status. */
int crash_tests(void);
