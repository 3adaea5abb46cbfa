/* The start and the end of every program: streams, signals, exit status.
 *
 * If stdout cannot be written (its disk is full), the program says so once on stderr, prints nothing more, finishes its
 * work and exits with 1. If the reader has ended ("| head"), it says nothing and exits with 141, as SIGPIPE would; only
 * a training says so. If the reader pauses, the program waits for it; after a signal that stops the program, for at
 * most a second. */
#pragma once

#include <stdio.h>

#include "base/base.h"

#define PROGRAM_STATUS                                                                                                 \
    "The exit status is 0 if all was done, 1 after an error (also if the best weights could not be kept, if every "    \
    "step was skipped, or if what was to be printed could not be), 2 if the command line is wrong, and 128 + N if "    \
    "signal N stopped the program (143: SIGTERM, 130: Ctrl-C, 129: the terminal was closed)."

/* Prepares the program; call it first in main. Closed standard streams become /dev/null before a file can take their
 * number. Output goes out line by line, with control characters shown as \x1b, because names in untrusted files could
 * control a terminal. Watches signals (base/stop.h). */
void program_start(void);

/* Tells that this process is one of `size` that do the same work. Rank 0 stays as it is. Others print nothing to stdout
 * from now on, show no line of progress, leave the answer to signals to rank 0, and name their rank in messages. */
void program_be_rank(int rank, int size);
/* Lets all ranks print to stdout, since they do different work from now on: those other than 0 begin each line with
 * their name, "[rank 2] ". None shows a line of progress, which the lines of others would break. */
void program_speak_as_rank(void);

/* Redirects stdout to stderr and returns a descriptor of the original stdout. */
int program_free_stdout(void);
/* The same, as a stream for results that another program reads. */
FILE *program_results(void);
/* Writes to this stream. Dies if it cannot: silently if the reader has ended, else saying that a part of `what` is
 * missing. */
void program_put(FILE *results, const char *text, size_t size, const char *what);
/* Flushes this stream and, for `close`, closes it. Dies in the same way if that or an earlier write has failed. */
void program_flush(FILE *results, bool close, const char *what);

/* Returns the name that the program was called by, "./train_x", as a shell reads it. */
const char *program_as_called(void);

/* Lets the program end at once, without a message, when the reader of stdout has ended ("| head"), as SIGPIPE ends
 * other programs. For output without which nothing is lost: help, lists, estimates. */
void program_end_with_reader(void);
/* Says from now on when the reader of stdout ends, because the program works on for long. */
void program_outlive_reader(void);

/* Returns the columns of the terminal: COLUMNS if it is set, 80 if stdout is no terminal. */
int terminal_columns(void);
/* Shows one line of at most 511 bytes at the bottom of the terminal until the next call replaces it. Tabs separate its
 * parts: the first is cut at the terminal's width, and a later one for which there is no room is left out. What is
 * printed meanwhile, to stdout or stderr, appears above. The text may contain control sequences for colours. */
void terminal_progress(const char *format, ...) PRINTF_LIKE(1, 2);
/* Removes this line. */
void terminal_progress_end(void);
/* Returns whether stdout is a terminal; if not, the functions above do nothing. */
bool terminal_is_open(void);
/* Writes a bar of 20 columns, filled to this share (0 to 1): coloured lines, or "[###---]" without colours. Returns
 * text.
 */
const char *terminal_bar(double share, char text[128]);
