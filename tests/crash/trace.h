/* Runs a command and injects a fault at a chosen file operation: kills the command, writes only half of the bytes, or
 * lets the operation fail.
 *
 * A tracer stops the command at system calls. A preloaded library would not see those that stdio, the C++ library and
 * libzip make inside libc. A seccomp filter selects calls that change files, so that everything else runs at full
 * speed. Only files below the working directory of the command count. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* FAULT_KILL: kills instead of the operation; FAULT_TEAR: kills after half of a write; FAULT_FAIL: the operation fails;
 * FAULT_BREAK: the operation and all later ones fail. */
typedef enum { FAULT_NONE, FAULT_KILL, FAULT_TEAR, FAULT_FAIL, FAULT_BREAK } FaultKind;

/* The schedule of threads differs between runs. So operations of the first thread are numbered from 1, and separately
 * those of all other threads together, so that a number means the same operation in every run. */
typedef enum { BY_FIRST, BY_OTHERS, ACTORS } Actor;

typedef struct {
    FaultKind kind;
    int error; /* ENOSPC: only operations that need space fail; EIO: all fail */
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
    bool writes;    /* can be cut in half */
    bool takes_room;
} Operation;

typedef struct {
    int counts[ACTORS];
    Operation *operations[ACTORS]; /* [MOST_OPERATIONS], or NULL: not wanted */
    int status;                    /* the exit status; 128 + signal */
    bool reached, hung;            /* the fault; longer than MOST_SECONDS */
} Trace;

/* Runs a shell command in a directory and writes its output to `output`, cut at size - 1. Returns false, with the
 * reason in `output`, if this machine cannot trace. The caller must have no threads and no other children. */
bool trace_run(const char *directory, const char *command, const Fault *fault, Trace *trace, char *output, size_t size);
