#include "tests/crash/crash.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>

#include "checkpoint/folder.h"
#include "tests/crash/trace.h"
#include "tests/helpers.h"

enum { WORKERS = 2, MOST_POINTS = 6 * ACTORS * MOST_OPERATIONS };

typedef struct {
    const CrashRun *run;
    const char *root; /* has start/, reference/ and a folder for each fault point */
    Operation operations[ACTORS][MOST_OPERATIONS];
    int counts[ACTORS];
    Fault points[MOST_POINTS];
    int n;
    bool missed[MOST_POINTS]; /* the point was never reached */
    atomic_int next, bad;     /* next point to begin; number of failed points */
} Campaign;

static const struct {
    const char *name;
    FaultKind kind;
    int error;
} faults[] = {{"kill", FAULT_KILL, 0},
              {"tear", FAULT_TEAR, 0},
              {"fail-ENOSPC", FAULT_FAIL, ENOSPC},
              {"fail-EIO", FAULT_FAIL, EIO},
              {"break-ENOSPC", FAULT_BREAK, ENOSPC},
              {"break-EIO", FAULT_BREAK, EIO}};
enum { N_FAULTS = sizeof faults / sizeof *faults };

static const Operation *operation_of(const Campaign *c, const Fault *f) { return &c->operations[f->actor][f->at - 1]; }

/* Returns the name of a fault point, such as "o17.kill"; free(). */
static char *name_of(const Fault *f) {
    int i = 0;
    while (faults[i].kind != f->kind || faults[i].error != f->error) i++;
    return xformat("%s%d.%s", f->actor == BY_FIRST ? "f" : "o", f->at, faults[i].name);
}

/* ---- one run ---- */

static void begin(const Campaign *c, const char *folder) {
    char *command = xformat("cp -a '%s/start' '%s/%s'", c->root, c->root, folder);
    if (system(command)) die("%s", command);
    free(command);
}

static bool run_in(const Campaign *c, const char *folder, const Fault *fault, Trace *trace, char *said, size_t size) {
    char *directory = path_join(c->root, folder);
    bool traced = trace_run(directory, c->run->command, fault, trace, said, size);
    free(directory);
    return traced;
}

static bool same_as_reference(const Campaign *c, const char *folder, bool allow_more, Error *error) {
    char *want = path_join(c->root, "reference"), *got = path_join(c->root, folder);
    bool same = crash_same_tree(want, got, allow_more, error);
    free(want);
    free(got);
    return same;
}

/* Returns the end of the output of a program. */
static const char *end_of(const char *said) {
    enum { ENOUGH = 300 };
    size_t n = strlen(said);
    return n > ENOUGH ? said + n - ENOUGH : said;
}

/* A run with a failed operation either continues, or prints what failed and ends with an error. */
static bool takes_failure(const Campaign *c, const char *folder, const Fault *fault, const Trace *trace,
                          const char *said, Error *error) {
    Error why;
    if (trace->status >= 128) return error_set(error, "died of signal %d: %s", trace->status - 128, end_of(said));
    if (trace->status && !strstr(said, strerror(fault->error)) && !strstr(said, "disk full"))
        return error_set(error, "exit status %d without the reason: %s", trace->status, end_of(said));
    if (!trace->status && !same_as_reference(c, folder, strstr(said, "warning:") != NULL, &why))
        return error_set(error, "exit status 0, but %.300s", why.text);
    return true;
}

/* Runs the command with a fault, then again without. Returns false, with the reason, if the result is wrong. */
static bool survives(Campaign *c, const char *folder, const Fault *fault, Error *error) {
    static char said[1 << 16];
    const Fault none = {.kind = FAULT_NONE};
    Trace trace = {.status = 0};
    Error why;
    begin(c, folder);
    if (!run_in(c, folder, fault, &trace, said, sizeof said)) return error_set(error, "%s", said);
    if (trace.hung) return error_set(error, "hangs: %s", end_of(said));
    c->missed[fault - c->points] = !trace.reached;
    if (fault->error && !takes_failure(c, folder, fault, &trace, said, error)) return false;
    if (!run_in(c, folder, &none, &trace, said, sizeof said)) return error_set(error, "%s", said);
    bool refused = trace.status == 1 && c->run->done && strstr(said, c->run->done);
    if (trace.hung || (trace.status && !refused))
        return error_set(error, "run again: exit status %d: %s", trace.status, end_of(said));
    return same_as_reference(c, folder, false, &why) || error_set(error, "run again: %.400s", why.text);
}

/* ---- all fault points ---- */

/* Returns whether a fault is possible at this operation. */
static bool applies(const Operation *op, int fault) {
    if (faults[fault].kind == FAULT_TEAR) return op->writes;
    return faults[fault].error != ENOSPC || op->takes_room;
}

/* Returns whether to skip an operation on a report. One function writes all reports, so every third operation is
 * enough. Files that a later run reads are never skipped. */
static bool is_left_out(const Campaign *c, const Operation *op, int *n_alike) {
    const char *pattern = c->run->alike, *file = strchr(op->name, ' ') + 1;
    return pattern && !fnmatch(pattern, file, FNM_EXTMATCH) && ++*n_alike % 3 != 0;
}

static void add_point(Campaign *c, int fault, Actor actor, int at) {
    const char *only = getenv("CRASH_POINT");
    Fault f = {faults[fault].kind, faults[fault].error, actor, at};
    char *name = name_of(&f);
    if (!only || !strcmp(only, name)) c->points[c->n++] = f;
    free(name);
}

/* Lists every fault at every operation (stride 1), or alternating faults at every `stride`th operation; `turn` chooses
 * the first operation and its fault. */
static void list_points(Campaign *c, int stride, int turn) {
    int n_alike = 0;
    for (Actor actor = 0; actor < ACTORS; actor++)
        for (int at = 1; at <= c->counts[actor]; at++) {
            const Operation *op = &c->operations[actor][at - 1];
            if (is_left_out(c, op, &n_alike)) continue;
            for (int i = 0; i < N_FAULTS && stride == 1; i++)
                if (applies(op, i)) add_point(c, i, actor, at);
            if (stride == 1 || turn++ % stride) continue;
            int fault = turn / stride % N_FAULTS;
            while (!applies(op, fault)) fault = (fault + 1) % N_FAULTS;
            add_point(c, fault, actor, at);
        }
}

static void work(Campaign *c) {
    for (int i; (i = c->next++) < c->n;) {
        Error error;
        const Fault *fault = &c->points[i];
        char *folder = name_of(fault), *all = path_join(c->root, folder);
        if (!survives(c, folder, fault, &error)) {
            for (char *end; (end = strchr(error.text, '\n'));) *end = ' ';
            print_error("%s (%s): %s\n", folder, operation_of(c, fault)->name, error.text);
            c->bad++;
        }
        char *remove = xformat("rm -rf '%s'", all);
        if (getenv("CRASH_POINT"))
            print_message("%s stays\n", all);
        else if (system(remove))
            print_error("cannot remove %s\n", all);
        free(remove);
        free(folder);
        free(all);
    }
}

/* Runs the command without a fault. All other runs are compared with this one, and it lists the operations. */
static void make_reference(Campaign *c) {
    static char said[1 << 16];
    const Fault none = {.kind = FAULT_NONE};
    Trace trace = {.operations = {c->operations[BY_FIRST], c->operations[BY_OTHERS]}};
    begin(c, "reference");
    if (!run_in(c, "reference", &none, &trace, said, sizeof said)) fail_msg("%s", said);
    if (trace.status || trace.hung) fail_msg("exit status %d:\n%s", trace.status, said);
    for (Actor actor = 0; actor < ACTORS; actor++) {
        c->counts[actor] = trace.counts[actor];
        assert_true(trace.counts[actor] <= MOST_OPERATIONS);
    }
}

/* Checks that the best checkpoint of the reference run is the right one, and is not the last checkpoint. */
static void check_best(const Campaign *c) {
    char *path = xformat("%s/reference/%s", c->root, c->run->log), *text = read_text(path);
    char *run = path_directory(path), step[64];
    StepName links[2];
    bool highest = c->run->lowest[0] == '-';
    double decisive = INFINITY;
    json_int_t at = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        json_t *record = json_loads(line, 0, NULL), *value = json_object_get(record, c->run->lowest + highest);
        double number = value ? json_number_value(value) * (highest ? -1 : 1) : INFINITY;
        if (value && getenv("CRASH_POINT")) print_message("%s %g\n", c->run->lowest, number);
        if (number < decisive) at = json_integer_value(json_object_get(record, "step"));
        if (number < decisive) decisive = number;
        json_decref(record);
    }
    snprintf(step, sizeof step, "step_%08lld", (long long)at);
    folder_link(run, "best", links[0]);
    folder_link(run, "last", links[1]);
    assert_string_equal(links[0], step);
    assert_string_not_equal(links[0], links[1]);
    char *owned[] = {path, text, run};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) free(owned[i]);
}

static void list_operations(const Campaign *c) {
    for (Actor actor = 0; actor < ACTORS; actor++)
        for (int i = 0; i < c->counts[actor]; i++)
            print_message("%s%d %s\n", actor == BY_FIRST ? "f" : "o", i + 1, c->operations[actor][i].name);
}

/* Fails if a fault point of the first thread was not reached, because this thread does the same in every run.
 * Operations of other threads depend on scheduling: their order may differ, and some may not happen before the end. */
static void check_missed(const Campaign *c) {
    int missed[ACTORS] = {0}, all[ACTORS] = {0};
    for (int i = 0; i < c->n; i++) {
        const Fault *f = &c->points[i];
        char *name = name_of(f);
        all[f->actor]++;
        missed[f->actor] += c->missed[i];
        if (c->missed[i]) print_message("%s (%s) did not come\n", name, operation_of(c, f)->name);
        free(name);
    }
    print_message("%d points; %d of their operations did not come\n", c->n, missed[BY_FIRST] + missed[BY_OTHERS]);
    if (missed[BY_FIRST]) fail_msg("%d operations of the first thread did not come", missed[BY_FIRST]);
    if (20 * missed[BY_OTHERS] > all[BY_OTHERS]) fail_msg("too few points were reached: the runs differ too much");
}

void crash_at_every(const char *root, const CrashRun *run) {
    const char *stride = getenv("CRASH_STRIDE"), *turn = getenv("CRASH_TURN"), *point = getenv("CRASH_POINT");
    Campaign *c = mmap(NULL, sizeof *c, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(c != MAP_FAILED);
    c->run = run;
    c->root = root;
    make_reference(c);
    if (point) list_operations(c);
    if (run->log) check_best(c);
    int every = point ? 1 : stride ? atoi(stride) : 30, operations = c->counts[BY_FIRST] + c->counts[BY_OTHERS];
    if (every > 2 && every > operations / 6) every = operations / 6 > 2 ? operations / 6 : 2;
    list_points(c, every, turn ? atoi(turn) : 0);
    pid_t workers[WORKERS];
    fflush(NULL);
    for (int i = 0; i < WORKERS; i++)
        if (!(workers[i] = fork())) {
            work(c);
            fflush(NULL);
            _exit(0);
        }
    int failed = 0;
    for (int i = 0, status; i < WORKERS; i++) failed |= waitpid(workers[i], &status, 0) != workers[i] || status;
    if (c->bad || failed) fail_msg("%d of %d points went wrong", (int)c->bad, c->n);
    check_missed(c);
    munmap(c, sizeof *c);
}
