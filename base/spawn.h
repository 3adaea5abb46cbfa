/* Starts the processes of a job on this machine: the same program with the same arguments, once for each GPU, before
 * there is anything in this process that a child could not take over. */
#pragma once

#include "base/launch.h"

/* Ends with it each process of a job that asks to be started again. */
enum { SPAWN_AGAIN = 76 };

typedef struct {
    int count;         /* processes on this machine */
    LaunchNodes nodes; /* {.count = 1}: on this machine alone */
    const char *cards; /* CUDA_VISIBLE_DEVICES of all of them; NULL: as it is */
    bool may_ask;      /* they may ask to be started again with other options */
} SpawnJob;

/* Sets the variables of a process of a job: torchrun's, and TRAINC_STARTED_BY, by which launch_read knows who has
 * started it. local: its number on this machine. */
void spawn_set_variables(const SpawnJob *job, int local);
/* Starts the processes, passes on signals, waits for all, and ends this one: with the status of the first; if the
 * first that failed was killed by signal N, with 128 + N and a line that names it. The first on this machine has the
 * standard input, the others have none. If this process is killed, they get SIGTERM. */
_Noreturn void spawn_job(const SpawnJob *job);

/* Returns whether this process was started by spawn_job. */
bool spawn_is_child(void);
/* Returns whether the processes of this job may ask to be started again, which they can do once. */
bool spawn_may_ask(void);
/* Asks the parent to start `count` processes on each machine, with "--gpus count" and these options (NULL ends them)
 * behind the arguments, when all processes of this job have ended with SPAWN_AGAIN. To be called by all of them, alike.
 * Returns false if they may not ask, or the options are too long: 4 KB. */
bool spawn_again(int count, const char *const *options);
