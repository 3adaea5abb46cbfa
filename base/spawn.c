#include "base/spawn.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/stop.h"

static const char STARTED_BY[] = "TRAINC_STARTED_BY", JOB[] = "TRAINC_JOB", SECRET[] = "TRAINC_JOB_SECRET",
                  REQUEST[] = "TRAINC_REQUEST";

static struct {
    pthread_mutex_t lock; /* of processes and signal */
    pid_t *processes;     /* 0: it has ended */
    int *statuses;        /* as of waitpid */
    int n;
    int signal; /* the last that came; 0: none */
    int failed; /* the first process that failed; -1: none */
} started = {.lock = PTHREAD_MUTEX_INITIALIZER, .failed = -1};

/* ---- the variables of a process ---- */

static void set_variable(const char *name, const char *text) {
    if (setenv(name, text, 1)) die("the variable %s cannot be set: %s", name, strerror(errno));
}

static void set_number(const char *name, int number) {
    char text[16];
    snprintf(text, sizeof text, "%d", number);
    set_variable(name, text);
}

/* Sets a variable to 32 random hexadecimal digits. */
static void set_random(const char *name) {
    uint8_t random[16];
    char text[2 * sizeof random + 1];
    if (syscall(SYS_getrandom, random, sizeof random, 0) != sizeof random)
        die("no random numbers: getrandom: %s", strerror(errno));
    for (size_t i = 0; i < sizeof random; i++) sprintf(text + 2 * i, "%02x", random[i]);
    set_variable(name, text);
}

/* Returns a port of 127.0.0.1 that no process listens on now. */
static int free_port(void) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (file < 0 || bind(file, (struct sockaddr *)&at, size) || getsockname(file, (struct sockaddr *)&at, &size))
        die("--gpus: no port of 127.0.0.1 is free for the processes to meet: %s", strerror(errno));
    close(file);
    return ntohs(at.sin_port);
}

/* Sets the variables that all processes of a job share. */
static void set_shared(const SpawnJob *job) {
    const LaunchNodes *nodes = &job->nodes;
    char by[96] = "--gpus";
    const char *secret = getenv(SECRET);
    if (nodes->count > 1) snprintf(by, sizeof by, "--gpus on %d nodes of %s", nodes->count, nodes->launcher);
    set_variable(STARTED_BY, by);
    set_number("WORLD_SIZE", nodes->count * job->count);
    set_number("LOCAL_WORLD_SIZE", job->count);
    unsetenv("TORCHELASTIC_USE_AGENT_STORE");
    set_variable("MASTER_ADDR", nodes->count > 1 ? nodes->address : "127.0.0.1");
    set_number("MASTER_PORT", nodes->count > 1 ? nodes->port : free_port());
    if (nodes->count > 1)
        set_variable(JOB, nodes->job);
    else
        set_random(JOB);
    if (nodes->count == 1 && !(secret && *secret)) set_random(SECRET);
    if (job->cards) set_variable("CUDA_VISIBLE_DEVICES", job->cards);
}

static void set_own(const SpawnJob *job, int local) {
    set_number("RANK", job->nodes.node * job->count + local);
    set_number("LOCAL_RANK", local);
}

void spawn_set_variables(const SpawnJob *job, int local) {
    set_shared(job);
    set_own(job, local);
}

/* ---- arguments ---- */

/* Texts, one behind the other, each with its final zero. */
typedef struct {
    char *at;
    size_t n;
} Texts;

/* Returns the arguments that this program was started with. */
static Texts read_arguments(void) {
    Bytes bytes = {0};
    char part[4096];
    ssize_t n = -1;
    int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    while (file >= 0 && (n = read(file, part, sizeof part)) > 0) bytes_add(&bytes, part, (size_t)n);
    if (n < 0 || !bytes.n) die("--gpus: the arguments cannot be read: /proc/self/cmdline: %s", strerror(errno));
    close(file);
    return (Texts){bytes.at, bytes.n};
}

/* A list of arguments that grows; NULL is behind the last. */
typedef struct {
    char **at;
    size_t n;
} Arguments;

static void add_argument(Arguments *to, char *text) {
    to->at = xgrow(to->at, to->n, sizeof *to->at);
    to->at[to->n++] = text;
}

static void add_arguments(Arguments *to, Texts texts) {
    for (char *at = texts.at; at < texts.at + texts.n; at += strlen(at) + 1) add_argument(to, at);
}

/* ---- processes ---- */

/* Becomes the program. Calls nothing that a process with several threads may not call after fork. */
static _Noreturn void become(char *const *arguments, int local, pid_t parent, int request) {
    static const char message[] = "--gpus: the program cannot be started again: /proc/self/exe\n";
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(128 + SIGTERM);
    if (local) {
        int nothing = open("/dev/null", O_RDONLY);
        if (nothing >= 0) dup2(nothing, STDIN_FILENO);
        if (nothing > STDIN_FILENO) close(nothing);
    }
    if (request >= 0) fcntl(request, F_SETFD, 0);
    execv("/proc/self/exe", arguments);
    ssize_t unused = write(STDERR_FILENO, message, sizeof message - 1);
    (void)unused;
    _exit(127);
}

/* Passes a signal on. The terminal has sent Ctrl-C to all processes. */
static void pass_on(int number, bool by_terminal) {
    pthread_mutex_lock(&started.lock);
    started.signal = number;
    for (int i = 0; i < started.n && !(by_terminal && number == SIGINT); i++)
        if (started.processes[i]) kill(started.processes[i], number);
    pthread_mutex_unlock(&started.lock);
}

/* Starts all, before a signal is passed on. */
static void start(const SpawnJob *job, char *const *arguments, int request) {
    const pid_t parent = getpid();
    pthread_mutex_lock(&started.lock);
    if (started.signal) stop_end(started.signal);
    FREE(started.processes, started.statuses);
    started.processes = xcalloc((size_t)job->count, sizeof *started.processes);
    started.statuses = xcalloc((size_t)job->count, sizeof *started.statuses);
    started.failed = -1;
    set_shared(job);
    if (request >= 0)
        set_number(REQUEST, request);
    else
        unsetenv(REQUEST);
    for (started.n = 0; started.n < job->count; started.n++) {
        set_own(job, started.n);
        pid_t process = fork();
        if (!process) become(arguments, started.n, parent, request);
        if (process < 0) die("--gpus: process %d of %d cannot be started: %s", started.n, job->count, strerror(errno));
        started.processes[started.n] = process;
    }
    pthread_mutex_unlock(&started.lock);
}

/* Waits until all have ended. */
static void wait_for_all(void) {
    for (int left = started.n; left;) {
        siginfo_t ended;
        int i = 0, status = 0;
        if (waitid(P_ALL, 0, &ended, WEXITED | WNOWAIT)) {
            if (errno != EINTR) die("--gpus: cannot wait for the processes: %s", strerror(errno));
            continue;
        }
        pthread_mutex_lock(&started.lock); /* its number is another's after waitpid */
        waitpid(ended.si_pid, &status, 0);
        while (i < started.n && started.processes[i] != ended.si_pid) i++;
        if (i < started.n) {
            started.processes[i] = 0;
            started.statuses[i] = status;
            left--;
            if (status && started.failed < 0) started.failed = i;
        }
        pthread_mutex_unlock(&started.lock);
    }
}

/* Ends this process as it was killed. */
static _Noreturn void end_by_signal(const SpawnJob *job, int local) {
    int number = WTERMSIG(started.statuses[local]), rank = job->nodes.node * job->count + local;
    bool stops = number == SIGINT || number == SIGTERM || number == SIGHUP;
    if (!(stops && started.signal))
        fprintf(stderr, "%s: rank %d %s signal %d (%s)\n", program_invocation_short_name, rank,
                stops ? "has ended by" : "was killed by", number, strsignal(number));
    if (stops) stop_end(number);
    exit(128 + number);
}

static _Noreturn void end(const SpawnJob *job) {
    if (started.failed < 0) exit(0);
    if (WIFSIGNALED(started.statuses[started.failed])) end_by_signal(job, started.failed);
    if (WIFSIGNALED(started.statuses[0])) end_by_signal(job, 0);
    int status = WEXITSTATUS(started.statuses[0]);
    exit(status ? status : WEXITSTATUS(started.statuses[started.failed]));
}

/* ---- again ---- */

bool spawn_is_child(void) {
    const char *by = getenv(STARTED_BY);
    return by && *by;
}

/* Returns the file to which a request is written; -1: none may be made. */
static int request_file(void) {
    const char *text = getenv(REQUEST);
    struct stat status;
    int file = text && *text ? atoi(text) : -1;
    return file > STDERR_FILENO && !fstat(file, &status) && S_ISFIFO(status.st_mode) ? file : -1;
}

bool spawn_may_ask(void) { return request_file() >= 0; }

bool spawn_again(int count, const char *const *options) {
    Launch launch;
    char request[PIPE_BUF]; /* so many bytes arrive as a whole */
    size_t n = (size_t)snprintf(request, sizeof request, "%d", count) + 1;
    int file = request_file();
    if (file < 0 || !launch_read(&launch, NULL)) return false;
    for (; *options; options++) {
        size_t size = strlen(*options) + 1;
        if (n + size > sizeof request) return false;
        memcpy(request + n, *options, size);
        n += size;
    }
    return launch.local_rank || write(file, request, n) == (ssize_t)n;
}

/* Reads the request of processes that have all ended with SPAWN_AGAIN. Returns false if there is none. */
static bool read_request(int file, Texts *request) {
    for (int i = 0; i < started.n; i++)
        if (!WIFEXITED(started.statuses[i]) || WEXITSTATUS(started.statuses[i]) != SPAWN_AGAIN) return false;
    request->at = xcalloc(1, PIPE_BUF);
    ssize_t n = read(file, request->at, PIPE_BUF);
    request->n = n > 0 ? (size_t)n : 0;
    return n > 0;
}

/* Says with which options the processes start again. */
static void print_request(Texts request) {
    printf("[Ranks] starting again: --gpus");
    for (const char *at = request.at; at < request.at + request.n; at += strlen(at) + 1) {
        OWNED char *word = shell_word(at);
        printf(" %s", word);
    }
    printf("\n");
}

_Noreturn void spawn_job(const SpawnJob *job) {
    static char option[] = "--gpus";
    Arguments first = {0}, next = {0};
    Texts given = read_arguments(), request;
    SpawnJob again = *job;
    int ends[2] = {-1, -1};
    if (job->may_ask && pipe2(ends, O_CLOEXEC | O_NONBLOCK)) die("--gpus: no pipe: %s", strerror(errno));
    add_arguments(&first, given);
    add_argument(&first, NULL);
    fflush(NULL);
    stop_take(pass_on);
    start(job, first.at, ends[1]);
    wait_for_all();
    if (!job->may_ask || !read_request(ends[0], &request)) end(job);
    again.count = atoi(request.at);
    print_request(request);
    add_arguments(&next, given);
    add_argument(&next, option);
    add_arguments(&next, request); /* the number, and the options */
    add_argument(&next, NULL);
    fflush(NULL);
    start(&again, next.at, -1);
    FREE(first.at, next.at, given.at, request.at);
    wait_for_all();
    end(&again);
}
