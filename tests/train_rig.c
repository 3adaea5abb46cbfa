#include "tests/train_rig.h"

#include <glob.h>
#include <sys/stat.h>

Fixture fixture;

const char *program_at(const char *which) {
    static char path[256];
    const char *build = getenv("BUILD");
    snprintf(path, sizeof path, "%s/%s", build ? build : "build/release", which);
    return path;
}

const char *const *program_names(int *n) {
    static glob_t found;
    if (!found.gl_pathc) {
        if (glob("train_*.c", 0, NULL, &found))
            fail_msg("no train_*.c was found: run the tests in the root of the project");
        for (size_t i = 0; i < found.gl_pathc; i++) *strrchr(found.gl_pathv[i], '.') = 0;
    }
    *n = (int)found.gl_pathc;
    return (const char *const *)found.gl_pathv;
}

int run_program(char *output, size_t size, const char *program, const char *format, va_list arguments) {
    return run_command(output, size, "%s %s", program_at(program), keep(vxformat(format, arguments)));
}

void must_run(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *command = keep(vxformat(format, arguments));
    va_end(arguments);
    int status = run_command(fixture.output, sizeof fixture.output, "%s", command);
    if (status) fail_msg("%s: exit status %d:\n%s", command, status, fixture.output);
}

void assert_refused(int status, const Refusal *want) {
    if (status != want->status)
        fail_msg("%s: exit status %d, not %d:\n%s", want->options, status, want->status, fixture.output);
    assert_contains(fixture.output, want->message);
}

/* ---- trainings ---- */

/* Returns the command of a training. */
static char *training(const char *run, const char *more) {
    return kept_format("%s %s %s %s --output-dir %s %s", fixture.program, fixture.manifest ? "-m" : "--data",
                       fixture.manifest ? fixture.manifest : fixture.data, fixture.options, run, more);
}

int fixture_train(const char *run, const char *more, ...) {
    va_list arguments;
    va_start(arguments, more);
    char *words = keep(vxformat(more, arguments)), *command = training(run, words);
    va_end(arguments);
    return run_command(fixture.output, sizeof fixture.output, "%s", command);
}

void fixture_must_train(const char *run, const char *more) {
    int status = fixture_train(run, "%s", more);
    if (status) fail_msg("exit status %d:\n%s", status, fixture.output);
}

int fixture_train_on(const char *data, const char *run, const char *options) {
    char *before = fixture.data;
    fixture.data = (char *)(uintptr_t)data;
    int status = fixture_train(run, "%s", options);
    fixture.data = before;
    return status;
}

void fixture_must_train_on(const char *data, const char *run, const char *options) {
    if (fixture_train_on(data, run, options)) fail_msg("%s", fixture.output);
}

const char *fixture_reference_run(void) {
    static char *run;
    if (!run) {
        run = scratch_directory();
        fixture_must_train(run, fixture.short_run);
    }
    return run;
}

pid_t fixture_start(const char *run, const char *more) {
    char *command = training(run, more);
    pid_t child = start_command(run, command);
    return child;
}

int fixture_train_and_signal(const char *run, const char *more, int step, int number) {
    return signal_at_step(run, fixture_start(run, more), step, number);
}

/* ---- results ---- */

void assert_same_losses(const char *a, const char *b) {
    double x[64], y[64];
    int n = logged(a, "train", fixture.loss, x, 64);
    assert_true(n > 0);
    assert_int_equal(n, logged(b, "train", fixture.loss, y, 64));
    for (int i = 0; i < n; i++) assert_true(x[i] == y[i]);
}

void assert_same_result(const char *a, const char *b) {
    const char *const names[] = {"last/model.safetensors", "last/optimizer.safetensors"};
    for (int i = 0; i < 2; i++) {
        int status = run_command(fixture.output, sizeof fixture.output, "cmp %s/%s %s/%s", a, names[i], b, names[i]);
        if (status) fail_msg("%s", fixture.output);
    }
}

void fixture_check_same(const char *more) {
    char *run = kept_folder(), *options = kept_format("%s %s", fixture.short_run, more);
    fixture_must_train(run, options);
    assert_same_result(run, fixture_reference_run());
    assert_same_losses(run, fixture_reference_run());
}

void fixture_check_restarts(const char *more) {
    char *whole = kept_folder(), *run = kept_folder(),
         *options = kept_format("%s %s --save-interval 1 --resume auto", fixture.short_run, more);
    fixture_must_train(whole, options);
    for (int step = 2; step < 12; step += 4) {
        int status = fixture_train_and_signal(run, options, step, step == 6 ? SIGTERM : SIGKILL);
        assert_true(status > 128 || status == 0);
    }
    fixture_must_train(run, options);
    assert_same_result(run, whole);
    assert_same_losses(run, whole);
    if (!*more) assert_same_result(run, fixture_reference_run());
}

/* Returns the path of a library for programs that preload it. */
static char *preloadable(const char *name) {
    const char *build = getenv("BUILD");
    char *path = keep(realpath(kept_format("%s/tests/base/%s.so", build ? build : "build/release", name), NULL));
    assert_non_null(path);
    return path;
}

/* Returns how often a training of 30 steps, or of 60, allocates memory. */
static long long allocations_of(const char *options, int times) {
    char *run = kept_folder(), *counts = kept_path(run, "allocations"), name[64],
         *before = getenv("LD_PRELOAD") ? keep(xstrdup(getenv("LD_PRELOAD"))) : NULL;
    long long count;
    setenv("LD_PRELOAD", preloadable("allocations"), 1);
    setenv("ALLOCATIONS", counts, 1);
    int status =
        fixture_train(run, "%s --max-steps %d --val-interval %d --log-interval %d --save-interval 0 --num-workers 2",
                      options, 30 * times, 30 * times, 10 * times);
    if (before) setenv("LD_PRELOAD", before, 1);
    if (!before) unsetenv("LD_PRELOAD");
    unsetenv("ALLOCATIONS");
    if (status) fail_msg("exit status %d:\n%s", status, fixture.output);
    assert_int_equal(sscanf(kept_text(counts), "%63s %lld", name, &count), 2);
    assert_non_null(strstr(fixture.program, name));
    assert_true(count > 100);
    return count;
}

void fixture_check_allocations(const char *options) {
    skip_under_sanitizer("a preloaded library");
    assert_int_equal(allocations_of(options, 1), allocations_of(options, 2));
}

/* ---- disks that lack something ---- */

bool poor_disk(bool poor) {
    static const char *const names[] = {"LD_PRELOAD", "DISK_LACKS"};
    static char *before[2];
#ifdef __SANITIZE_ADDRESS__
    return false; /* its library must be the first */
#endif
    for (int i = 0; i < 2 && !poor; i++) {
        if (before[i]) setenv(names[i], before[i], 1);
        if (!before[i]) unsetenv(names[i]);
        free(before[i]);
        before[i] = NULL;
    }
    if (!poor) return false;
    const char *library = preloadable("disk");
    for (int i = 0; i < 2; i++) before[i] = getenv(names[i]) ? xstrdup(getenv(names[i])) : NULL;
    setenv("LD_PRELOAD", library, 1);
    setenv("DISK_LACKS", "links,hard-links,exchange,open-target,locks,maps,flushes,colons", 1);
    return true;
}

static void assert_links(const char *run, bool small) {
    const char *const names[] = {"last", "best"};
    for (int i = 0; i < 2; i++) {
        char *path = kept_path(run, names[i]);
        struct stat status;
        assert_int_equal(lstat(path, &status), 0);
        if (!(small ? S_ISREG(status.st_mode) : S_ISLNK(status.st_mode))) fail_msg("%s: mode %o", path, status.st_mode);
    }
}

/* Fails unless the best weights of two runs do the same, whatever path leads to those of the second. */
static void check_use(const char *use, const char *a, const char *b) {
    static const char *const paths[] = {".", "best/", "best/model.safetensors"};
    static char want[1 << 16], got[1 << 16];
    char *program = keep(realpath(fixture.program, NULL)), *errors = kept_path(a, "errors");
    for (int i = 0; i < 4; i++) {
        const char *path = i ? paths[i - 1] : ".";
        if (i) poor_disk(true);
        /* cd: run_command follows nothing then. */
        int status = run_command(i ? got : want, sizeof want, "cd %s && exec %s %s %s 2>%s", i ? b : a, program, use,
                                 path, errors);
        if (i) poor_disk(false);
        char *text = kept_text(errors);
        if (status || !*want) fail_msg("%s %s: exit status %d: %s", use, path, status, text);
        if (i) assert_string_equal(got, want);
    }
}

void fixture_check_poor_disk(const char *use) {
    skip_under_sanitizer("a preloaded library");
    char *first = keep(xstrdup(fixture_reference_run())), *options = kept_format("%s --resume auto", fixture.short_run),
         *run = kept_folder(), *output = kept_path(run, "output");
    for (int part = 0; part < 3; part++) {
        bool poor = part % 2 == 0;
        double losses[64];
        int step = part ? logged(run, "train", fixture.loss, losses, 64) + 1 : 5; /* one of this part's own */
        if (poor) poor_disk(true);
        int status =
            part < 2 ? fixture_train_and_signal(run, options, step, SIGTERM) : fixture_train(run, "%s", options);
        if (poor) poor_disk(false);
        char *said = part < 2 ? read_text(output) : xstrdup(fixture.output);
        if (status && (part == 2 || status != 128 + SIGTERM)) fail_msg("exit status %d: %s", status, said);
        if (poor)
            assert_contains(said, "this file system has no symbolic links and no locks; last and best are small files "
                                  "that name a checkpoint; let one program at a time write into it");
        assert_links(run, poor || !has_links());
        free(said);
    }
    assert_same_result(run, first);
    assert_same_losses(run, first);
    char *page = kept_path(run, "report.html"), *text = kept_text(page);
    assert_contains(text, "Best checkpoint</dt><dd>step ");
    assert_contains(text, "Last checkpoint</dt><dd>step 12, weights ");
    if (use) check_use(use, first, run);
}

/* ---- in the background ---- */

pid_t start_command(const char *run, const char *command) {
    char *all = kept_format("exec %s >%s/output 2>&1", command, run);
    pid_t child = fork();
    if (!child) {
        execl("/bin/sh", "sh", "-c", all, (char *)NULL);
        _exit(127);
    }
    return child;
}

void wait_for_step(const char *run, pid_t child, int step) {
    char *log = kept_path(run, "log.jsonl"), *wanted = kept_format("\"step\": %d,", step);
    siginfo_t ended = {.si_pid = 0};
    for (bool there = false; !there && !ended.si_pid; usleep(1000)) {
        char *text = access(log, R_OK) ? xstrdup("") : read_text(log);
        there = strstr(text, wanted) != NULL;
        free(text);
        assert_int_equal(waitid(P_PID, (id_t)child, &ended, WEXITED | WNOHANG | WNOWAIT), 0);
    }
}

int signal_at_step(const char *run, pid_t child, int step, int number) {
    int status;
    wait_for_step(run, child, step);
    kill(child, number);
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
