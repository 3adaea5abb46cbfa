/* Control over how many threads OpenMP gives. */
#ifndef BASE_THREADS_H
#define BASE_THREADS_H

/* Takes `n` threads for the teams of num_threads(n) that the calling thread will open; whatever the environment says of
 * OpenMP, each of them has that many. A team that does not say how many it wants has OMP_NUM_THREADS, so none is opened
 * without num_threads. Dies, naming the variable or limit that forbids it, if they are not to be had. `option` is what
 * asks for them: "--threads". 0 stands for all processors that the process may use. Returns how many there are. */
int threads_take(int n, const char *option);

#endif
