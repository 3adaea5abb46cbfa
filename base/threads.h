/* Makes OpenMP give the number of threads that was asked for. */
#pragma once

/* Reserves n threads for the parallel regions of the calling thread and returns n. If n is 0, reserves and returns one
 * per processor that the process may use. Each region with num_threads(n) then has n threads, whatever OpenMP's
 * environment variables say; every region of the project names its number. If fewer threads can be had, dies with a
 * message that names the cause and `option`, the option that asked for the threads ("--threads"). */
int threads_take(int n, const char *option);
