/* The line "Next: " behind a result: the command that uses it, to be copied into a shell. */
#ifndef COMMANDS_NEXT_H
#define COMMANDS_NEXT_H

#include "base/base.h"

/* Prints "Next: PROGRAM ...", the program as it was called. The only conversion of the format is %s: a path, which is
 * quoted where a shell needs it, and never read as an option. */
void next_print(const char *format, ...) PRINTF_LIKE(1, 2);

/* Returns RUN/best, or RUN/last of a run that has not validated; free(). */
char *next_weights(const char *run);

#endif
