/* Makes OpenMP give the number of threads that was asked for; work on several threads; waiting. */
#pragma once

#include "base/base.h"

/* Reserves n threads for the parallel regions of the calling thread and returns n. If n is 0, reserves and returns one
 * per processor that the process may use. Each region with num_threads(n) then has n threads, whatever OpenMP's
 * environment variables say; every region of the project names its number. If fewer threads can be had, dies with a
 * message that names the cause and `option`, the option that asked for the threads ("--threads"). */
int threads_take(int n, const char *option);
/* Leaves the core to others between two looks at what one waits for: at first for as long as they have something to do,
 * later for 20 to 200 us. tries: of how many looks this was the last. */
void rest_between_tries(int64_t tries);
/* Calls work(context, i, error) for i = 0 .. n - 1 on several threads, all of them also after a failure. False with the
 * error of the first i that fails, whatever the number of threads. */
bool threads_each(int64_t n, int n_threads, bool (*work)(void *context, int64_t i, Error *error), void *context,
                  Error *error);
