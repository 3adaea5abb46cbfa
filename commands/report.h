/* The command "report" of every program. */
#pragma once

#include "commands/commands.h"

#define REPORT_COMMAND                                                                                                 \
    { "report", "writes report.html of runs: curves, results, configuration; several side by side", report_command }

/* Writes the page of the runs that argv names. Returns the exit status. */
int report_command(int argc, char **argv);
