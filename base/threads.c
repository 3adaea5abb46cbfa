#include "base/threads.h"

#include <omp.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MIN_STACK = 256 << 10 }; /* bytes; operations keep small arrays on the stack */

/* Locked while the threads are tried, so that each waits until all have started. */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void *wait_at_gate(void *unused) {
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    return unused;
}

/* Starts n threads once before OpenMP does. If the system refused one of OpenMP's, its library would end the program
 * without naming the option that asked for them. */
static void try_threads(int n, const char *option) {
    OWNED pthread_t *threads = xcalloc((size_t)n, sizeof *threads);
    int started = 1, refused = 0;
    pthread_mutex_lock(&gate);
    while (started < n && !(refused = pthread_create(&threads[started], NULL, wait_at_gate, NULL))) started++;
    pthread_mutex_unlock(&gate);
    for (int i = 1; i < started; i++) pthread_join(threads[i], NULL);
    if (refused)
        die("%s: the system allows only %d of %d threads (%s): raise the limit (ulimit -u, ulimit -v, the cgroup's "
            "pids.max), or give %s %d",
            option, started, n, strerror(refused), option, started);
}

/* Returns the size of the calling thread's stack in bytes. */
static size_t stack_size(void) {
    pthread_attr_t attributes;
    size_t size = 0;
    if (pthread_getattr_np(pthread_self(), &attributes)) return MIN_STACK; /* unknown */
    pthread_attr_getstacksize(&attributes, &size);
    pthread_attr_destroy(&attributes);
    return size;
}

int threads_take(int n, const char *option) {
    if (n <= 0) n = omp_get_num_procs();
    if (omp_get_thread_limit() < n)
        die_usage("%s: OMP_THREAD_LIMIT=%s allows only %d of %d threads: unset it, or give %s %d", option,
                  getenv("OMP_THREAD_LIMIT"), omp_get_thread_limit(), n, option, omp_get_thread_limit());
    omp_set_dynamic(0);           /* OMP_DYNAMIC */
    omp_set_max_active_levels(1); /* OMP_MAX_ACTIVE_LEVELS */
    try_threads(n, option);
    int started = 0;
    size_t stack = SIZE_MAX;
#pragma omp parallel num_threads(n) reduction(+ : started) reduction(min : stack)
    {
        started++;
        stack = stack_size();
    }
    if (started != n)
        die("%s: OpenMP started only %d of %d threads: unset the variables OMP_* and GOMP_* in the environment, or "
            "give %s %d",
            option, started, n, option, started);
    if (stack < MIN_STACK)
        die("%s: threads have a stack of %zu kB and need %d kB: raise OMP_STACKSIZE or ulimit -s", option, stack >> 10,
            MIN_STACK >> 10);
    return n;
}

void rest_between_tries(int64_t tries) {
    enum { YIELDS = 2000 };
    if (tries < YIELDS) {
        sched_yield();
        return;
    }
    long us = 20 + (long)(tries - YIELDS) / 10;
    nanosleep(&(struct timespec){.tv_nsec = 1000 * (us < 200 ? us : 200)}, NULL);
}

bool threads_each(int64_t n, int n_threads, bool (*work)(void *context, int64_t i, Error *error), void *context,
                  Error *error) {
    int64_t bad = n;
#pragma omp parallel for schedule(dynamic) num_threads(n_threads)
    for (int64_t i = 0; i < n; i++) {
        Error why;
        bool ok = work(context, i, &why);
#pragma omp critical(threads_each)
        if (!ok && i < bad) {
            bad = i;
            *error = why;
        }
    }
    return bad == n;
}
