/* No computing thread may run a signal handler. If one runs on a thread that is inside dnnl_sgemm (oneDNN 2.6, AVX-512,
 * transposed A), the handler's stack frame overwrites the heap. So signals are blocked in every thread, and one thread
 * receives them with sigwait. */
#include "base/stop.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/base.h"

static atomic_bool deferred;
static atomic_int remembered;

static void *wait_for_signals(void *set) {
    for (int number; !sigwait(set, &number);) {
        if (!deferred || remembered) stop_end(number);
        remembered = number;
    }
    return NULL;
}

void stop_watch(void) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
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

int stop_signal(void) { return remembered; }

void stop_forget(void) { remembered = 0; }

void stop_end(int number) {
    sigset_t one;
    last_calls_make();
    sigemptyset(&one);
    sigaddset(&one, number);
    signal(number, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &one, NULL);
    raise(number);
    _exit(128 + number); /* raise did nothing: the first process of a container ignores signals that have no handler */
}
