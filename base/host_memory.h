/* The memory that the host still has for this program: free memory, limits of the shell, limits of containers. */
#pragma once

#include <stddef.h>

typedef struct {
    size_t bytes;    /* that may still be allocated */
    char limit[384]; /* what leaves them: "ulimit -v", "the limit of 1.07 GB in /sys/fs/cgroup/memory.max"; "": the
                      * machine's own memory */
} HostMemory;

/* Returns the least of: the free memory of the machine, with the files' pages that it can drop; what ulimit -v and -d
 * leave; what the control groups (version 1 and 2) of this process leave, from its own to the outermost that it sees,
 * which is how containers limit memory. Beyond such a limit the kernel kills the program without a word. */
HostMemory host_memory_left(void);
