/* The line "Next: " behind a result: the command that uses it, to be copied into a shell. */
#pragma once

#include "base/base.h"

/* Prints "Next: PROGRAM ...", the program as it was called. The only conversion of the format is %s: a path, which is
 * quoted where a shell needs it, and never read as an option. */
void next_print(const char *format, ...) PRINTF_LIKE(1, 2);

/* Prints the same with `options`, pairs of a name and a value that end with NULL; values are quoted like paths. Leaves
 * out options without a value. command: behind the program, or "". */
void next_print_options(const char *command, const char *const *options);

/* Returns a number for -b with which a training on so few samples has steps, at least `least`: a power of two that is
 * at most half of them; free(). NULL: the usual batch works. */
char *next_batch(int64_t samples, int64_t usual, int64_t least);

/* Returns RUN/best, or RUN/last of a run that has not validated; free(). */
char *next_weights(const char *run);
