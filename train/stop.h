/* SIGINT and SIGTERM as a question that the loop asks: has anybody wanted the run to stop? */
#ifndef TRAIN_STOP_H
#define TRAIN_STOP_H

/* From now on the signals are blocked in this thread and in those that it starts, and a thread of its own waits for
 * them. Call it first in main, before any other thread is there. Until stop_defer the program ends at once, as it would
 * without this. */
void stop_watch(void);
/* From now on the first signal is only remembered, and the second ends the program. */
void stop_defer(void);
/* The number of the signal that was remembered; 0: none. */
int stop_signal(void);

#endif
