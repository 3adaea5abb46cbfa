#include "tests/base/meeting_rig.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static const double longest = 60; /* seconds, for a machine with other work */
static pid_t running[MOST_PROCESSES * 4];
static int n_running;

Process *job_new(int n) {
    static int jobs;
    Process *processes =
        mmap(NULL, MOST_PROCESSES * sizeof *processes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(processes != MAP_FAILED);
    jobs++;
    for (int i = 0; i < MOST_PROCESSES; i++) {
        Launch *launch = &processes[i].launch;
        *launch = (Launch){.rank = i, .size = n, .local_rank = i, .local_size = n, .launcher = "a test"};
        snprintf(launch->job, sizeof launch->job, "test %d.%d", getpid(), jobs);
        processes[i].limits = (MeetingLimits){.patience = 40, .silence = 20};
    }
    return processes;
}

static _Noreturn void run(Process *process, Work *work) {
    Error error = {""};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm((unsigned)longest);
    unsetenv("TRAINC_JOB_SECRET");
    if (process->secret) setenv("TRAINC_JOB_SECRET", process->secret, 1);
    if (process->program) program_invocation_short_name = (char *)process->program;
    process->process = getpid();
    usleep((useconds_t)(1e6 * process->delay));
    Meeting *meeting = meeting_open(&process->launch, &process->limits, &error);
    if (!meeting) {
        strcpy(process->text, error.text);
        _exit(1);
    }
    work(process, meeting);
    _exit(0);
}

void job_start(Process *process, Work *work) {
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) run(process, work);
    process->process = child;
    assert_true(n_running < (int)(sizeof running / sizeof *running));
    running[n_running++] = child;
}

void job_start_all(Process *processes, int n, Work *work) {
    for (int i = 0; i < n; i++) job_start(&processes[i], work);
}

void job_await(Process *process, int stage) {
    for (double until = seconds_now() + longest; process->stage < stage; usleep(2000))
        if (seconds_now() > until) fail_msg("process %d has not come to stage %d", process->process, stage);
}

int job_end(Process *process) {
    int status;
    double until = seconds_now() + longest;
    while (waitpid(process->process, &status, WNOHANG) != process->process) {
        if (seconds_now() > until) fail_msg("process %d does not end", process->process);
        usleep(2000);
    }
    for (int i = 0; i < n_running; i++)
        if (running[i] == process->process) running[i] = running[--n_running];
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void job_end_all(Process *processes, int n, int status, const char *part) {
    for (int i = 0; i < n; i++) {
        int ended = job_end(&processes[i]);
        if (ended != status) fail_msg("process %d ended with %d, not %d: %s", i, ended, status, processes[i].text);
        if (part)
            assert_contains(processes[i].text, part);
        else
            assert_string_equal(processes[i].text, "");
        assert_string_equal(processes[i].text, processes[0].text);
    }
}

int job_clean(void **state) {
    (void)state;
    while (n_running) {
        kill(running[--n_running], SIGKILL);
        waitpid(running[n_running], NULL, 0);
    }
    return 0;
}

void report_loss(Process *process, Meeting *meeting) {
    process->stage = 1;
    while (!meeting_lost(meeting)) usleep(2000);
    strcpy(process->text, meeting_lost(meeting));
    process->stage = 2;
    meeting_close(meeting);
}
