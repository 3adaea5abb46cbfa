/* No computing thread may run a signal handler. If one runs on a thread that is inside dnnl_sgemm (oneDNN 2.6, AVX-512,
 * transposed A), the handler's stack frame overwrites the heap. So signals are blocked in every thread, and one thread
 * receives them with sigwait. */
#include "base/stop.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"

static atomic_bool deferred, silent;
static atomic_int remembered, told; /* a signal of this process; one of another */
static atomic_int apart, passed_on; /* the process whose signals are counted apart; the one that it has sent */
static void (*_Atomic taker)(int number, bool by_terminal);

static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};

/* Answers the first signal. Writes around stdio, whose lock a thread may hold that waits for a reader, and only what
 * there is room for: the next signal must be heard. */
static void answer(void) {
    static const char erase[] = "\r\033[K", text[] = "[Stopping] after this step; again to stop at once\n";
    bool terminal = isatty(STDERR_FILENO); /* the line at its bottom goes */
    char line[sizeof erase + sizeof text];
    const char *end = stpcpy(stpcpy(line, terminal ? erase : ""), text);
    if (poll(&(struct pollfd){.fd = STDERR_FILENO, .events = POLLOUT}, 1, 0) != 1) return;
    ssize_t unused = write(STDERR_FILENO, line, (size_t)(end - line));
    (void)unused;
}

static void take(const siginfo_t *signal) {
    void (*take_instead)(int number, bool by_terminal) = taker;
    bool passed = apart && signal->si_code == SI_USER && signal->si_pid == apart;
    atomic_int *count = passed ? &passed_on : &remembered;
    if (take_instead) {
        take_instead(signal->si_signo, signal->si_code == SI_KERNEL);
        return;
    }
    /* The kernel sends it for each thread of a parent that ends (PR_SET_PDEATHSIG): nobody has asked twice. */
    if (passed && *count && getppid() != apart) return;
    if (!deferred || *count) stop_end(signal->si_signo);
    bool first = !remembered && !passed_on;
    *count = signal->si_signo;
    if (first && !silent) answer();
}

static void *wait_for_signals(void *set) {
    siginfo_t signal;
    for (;;) {
        if (sigwaitinfo(set, &signal) > 0)
            take(&signal);
        else if (errno != EINTR)
            return NULL;
    }
}

void stop_watch(void) {
    static sigset_t set;
    struct sigaction before;
    pthread_t thread;
    sigemptyset(&set);
    for (int i = 0; i < 3; i++)
        if (!sigaction(numbers[i], NULL, &before) && before.sa_handler != SIG_IGN) sigaddset(&set, numbers[i]);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    thread_start(&thread, wait_for_signals, &set, "for signals");
    pthread_detach(thread);
}

void stop_defer(bool on) { deferred = on; }

void stop_answer(bool on) { silent = !on; }

void stop_take(void (*function)(int number, bool by_terminal)) { taker = function; }

void stop_count_apart(pid_t process) { apart = process; }

int stop_signal(void) { return remembered ? remembered : passed_on ? passed_on : told; }

void stop_remember(int number) { told = number; }

void stop_forget(void) { remembered = passed_on = told = 0; }

void stop_end(int number) {
    sigset_t all;
    sigemptyset(&all);
    for (int i = 0; i < 3; i++) sigaddset(&all, numbers[i]);
    pthread_sigmask(SIG_UNBLOCK, &all, NULL); /* a disk may hang: one signal more ends what follows */
    last_calls_make();
    signal(number, SIG_DFL);
    raise(number);
    _exit(128 + number); /* raise did nothing: the first process of a container ignores signals that have no handler */
}
