/* The sections of a page that show several runs side by side. */
#pragma once

#include <stdio.h>

#include "page/logged_run.h"

/* Returns how the runs ended and the range of their best metrics, in a sentence or two; free(). */
char *compare_verdict(const LoggedRun *runs, int n, bool is_running);
/* Writes a table with a row per run. */
void compare_numbers(FILE *out, const LoggedRun *runs, int n, bool is_running);
/* Writes a table of the options that are not the same in all runs. */
void compare_options(FILE *out, const LoggedRun *runs, int n);
