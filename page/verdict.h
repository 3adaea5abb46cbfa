/* The outcome of a run, in words that its numbers support. */
#pragma once

#include <stdio.h>

#include "page/logged_run.h"

/* Returns how the run ended, and its best metric and where, in a sentence or two; free(). is_running: the run itself
 * asks. */
char *verdict_text(const LoggedRun *run, bool is_running);
/* Returns one or two words for a table: "finished", "stopped". */
const char *verdict_state(const LoggedRun *run, bool is_running);
/* Writes list items: overfitting, underfitting, skipped steps and the like, each with its numbers; `name` precedes each
 * unless it is empty. Returns how many. */
int verdict_findings(FILE *out, const LoggedRun *run, const char *name);
