/* Runs that are killed, or whose file operations fail, at each operation in turn; then the same command again. What
 * is there in the end must be what a run that nothing has disturbed leaves.
 *
 *   CRASH_POINT=o17.kill TEST_FILTER=train_gpt build/release/tests/deep_crash     one point, and its folder stays
 *   CRASH_POINT=list TEST_FILTER=train_gpt build/release/tests/deep_crash         the operations and their numbers */
#ifndef TESTS_CRASH_CRASH_H
#define TESTS_CRASH_CRASH_H

#include <stdbool.h>
#include <stddef.h>

#include "base/base.h"

typedef struct {
    const char
        *command;       /* goes on with what it finds in its folder, a copy of start/. $PROGRAMS/: where programs are */
    const char *log;    /* of a training, log.jsonl; its best must be no other than `lowest` says. NULL: none */
    const char *lowest; /* the value of validations that decides about best; with a '-' before it the highest */
    const char *done;   /* what the command refuses to do again; NULL: it goes on with whatever it finds */
    const char *alike;  /* an extended pattern of reports: there are too many to try everything with; NULL: none */
} CrashRun;

/* Fails the test that calls it if any of every `stride`th point goes wrong. `root` has start/ and may have more, which
 * the command finds as ../NAME. */
void crash_at_every(int stride, const char *root, const CrashRun *run);

/* Whether two trees are the same but for times: names, links, bytes. allow_more: `got` may have files of its own. */
bool crash_same_tree(const char *want, const char *got, bool allow_more, Error *error);

/* All programs, each a test. Returns the exit status. */
int crash_tests(int stride);

#endif
