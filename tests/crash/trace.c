#include "tests/crash/trace.h"

#include <stdio.h>

#ifdef __x86_64__ /* the only processor whose registers are read here */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

/* The arguments by which a system call names its file: a descriptor, a path, or a path relative to a descriptor; -1 if
 * it has none. */
typedef struct {
    int number;
    const char *name;
    int descriptor, path; /* arguments */
    int flags;            /* of open */
    int bytes;            /* the argument with the number of bytes to write */
    bool takes_room;
} Call;

static const Call calls[] = {
    {SYS_write, "write", 0, -1, -1, 2, true},
    {SYS_pwrite64, "write", 0, -1, -1, 2, true},
    {SYS_writev, "write", 0, -1, -1, -1, true},
    {SYS_pwritev, "write", 0, -1, -1, -1, true},
    {SYS_sendfile, "write", 0, -1, -1, -1, true},
    {SYS_copy_file_range, "write", 2, -1, -1, -1, true},
    {SYS_open, "open", -1, 0, 1, -1, true},
    {SYS_openat, "open", 0, 1, 2, -1, true},
    {SYS_creat, "open", -1, 0, -1, -1, true},
    {SYS_mkdir, "mkdir", -1, 0, -1, -1, true},
    {SYS_mkdirat, "mkdir", 0, 1, -1, -1, true},
    {SYS_symlink, "symlink", -1, 1, -1, -1, true},
    {SYS_symlinkat, "symlink", 1, 2, -1, -1, true},
    {SYS_link, "link", -1, 1, -1, -1, true},
    {SYS_linkat, "link", 2, 3, -1, -1, true},
    {SYS_fallocate, "fallocate", 0, -1, -1, -1, true},
    {SYS_ftruncate, "truncate", 0, -1, -1, -1, false},
    {SYS_truncate, "truncate", -1, 0, -1, -1, false},
    {SYS_fsync, "fsync", 0, -1, -1, -1, false},
    {SYS_fdatasync, "fsync", 0, -1, -1, -1, false},
    {SYS_rename, "rename", -1, 0, -1, -1, false},
    {SYS_renameat, "rename", 0, 1, -1, -1, false},
    {SYS_renameat2, "rename", 0, 1, -1, -1, false},
    {SYS_unlink, "unlink", -1, 0, -1, -1, false},
    {SYS_unlinkat, "unlink", 0, 1, -1, -1, false},
    {SYS_rmdir, "rmdir", -1, 0, -1, -1, false},
};
enum { N_CALLS = sizeof calls / sizeof *calls };

/* ---- the child ---- */

static bool install_filter(void) {
    struct sock_filter filter[2 * N_CALLS + 2];
    unsigned short n = 0;
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < N_CALLS; i++) {
        filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i].number, 0, 1);
        filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE | (unsigned)i);
    }
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {n, filter};
    return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* Waits for a byte from `start`, which the tracer sends when it is ready. */
_Noreturn static void become(const char *directory, const char *command, int start, int output) {
    char byte;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(open("/dev/null", O_RDONLY), 0);
    dup2(output, 1);
    dup2(output, 2);
    if (read(start, &byte, 1) != 1 || chdir(directory) || !install_filter()) _exit(126);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
}

/* ---- the tracer ---- */

typedef struct {
    pid_t child;
    size_t prefix; /* of `root` */
    char root[PATH_MAX];
    const Fault *fault;
    Trace *trace;
    bool broken, killed; /* by FAULT_BREAK; or being so */
    int n_events;
    char last[ACTORS][PATH_MAX]; /* the file that was written last, then how often in a row */
    int in_a_row[ACTORS];
} Tracer;

static volatile sig_atomic_t timed_out;
static void on_alarm(int signal) { timed_out = signal; }

/* Sets the seconds after which a command counts as hanging; 0 turns the alarm off. The alarm repeats, because a single
 * one just before a wait would be lost. */
static void set_alarm(int seconds) {
    struct sigaction alarmed = {.sa_handler = on_alarm};
    const struct itimerval timer = {.it_value.tv_sec = seconds, .it_interval.tv_sec = seconds ? 1 : 0};
    if (seconds) timed_out = 0;
    sigaction(SIGALRM, &alarmed, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
}

static unsigned long long argument(const struct user_regs_struct *r, int i) {
    const unsigned long long all[] = {r->rdi, r->rsi, r->rdx, r->r10, r->r8, r->r9};
    return all[i];
}

/* Reads a path from the memory of a thread; "" if that fails. */
static void read_path(pid_t thread, unsigned long long address, char path[PATH_MAX]) {
    char memory[64];
    snprintf(memory, sizeof memory, "/proc/%d/mem", (int)thread);
    int file = open(memory, O_RDONLY | O_CLOEXEC);
    ssize_t n = file < 0 ? -1 : pread(file, path, PATH_MAX - 1, (off_t)address);
    path[n < 0 ? 0 : n] = 0;
    close(file);
}

static void read_descriptor(pid_t thread, int descriptor, char path[PATH_MAX]) {
    char link[64];
    if (descriptor == AT_FDCWD)
        snprintf(link, sizeof link, "/proc/%d/cwd", (int)thread);
    else
        snprintf(link, sizeof link, "/proc/%d/fd/%d", (int)thread, descriptor);
    ssize_t n = readlink(link, path, PATH_MAX - 1);
    path[n < 0 ? 0 : n] = 0;
}

/* Writes the path of the file of a call, relative to the root. Returns false if the file lies elsewhere. */
static bool find_file(const Tracer *t, pid_t thread, const Call *call, const struct user_regs_struct *r,
                      char file[PATH_MAX]) {
    char given[PATH_MAX] = "", all[2 * PATH_MAX + 1];
    if (call->path >= 0) read_path(thread, argument(r, call->path), given);
    if (given[0] == '/') {
        strcpy(all, given);
    } else {
        read_descriptor(thread, call->descriptor >= 0 ? (int)argument(r, call->descriptor) : AT_FDCWD, all);
        if (*given) strcat(strcat(all, "/"), given);
    }
    if (strncmp(all, t->root, t->prefix) || (all[t->prefix] != '/' && all[t->prefix])) return false;
    snprintf(file, PATH_MAX, "%s", all[t->prefix] ? all + t->prefix + 1 : ".");
    return true;
}

/* Returns whether a call changes files. Reading, making an existing folder and removing a missing file do not. */
static bool changes(const Tracer *t, const Call *call, const struct user_regs_struct *r, const char *file) {
    char path[2 * PATH_MAX];
    struct stat status;
    if (call->flags >= 0 && !(argument(r, call->flags) & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC))) return false;
    snprintf(path, sizeof path, "%s/%s", t->root, file);
    bool there = !lstat(path, &status);
    if (!strcmp(call->name, "mkdir")) return !there;
    if (!strcmp(call->name, "open") && there && S_ISDIR(status.st_mode)) return false;
    return there || strcmp(call->name, "unlink") != 0;
}

/* Returns whether to ignore a repeated operation. A repetition counts only a few times: a number for TensorBoard, a
 * piece of a large file. */
static bool is_repetition(Tracer *t, Actor actor, const Call *call, const char *file) {
    enum { ENOUGH = 3 };
    bool again = !strcmp(call->name, "write") && !strcmp(file, t->last[actor]);
    t->in_a_row[actor] = again ? t->in_a_row[actor] + 1 : 1;
    snprintf(t->last[actor], PATH_MAX, "%s", strcmp(call->name, "write") ? "" : file);
    return t->in_a_row[actor] > ENOUGH || (strstr(file, "tfevents") && ++t->n_events > ENOUGH);
}

static void kill_all(Tracer *t) {
    t->killed = true;
    kill(-t->child, SIGKILL);
}

/* Skips a system call, which returns -error. */
static void skip_call(pid_t thread, struct user_regs_struct *r, int error) {
    r->orig_rax = (unsigned long long)-1;
    r->rax = (unsigned long long)-error;
    ptrace(PTRACE_SETREGS, thread, NULL, r);
}

static bool is_hit(const Tracer *t, Actor actor, int at, const Operation *op) {
    const Fault *f = t->fault;
    bool room = f->error != ENOSPC || op->takes_room;
    return (t->broken && room) || (f->kind != FAULT_NONE && f->actor == actor && f->at == at);
}

/* Returns how the thread continues: PTRACE_CONT, or PTRACE_SYSCALL to stop it again after the call. */
static int at_call(Tracer *t, pid_t thread, const Call *call) {
    struct user_regs_struct r;
    char file[PATH_MAX];
    if (t->killed || ptrace(PTRACE_GETREGS, thread, NULL, &r)) return PTRACE_CONT;
    if (!find_file(t, thread, call, &r, file) || !changes(t, call, &r, file)) return PTRACE_CONT;
    Actor actor = thread == t->child ? BY_FIRST : BY_OTHERS;
    int at = is_repetition(t, actor, call, file) ? 0 : ++t->trace->counts[actor];
    Operation op = {.takes_room = call->takes_room, .writes = call->bytes >= 0 && argument(&r, call->bytes) > 1};
    snprintf(op.name, sizeof op.name, "%s %.140s", call->name, file);
    if (at && t->trace->operations[actor] && at <= MOST_OPERATIONS) t->trace->operations[actor][at - 1] = op;
    if (!is_hit(t, actor, at, &op)) return PTRACE_CONT;
    t->trace->reached = true;
    if (t->fault->kind == FAULT_TEAR) {
        r.rdx /= 2; /* of write and pwrite */
        ptrace(PTRACE_SETREGS, thread, NULL, &r);
        return PTRACE_SYSCALL;
    }
    skip_call(thread, &r, t->fault->error);
    if (t->fault->kind == FAULT_KILL) kill_all(t);
    t->broken = t->fault->kind == FAULT_BREAK;
    return PTRACE_CONT;
}

static void at_stop(Tracer *t, pid_t thread, int status) {
    int event = status >> 16, signal = WSTOPSIG(status), request = PTRACE_CONT;
    unsigned long data = 0;
    if (event == PTRACE_EVENT_SECCOMP) {
        ptrace(PTRACE_GETEVENTMSG, thread, NULL, &data);
        request = at_call(t, thread, &calls[data % N_CALLS]);
        signal = 0;
    } else if (signal == (SIGTRAP | 0x80)) { /* half of the bytes are written */
        kill_all(t);
        signal = 0;
    } else if (event) {
        signal = 0;
    }
    ptrace(request, thread, NULL, (void *)(long)signal);
}

static void follow(Tracer *t) {
    for (;;) {
        int status;
        pid_t thread = waitpid(-1, &status, __WALL);
        if (thread < 0 && errno == ECHILD) return;
        if (timed_out && !t->killed) {
            t->trace->hung = true;
            kill_all(t);
        }
        if (thread < 0) continue;
        if (WIFSTOPPED(status))
            at_stop(t, thread, status);
        else if (thread == t->child)
            t->trace->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
}

bool trace_run(const char *directory, const char *command, const Fault *fault, Trace *trace, char *output,
               size_t size) {
    static const long options = PTRACE_O_EXITKILL | PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |
                                PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD;
    Tracer t = {.fault = fault, .trace = trace};
    int start[2];
    FILE *said = tmpfile();
    if (!realpath(directory, t.root) || !said || pipe2(start, O_CLOEXEC)) {
        snprintf(output, size, "%s: %s", directory, strerror(errno));
        return false;
    }
    t.prefix = strlen(t.root);
    trace->counts[BY_FIRST] = trace->counts[BY_OTHERS] = trace->status = 0;
    trace->reached = trace->hung = false;
    fflush(NULL);
    t.child = fork();
    if (!t.child) {
        close(start[1]);
        become(directory, command, start[0], fileno(said));
    }
    bool traced = t.child > 0 && !ptrace(PTRACE_SEIZE, t.child, NULL, options);
    if (!traced) snprintf(output, size, "this machine does not let a process trace its child: %s", strerror(errno));
    set_alarm(MOST_SECONDS);
    if (traced && write(start[1], "", 1) != 1) kill_all(&t);
    close(start[0]);
    close(start[1]);
    follow(&t);
    set_alarm(0);
    if (traced) {
        rewind(said);
        output[fread(output, 1, size - 1, said)] = 0;
    }
    fclose(said);
    return traced;
}

#else

bool trace_run(const char *directory, const char *command, const Fault *fault, Trace *trace, char *output,
               size_t size) {
    (void)directory, (void)command, (void)fault, (void)trace;
    snprintf(output, size, "the tracer reads the registers of x86-64, and this is another processor");
    return false;
}

#endif
