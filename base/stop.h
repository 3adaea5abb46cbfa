/* SIGINT, SIGTERM and SIGHUP (the terminal is gone), but those that whoever started the program wants ignored (nohup):
 * they end it at once, or are a question that a loop asks: has anybody wanted the run to stop? */
#ifndef BASE_STOP_H
#define BASE_STOP_H

#include <stdbool.h>

/* Blocks the signals in this thread and in those that it starts; a thread of its own waits for them. program_start
 * calls it, before any other thread is there. */
void stop_watch(void);
/* While on, the first signal is only remembered, and the second ends the program; else each ends it. */
void stop_defer(bool on);
/* Returns the number of the signal that was remembered; 0: none. */
int stop_signal(void);
/* Forgets it: it came too late to leave anything out. */
void stop_forget(void);
/* Ends the program by this signal. */
_Noreturn void stop_end(int number);

#endif
