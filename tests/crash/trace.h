/* Runs a command and harms it at a chosen file operation: kills it, tears a write in two, or lets the operation fail.
 *
 * A tracer rather than a preloaded library: it stops the command at the system calls themselves, those that stdio, the
 * C++ library and libzip make inside libc among them, which no preloaded function sees. A seccomp filter picks the
 * calls that change files, so that everything else runs at full speed. Only files below the directory in which the
 * command runs count. */
#ifndef TESTS_CRASH_TRACE_H
#define TESTS_CRASH_TRACE_H

#include <stdbool.h>
#include <stddef.h>

/* FAULT_KILL: instead of the operation; FAULT_TEAR: after half of a write; FAULT_FAIL: the operation fails,
 * FAULT_BREAK: that one and all that follow. */
typedef enum { FAULT_NONE, FAULT_KILL, FAULT_TEAR, FAULT_FAIL, FAULT_BREAK } FaultKind;

/* The threads of a command take turns as they like. So operations are numbered from 1 for the first thread, and apart
 * from that for all others together: such a number means the same operation in every run. */
typedef enum { BY_FIRST, BY_OTHERS, ACTORS } Actor;

typedef struct {
    FaultKind kind;
    int error; /* ENOSPC: only what takes room fails; EIO: everything */
    Actor actor;
    int at;
} Fault;

#ifdef __SANITIZE_ADDRESS__
enum { MOST_SECONDS = 600 };
#else
enum { MOST_SECONDS = 60 };
#endif
enum { MOST_OPERATIONS = 4096 };

typedef struct {
    char name[160]; /* "rename run/last.partial" */
    bool writes;    /* half of it can be done */
    bool takes_room;
} Operation;

typedef struct {
    int counts[ACTORS];
    Operation *operations[ACTORS]; /* [MOST_OPERATIONS], or NULL: not wanted */
    int status;                    /* the exit status; 128 + signal */
    bool reached, hung;            /* the fault; longer than MOST_SECONDS */
} Trace;

/* Runs a shell command in a directory; what it says goes to `output` (cut at size - 1). Returns false, with the reason
 * in `output`, if this machine cannot trace. One at a time, by a process without threads or other children. */
bool trace_run(const char *directory, const char *command, const Fault *fault, Trace *trace, char *output, size_t size);

#endif
