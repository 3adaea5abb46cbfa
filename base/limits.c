#include "base/limits.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/base.h"

enum { MIN_MAIN_STACK = 512 << 10 }; /* bytes; the deepest calls take 310 kB */

/* Runs before main, whose own frame may be too large for the stack. The program's name (AT_EXECFN) lies at the top of
 * the stack, above arguments and environment. */
__attribute__((constructor)) static void check_stack(void) {
    struct rlimit stack;
    uintptr_t top = getauxval(AT_EXECFN), here = (uintptr_t)__builtin_frame_address(0);
    size_t used = top > here ? top - here : 0;
    if (getrlimit(RLIMIT_STACK, &stack) || stack.rlim_cur == RLIM_INFINITY) return;
    if (stack.rlim_cur < used + MIN_MAIN_STACK)
        die("the stack has %zu kB, of which arguments and environment take %zu kB; the program itself needs %d kB: "
            "raise ulimit -s",
            (size_t)stack.rlim_cur >> 10, used >> 10, MIN_MAIN_STACK >> 10);
}

/* Reads the bytes of all mappings and of the writable ones, which RLIMIT_AS and RLIMIT_DATA limit. */
static void count_mapped(size_t *all, size_t *data) {
    char text[256] = "";
    int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    *all = *data = 0; /* if /proc is not mounted */
    if (file < 0) return;
    if (read(file, text, sizeof text - 1) > 0) sscanf(text, "%zu %*u %*u %*u %*u %zu", all, data);
    close(file);
    *all *= page;
    *data *= page;
}

size_t limits_left(const char **limit) {
    size_t used[2], left = SIZE_MAX;
    const struct {
        int resource;
        const char *name;
    } known[] = {{RLIMIT_AS, "ulimit -v"}, {RLIMIT_DATA, "ulimit -d"}};
    *limit = NULL;
    for (int i = 0; i < 2; i++) {
        struct rlimit most;
        if (getrlimit((__rlimit_resource_t)known[i].resource, &most) || most.rlim_cur == RLIM_INFINITY) continue;
        count_mapped(&used[0], &used[1]);
        size_t here = most.rlim_cur > used[i] ? most.rlim_cur - used[i] : 0;
        if (here < left) left = here, *limit = known[i].name;
    }
    return left;
}

void limits_require(size_t bytes, const char *what) {
    const char *limit;
    size_t left = limits_left(&limit);
    if (left < bytes)
        die("%s leaves %.1f MB of memory, and %s may need %.1f MB: raise the limit", limit, (double)left * 1e-6, what,
            (double)bytes * 1e-6);
}

void limits_start(void) {
    const char *limit;
    limits_left(&limit);
    if (limit) mallopt(M_ARENA_MAX, 1);
}
