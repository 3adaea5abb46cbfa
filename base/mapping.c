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

/* A mapped file, for the SIGBUS handler. Entries are reused but never freed, because the handler may run at any time.
 * The handler reads an entry only if `begin` is set, so `begin` is set last and cleared first. */
typedef struct Mapping Mapping;
struct Mapping {
    _Atomic(char *) begin; /* NULL: this entry is free */
    char *end, *path;
    Mapping *next;
};

static _Atomic(Mapping *) mappings;
static pthread_mutex_t mappings_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sigaction earlier_action;

static void write_stderr(const char *text) {
    ssize_t unused = write(STDERR_FILENO, text, strlen(text));
    (void)unused;
}

/* Ends the program if a mapped file cannot be read. A signal handler that returns is dangerous (base/stop.c); this one
 * returns only if the address is in no mapping of ours. */
static void handle_sigbus(int number, siginfo_t *info, void *context) {
    char *at = info->si_addr;
    (void)number, (void)context;
    for (Mapping *m = mappings; m; m = m->next) {
        char *begin = m->begin;
        if (!begin || at < begin || at >= m->end) continue;
        write_stderr(program_invocation_short_name);
        write_stderr(": ");
        write_stderr(m->path);
        write_stderr(": became unreadable while the program was using it: the file was truncated, or its disk fails; "
                     "write a new file and rename it to this name\n");
        _exit(1);
    }
    sigaction(SIGBUS, &earlier_action, NULL); /* in no mapping: the read is repeated under the earlier handler */
}

static void install_handler(void) {
    struct sigaction action = {.sa_flags = SA_SIGINFO};
    action.sa_sigaction = handle_sigbus;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &earlier_action);
}

static void add_mapping(const char *path, char *bytes, size_t size) {
    static bool installed;
    pthread_mutex_lock(&mappings_lock);
    if (!installed) install_handler();
    installed = true;
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
    pthread_mutex_unlock(&mappings_lock);
}

/* Reads the file into memory, which file_unmap releases as it does a mapping. */
static bool read_instead(const char *path, void **bytes, size_t size, Error *error) {
    static atomic_flag said = ATOMIC_FLAG_INIT;
    size_t got = 0;
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return error_set(error, "there is no memory for its %zu bytes, which this file system cannot map", size);
    bool ok = read_file_into(path, memory, size, &got, error) && !mprotect(memory, size, PROT_READ);
    if (ok && got != size) ok = error_set(error, "it got shorter while it was read");
    if (ok && !atomic_flag_test_and_set(&said))
        warn("%s: this file system does not map files: they are read into memory", path);
    if (ok)
        *bytes = memory;
    else
        munmap(memory, size);
    return ok;
}

bool file_map(const char *path, void **bytes, size_t *size, Error *error) {
    int fd = file_open(path, size, error);
    if (fd < 0) return false;
    *bytes = *size ? mmap(NULL, *size, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
    int reason = errno;
    close(fd);
    if (!*size) return error_set(error, "the file is empty");
    if (*bytes == MAP_FAILED && reason == ENOMEM)
        return error_set(error, "cannot map its %zu bytes: %s", *size, strerror(reason));
    if (*bytes == MAP_FAILED) return read_instead(path, bytes, *size, error);
    add_mapping(path, *bytes, *size);
    return true;
}

void file_unmap(void *bytes, size_t size) {
    if (!bytes) return;
    pthread_mutex_lock(&mappings_lock);
    for (Mapping *m = mappings; m; m = m->next)
        if (m->begin == (char *)bytes) m->begin = NULL;
    munmap(bytes, size);
    pthread_mutex_unlock(&mappings_lock);
}
