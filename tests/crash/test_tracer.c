/* The tracer that the crash tests use. */
#include <errno.h>
#include <signal.h>

#include "tests/crash/crash.h"
#include "tests/crash/trace.h"

/* Runs a shell with a fault: it writes ten bytes into a, makes the folder d, and writes ten bytes into b. Returns the
 * contents of the files after it. */
static const char *after(FaultKind kind, int error, int at, int status) {
    static char found[64];
    static const char *const command = "printf 0123456789 >a; mkdir d; printf 0123456789 >b";
    char *root = crash_root(), said[1024];
    const Fault fault = {kind, error, BY_FIRST, at};
    Trace trace = {.status = 0};
    if (!trace_run(root, command, &fault, &trace, said, sizeof said)) fail_msg("%s", said);
    assert_int_equal(trace.status, status);
    assert_true(!trace.hung && trace.reached == (kind != FAULT_NONE));
    run_command(found, sizeof found, "cd %s; for f in a b; do [ -e $f ] && echo $f $(cat $f); done; true", root);
    return found;
}

TEST(the_tracer_injects_every_fault) {
    assert_string_equal(after(FAULT_NONE, 0, 0, 0), "a 0123456789\nb 0123456789\n");
    assert_string_equal(after(FAULT_KILL, 0, 1, 128 + SIGKILL), "");
    assert_string_equal(after(FAULT_KILL, 0, 2, 128 + SIGKILL), "a\n");
    assert_string_equal(after(FAULT_TEAR, 0, 2, 128 + SIGKILL), "a 01234\n");
    assert_string_equal(after(FAULT_FAIL, ENOSPC, 2, 0), "a\nb 0123456789\n");
    assert_string_equal(after(FAULT_BREAK, EIO, 2, 2), "a\n");
}

int main(void) { return crash_tests(); }
