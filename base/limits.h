/* The limits that a shell or a batch system sets for a program (ulimit). A program that links base/limits.c ends with a
 * message before main if its stack is too small. */
#pragma once

#include <stddef.h>

/* Returns the bytes that the program may still map under ulimit -v and -d, or SIZE_MAX if neither is set. Sets *limit
 * to the name of the limit that leaves fewer bytes ("ulimit -v"), or to NULL. */
size_t limits_left(const char **limit);

/* Dies unless `bytes` may still be mapped; the message names `what` needs them ("compiling oneDNN's products"). For
 * libraries that do not check their own allocations. */
void limits_require(size_t bytes, const char *what);

/* Makes all threads share one heap if memory is limited; otherwise each thread's heap reserves 64 MiB of addresses.
 * program_start calls this function. */
void limits_start(void);
