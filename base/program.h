/* How every program begins and ends: its streams, its signals, its exit status. A reader of stdout that goes away
 * (head) and a full disk behind it do not end a program: it says so once on stderr, prints no more, does its work and
 * ends with 1. A reader that pauses is waited for, but for no longer than a second once a signal is to stop the
 * program: what it holds is kept, and it ends by the signal. */
#ifndef BASE_PROGRAM_H
#define BASE_PROGRAM_H

#define PROGRAM_STATUS                                                                                                 \
    "The exit status is 0 if all was done, 1 after an error (also if the best weights could not be kept, if every "    \
    "step was skipped, or if what was to be printed could not be), 2 if the command line is wrong, and 128 + N if "    \
    "signal N stopped the program (143: SIGTERM, 130: Ctrl-C, 129: the terminal was closed)."

/* Call it first in main. Streams that are closed become /dev/null, before a file can take their number. What is printed
 * goes out line by line, with control characters shown as \x1b: names come from files of others, and a terminal obeys
 * them. Signals are watched (base/stop.h). */
void program_start(void);

/* Lets what a library throws and nobody catches (it is short of memory) end the program as die() does; program_start
 * calls it. */
void uncaught_are_told(void);

/* Lets what is printed go to stderr from now on, and returns a descriptor of what stdout was. */
int program_free_stdout(void);

/* On a terminal: erases what stands on the line, for progress that is shown in place. */
void terminal_erase_line(void);

#endif
