/* The ranks of a job: processes that a launcher has started to train together, each with a device of its own. All
 * compute; the first decides, prints and writes. A process belongs to one job, so all here is the process's own. */
#pragma once

#include "kernels/group.h"
#include "train/options.h"

/* The exit status of all ranks of a job that has lost one: the same command with --resume auto goes on. */
enum { RANKS_LOST = 75 };

/* Meets the other ranks of the job that a launcher has started, if it has: compares the options, connects the ranks,
 * has ranks other than the first print nothing but messages, and divides a step and the threads of this machine among
 * them. Several trainings in a row (options->in_a_row) part the ranks, unless they have options->undivided and -g is a
 * multiple of the ranks. Call it when the options are resolved, again for those of each later part of a program. Dies
 * with what is missing or differs. */
void ranks_begin(TrainOptions *options, const OptionSet *set);
/* Connects the ranks over NCCL if they train together, on a GPU that each has opened; call it before memory is planned.
 * before: what added the gradients of the run that goes on, whose order of sums is taken again; "": a fresh run. Dies
 * with the reason. */
void ranks_connect(Device *device, const char *before);
/* Ends that; call it before the device is closed. */
void ranks_disconnect(void);
/* Has each rank train by itself from now on, or all together again. */
void ranks_part(bool apart);
/* Returns the largest value of all ranks of the job, 0 or more. Waits for all. Alone: the value. */
int ranks_largest(int value);
/* Dies with what lets ranks share a training that is not divided as it is. */
_Noreturn void ranks_refuse(const TrainOptions *options);
/* Ends what the ranks do together. Ranks other than the first wait until that one has ended, and end with the status.
 */
void ranks_end(int status);
/* Return the number of ranks that train together, and the place among them: 1 and 0 for a process that is alone. */
int ranks_count(void);
int ranks_rank(void);
/* Return the same of all ranks of the job, whether they train together or not. */
int ranks_job_count(void);
int ranks_job_rank(void);
/* Returns whether this process writes the files of its training. */
bool ranks_write(void);
/* Returns the group of the ranks that train together; NULL: this process is alone. */
Group *ranks_group(void);
/* Dies, on all ranks, if facts differ from those of the first rank: lines "name\tvalue\n". Does nothing alone. */
void ranks_compare(const char *facts);
/* Replaces data by that of the first rank. Does nothing alone. */
void ranks_share(void *data, size_t bytes);
/* Waits in ranks other than the first until that one has ended: some launchers kill a job with its first process that
 * ends by an error. */
void ranks_wait_for_first(void);
/* Sets what is called before this process ends because another rank is lost: it may write what is whole, and returns
 * what it has kept for the message; free(). function NULL: nothing. */
void ranks_on_loss(char *(*function)(void *context), void *context);
