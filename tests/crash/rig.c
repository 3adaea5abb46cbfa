#include <signal.h>
#include <unistd.h>

#include "tests/crash/crash.h"
#include "tests/crash/trace.h"

static char refusal[256]; /* why programs cannot be traced here; "" if they can */

/* Finds out whether programs can be traced, and prints why all tests are skipped if not. Fails the tests instead if a
 * tracer is expected on this machine. */
static int try_tracer(void **state) {
    (void)state;
    const Fault none = {.kind = FAULT_NONE};
    Trace trace = {.status = 0};
    if (trace_run(".", "exit 0", &none, &trace, refusal, sizeof refusal)) refusal[0] = 0;
    if (*refusal) print_message("SKIPPED: programs that are killed at operations on files: %s\n", refusal);
    return 0;
}

static void need_tracer(void) {
    const char *ci = getenv("CI");
#ifdef __x86_64__
    if (*refusal && ci && !strcmp(ci, "true")) fail_msg("%s", refusal);
#endif
    if (*refusal) skip();
}

char *crash_root(void) {
    need_tracer();
    if (!getenv("TMPDIR") && !access("/dev/shm", W_OK)) setenv("TMPDIR", "/dev/shm", 1);
    char *root = kept_folder(), *start = kept_path(root, "start");
    make_directories(start);
    return root;
}

void crash_make(const char *root, const char *command) {
    char said[4096];
    int status = run_command(said, sizeof said, "cd %s && %s", root, command);
    if (status) fail_msg("%s: exit status %d:\n%s", command, status, said);
}

int crash_tests(void) {
    const char *build = getenv("BUILD");
    char *programs = keep(realpath(build ? build : "build/release", NULL));
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1); /* leaks cannot be detected in a traced program */
    setenv("PROGRAMS", programs ? programs : "", 1);
    return tests_run(try_tracer, NULL);
}
