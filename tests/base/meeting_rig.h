/* Jobs of several processes on this machine, for tests of what ranks tell each other. */
#pragma once

#include <sys/types.h>

#include "base/meeting.h"
#include "tests/test.h"

enum { MOST_PROCESSES = 8 };

/* The memory that a test and the processes of its job share, by the number of the process. */
typedef struct {
    pid_t process;
    _Atomic int stage; /* how far it has come: REPORTED, or what the test defines */
    char text[512];    /* of an Error, or what meeting_lost says; "": none */
    Launch launch;     /* what the process is told */
    MeetingLimits limits;
    const char *secret;  /* NULL: none */
    const char *program; /* NULL: that of the test */
    double delay;        /* seconds before it comes */
    double work;         /* the test defines what it does with it */
} Process;

typedef void Work(Process *process, Meeting *meeting);

/* Makes n processes of a new job; process i is rank i of n. Nothing runs yet. */
Process *job_new(int n);
/* Starts a process, which opens a meeting and then works; if it cannot, it reports the error and ends with 1. It ends
 * after a minute. */
void job_start(Process *process, Work *work);
void job_start_all(Process *processes, int n, Work *work);
/* Waits until a process has come so far, or fails the test after a minute. */
void job_await(Process *process, int stage);
/* Waits until a process has ended. Returns its exit status, or 128 + the signal. */
int job_end(Process *process);
/* Waits until all have ended with this status, and the text that all report contains a part; NULL: there is none. */
void job_end_all(Process *processes, int n, int status, const char *part);
/* Kills what is left of jobs, after a test: for TEST_WITH. */
int job_clean(void **state);

/* Reports in a process why the job cannot go on, as soon as that is known. */
void report_loss(Process *process, Meeting *meeting);
