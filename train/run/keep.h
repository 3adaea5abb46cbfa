/* Writes the checkpoints of a run, the newest and the best, and copes with failed writes. */
#pragma once

#include "train/run/run.h"

/* Returns the current path of the run's folder, or the last one known. */
const char *keep_folder(const Run *run);
/* Returns whether a checkpoint is being written by this rank. */
bool keep_is_writing(const Run *run);
/* Waits for the write under way. If the write has failed, warns, and forgets the best weights that it contained. */
void keep_wait(Run *run);
/* Writes the current state as a checkpoint, after a best one that waits. */
void keep_save(Run *run);
/* Keeps the best weights. Short epochs may end faster than checkpoints are written, so the weights may wait for the
 * write under way, and better ones replace them while they wait. */
void keep_best(Run *run);
/* Ends a run that has lost a rank, in the first: writes the last whole step, if it lies in this rank whole. Returns
 * what was kept, for a message; free(). */
char *keep_after_loss(Run *run);
/* Writes the best weights that wait, if there are any. */
void keep_waiting(Run *run);
