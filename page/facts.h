/* The sections of a page about single runs: what was measured, how it was configured, and where it comes from. */
#pragma once

#include <stdio.h>

#include "page/logged_run.h"

/* Writes the numbers of a run: best metric, steps, time, speed, MFU with its peak, memory, money. */
void facts_numbers(FILE *out, const LoggedRun *run);
/* Writes the options that differ from their defaults, and all of them in a closed element. `level`: of headings. */
void facts_configuration(FILE *out, const LoggedRun *run, int level);
/* Writes command, revision, machine, data, checkpoints and restarts. */
void facts_origin(FILE *out, const LoggedRun *run, int level);
/* Returns an option's value as one types it; free(). value NULL: "". */
char *facts_value_text(const json_t *value);
