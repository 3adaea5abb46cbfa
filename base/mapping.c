#include "base/mapping.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"

/* A mapping that the handler of SIGBUS knows. Entries are used again, but never freed: the handler may come at any
 * time. It reads `path` of an entry only if `begin` is set, which is set last and cleared first. */
typedef struct Mapping Mapping;
struct Mapping {
    _Atomic(char *) begin; /* NULL: this entry is free */
    char *end, *path;
    Mapping *next;
};

static _Atomic(Mapping *) mappings;
static pthread_mutex_t changing = PTHREAD_MUTEX_INITIALIZER;
static struct sigaction before;

static void put(const char *text) {
    ssize_t unused = write(STDERR_FILENO, text, strlen(text));
    (void)unused;
}

/* Runs on the thread that read, and never returns to it; so nothing is to be feared of a handler on a thread that
 * computes (base/stop.c). */
static void end_of_reading(int number, siginfo_t *info, void *context) {
    char *at = info->si_addr;
    (void)number, (void)context;
    for (Mapping *m = mappings; m; m = m->next) {
        char *begin = m->begin;
        if (!begin || at < begin || at >= m->end) continue;
        put(program_invocation_short_name);
        put(": ");
        put(m->path);
        put(": cannot be read any more, after it was opened: it was cut off, or its disk fails; write it again whole, "
            "by renaming a new file to this name\n");
        _exit(1);
    }
    sigaction(SIGBUS, &before, NULL); /* not ours: the read is tried again, and signals as it would have */
}

static void watch(void) {
    struct sigaction action = {.sa_flags = SA_SIGINFO};
    action.sa_sigaction = end_of_reading;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &before);
}

static void remember(const char *path, char *bytes, size_t size) {
    static bool watched;
    pthread_mutex_lock(&changing);
    if (!watched) watch();
    watched = true;
    Mapping *m = mappings;
    while (m && m->begin) m = m->next;
    bool is_new = !m;
    if (is_new) m = xcalloc(1, sizeof *m);
    free(m->path);
    m->path = xstrdup(path);
    m->end = bytes + size;
    m->begin = bytes;
    if (is_new) {
        m->next = mappings;
        mappings = m;
    }
    pthread_mutex_unlock(&changing);
}

bool file_map(const char *path, void **bytes, size_t *size, Error *error) {
    int fd = file_open(path, size, error);
    if (fd < 0) return false;
    *bytes = *size ? mmap(NULL, *size, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
    int reason = errno;
    close(fd);
    if (!*size) return error_set(error, "the file is empty");
    if (*bytes == MAP_FAILED) return error_set(error, "cannot map its %zu bytes: %s", *size, strerror(reason));
    remember(path, *bytes, *size);
    return true;
}

void file_unmap(void *bytes, size_t size) {
    if (!bytes) return;
    pthread_mutex_lock(&changing);
    for (Mapping *m = mappings; m; m = m->next)
        if (m->begin == (char *)bytes) m->begin = NULL;
    munmap(bytes, size);
    pthread_mutex_unlock(&changing);
}
