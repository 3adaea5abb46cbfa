/* SIGINT, SIGTERM and SIGHUP end the program at once, or set a flag that a loop polls. Signals that were ignored when
 * the program started (nohup) stay ignored. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Blocks the signals in this thread and in all threads that it starts, and starts a thread that waits for signals.
 * program_start calls this function before there are other threads. */
void stop_watch(void);
/* While on, the first signal is only remembered, which stderr says at once, and the second ends the program. Otherwise
 * every signal ends it. */
void stop_defer(bool on);
/* Lets the first signal be remembered without a word to stderr: of several processes one says it. */
void stop_answer(bool on);
/* Hands every signal to a function, which the thread calls, instead of ending the program. by_terminal: the kernel sent
 * it, as it does for Ctrl-C, to all processes in the terminal's foreground. */
void stop_take(void (*function)(int number, bool by_terminal));
/* Counts the signals of a process apart: it passes on its own, which this one may have got, too. The second signal ends
 * the program only if both came from that process, or neither did. */
void stop_count_apart(pid_t process);
/* Returns the number of the remembered signal, or 0. */
int stop_signal(void);
/* Remembers a signal that another process has got: this one's first signal is still its first. */
void stop_remember(int number);
/* Forgets the remembered signal: for a signal that came after all work was done. */
void stop_forget(void);
/* Ends the program as this signal would: the parent sees the signal as the cause. */
_Noreturn void stop_end(int number);
