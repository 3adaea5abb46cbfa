#include "tests/helpers.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "checkpoint/folder.h"

enum { MOST_SCRATCH = 256 };
static char *scratch[MOST_SCRATCH];
static int n_scratch;
static pid_t owner;

static void remove_scratch(void) {
    if (getpid() != owner) return;
    for (int i = 0; i < n_scratch; i++) {
        char *command = xformat("chmod -R u+w '%s' 2>/dev/null; rm -rf '%s'", scratch[i], scratch[i]);
        if (system(command)) fprintf(stderr, "cannot remove %s\n", scratch[i]);
        free(command);
        free(scratch[i]);
    }
}

__attribute__((constructor)) void choose_tests(void) {
    const char *filter = getenv("TEST_FILTER");
    if (filter && *filter) cmocka_set_test_filter(filter);
}

const char *run_directory(void) {
    const char *root = getenv("TMPDIR");
    char *path = xformat("%s/trainc_test_XXXXXX", root ? root : "/tmp");
    assert_non_null(mkdtemp(path));
    if (!n_scratch) {
        owner = getpid();
        atexit(remove_scratch);
    }
    assert_true(n_scratch < MOST_SCRATCH);
    return scratch[n_scratch++] = path;
}

char *scratch_directory(void) { return xstrdup(run_directory()); }

void write_bytes(const char *path, const void *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

void write_text(const char *path, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *text = vxformat(format, arguments);
    va_end(arguments);
    write_bytes(path, text, strlen(text));
    free(text);
}

char *read_text(const char *path) {
    char *bytes;
    size_t size;
    Error error;
    char *followed = checkpoint_follow(path);
    if (!read_file(followed, &bytes, &size, &error)) fail_msg("%s: %s", path, error.text);
    free(followed);
    return bytes;
}

void make_link(const char *target, const char *path) {
    if (symlink(target, path)) write_text(path, "%s\n", target);
}

char *follow_link(const char *path) { return checkpoint_follow(path); }

char *path_through(const char *run, const char *name) {
    char *path = path_join(run, name), *followed = follow_link(path);
    free(path);
    return followed;
}

bool has_links(void) {
    static bool tried, has;
    if (tried) return has;
    char *path = path_join(run_directory(), "link");
    has = !symlink("nowhere", path);
    tried = true;
    free(path);
    return has;
}

void need_links(void) {
    if (has_links()) return;
    print_message("SKIPPED: what needs symbolic links\n");
    skip();
}

static int collect(int from, pid_t child, char *output, size_t size) {
    size_t used = 0;
    char rest[4096];
    for (;;) {
        bool room = used + 1 < size;
        ssize_t n = read(from, room ? output + used : rest, room ? size - 1 - used : sizeof rest);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        if (room) used += (size_t)n;
    }
    output[used] = 0;
    close(from);
    int status;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int run_function(char *output, size_t size, void (*function)(void *), void *argument) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        dup2(ends[1], 1);
        dup2(ends[1], 2);
        close(ends[0]);
        close(ends[1]);
        function(argument);
        fflush(NULL);
        _exit(0);
    }
    close(ends[1]);
    return collect(ends[0], child, output, size);
}

void assert_dies(void (*function)(void *), void *argument, const char *message) {
    char output[4096];
    int status = run_function(output, sizeof output, function, argument);
    if (status != 2) fail_msg("exit status %d, not 2: %s", status, output);
    assert_contains(output, message);
}

static void run_shell(void *command) {
    execl("/bin/sh", "sh", "-c", (const char *)command, (char *)NULL);
    _exit(127);
}

/* Follows small files that stand for links and are not the last part of a path; free(). */
static char *follow_links(const char *command) {
    static const char ends[] = " '\"\n;=()<>|&";
    char *followed = xstrdup("");
    for (const char *at = command; *at;) {
        size_t word = strcspn(at, ends), rest = strspn(at + word, ends);
        char *path = xformat("%.*s", (int)word, at), *target = checkpoint_follow(path);
        bool leads_on = strstr(path, "/last/") || strstr(path, "/best/");
        char *longer = xformat("%s%s%.*s", followed, leads_on ? target : path, (int)rest, at + word);
        char *owned[] = {path, target, followed};
        for (int i = 0; i < 3; i++) free(owned[i]);
        followed = longer;
        at += word + rest;
    }
    return followed;
}

int run_command(char *output, size_t size, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *given = vxformat(format, arguments), *command = follow_links(given);
    va_end(arguments);
    free(given);
    int status = run_function(output, size, run_shell, command);
    free(command);
    return status;
}

void assert_contains(const char *text, const char *part) {
    if (!strstr(text, part)) fail_msg("expected to find\n  %s\nin\n%s", part, text);
}

double relative_error(const float *got, const float *want, int64_t n) {
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = (double)got[i] - (double)want[i];
        if (!isfinite(d)) return INFINITY;
        difference += d * d;
        norm += (double)want[i] * (double)want[i];
    }
    return difference == 0 ? 0 : sqrt(difference / norm);
}

void assert_close(const char *what, const float *got, const float *want, int64_t n, double tolerance) {
    double error = relative_error(got, want, n);
    if (!(error <= tolerance)) fail_msg("%s: relative error %.3g, allowed %.3g", what, error, tolerance);
}

void heed_signals(void) {
    signal(SIGHUP, SIG_DFL);
    signal(SIGINT, SIG_DFL);
}

int first_cpu(void) {
    cpu_set_t allowed;
    int cpu = 0;
    assert_int_equal(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    while (!CPU_ISSET(cpu, &allowed)) cpu++;
    return cpu;
}
