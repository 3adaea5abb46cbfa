/* The limits that a shell or a batch system sets for a program (ulimit). A program with too small a stack is refused
 * before main, once base/program.h is linked in. */
#ifndef BASE_LIMITS_H
#define BASE_LIMITS_H

#include <stddef.h>

/* Bytes that the program may still map under ulimit -v and -d; SIZE_MAX: there is no limit. *limit: "ulimit -v", the
 * one that leaves the least, or NULL. */
size_t limits_left(const char **limit);

/* Dies unless at least `bytes` may still be mapped. For what must not be refused memory: code that libraries compile
 * writes to where it would have been. `what` needs them: "compiling oneDNN's products". */
void limits_require(size_t bytes, const char *what);

/* Under a limit of memory, lets threads share one heap: each would otherwise reserve 64 MiB of addresses for its own.
 * program_start calls it. */
void limits_start(void);

#endif
