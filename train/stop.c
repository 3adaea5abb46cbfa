/* No thread that computes may run a signal handler: while dnnl_sgemm of oneDNN 2.6 works on a transposed A with
 * AVX-512, the frame of a handler on its thread overwrites the heap. With the signals blocked everywhere and taken by
 * sigwait there is no handler, and nothing else in the program has to fear being interrupted. */
#include "train/stop.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include "base/base.h"

static atomic_bool deferred;
static atomic_int remembered;

static void *wait_for_signals(void *set) {
    for (int number; !sigwait(set, &number);) {
        if (!deferred || remembered) _exit(128 + number);
        remembered = number;
    }
    return NULL;
}

void stop_watch(void) {
    static sigset_t set;
    pthread_t thread;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    if (pthread_create(&thread, NULL, wait_for_signals, &set)) die("cannot start a thread for signals");
    pthread_detach(thread);
}

void stop_defer(void) { deferred = true; }

int stop_signal(void) { return remembered; }
