/* Control over how many threads OpenMP gives. */
#ifndef BASE_THREADS_H
#define BASE_THREADS_H

/* Takes `n` threads for the teams that the calling thread will open; whatever the environment says of OpenMP, each of
 * them has that many. Dies, naming the variable or limit that forbids it, if they are not to be had. `option` is what
 * asks for them: "--threads". 0 stands for all processors that the process may use. Returns how many there are. */
int threads_take(int n, const char *option);

#endif
