#include "tests/cuda/program_rig.h"

/* Programs compute with exact functions, where the tests of kernels do not: that takes half the time. */
__attribute__((constructor)) static void compute_exactly(void) { unsetenv("EMULATE_INEXACT"); }

bool emulated;

const char *cuda_program(const char *name) {
    static char command[8192];
    const char *folder = getenv("GPU_PROGRAMS");
    emulated = !folder;
    snprintf(command, sizeof command, "%s/%s", folder ? folder : "emulated", name);
    return emulated ? program_at(command) : command;
}

void set_variable(const char *name, const char *value) {
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

void set_emulator(const char *seed, const char *capability) {
    set_variable("EMULATE_SEED", seed);
    set_variable("EMULATE_CAPABILITY", capability);
}

void share_autotune_cache(const char *from, const char *to) {
    char *made = path_join(from, "choices.txt"), *copy = path_join(to, "choices.txt");
    if (!access(made, F_OK) && run_command(fixture.output, sizeof fixture.output, "cp %s %s", made, copy))
        fail_msg("%s", fixture.output);
    free(made);
    free(copy);
}

void check_schedules(void (*train)(const char *run), void (*assert_same)(const char *a, const char *b)) {
    const char *const seeds[] = {NULL, "1", "7"};
    char *runs[3];
    for (int i = 0; i < 3; i++) {
        runs[i] = scratch_directory();
        set_emulator(seeds[i], NULL);
        if (i) share_autotune_cache(runs[0], runs[i]);
        train(runs[i]);
        if (i) assert_same(runs[0], runs[i]);
    }
    for (int i = 0; i < 3; i++) free(runs[i]);
    set_emulator(NULL, NULL);
}

const char *long_enough(void) { return emulated ? "" : " --max-steps 300"; }

void check_resume(const char *short_run) {
    char *options = xformat("%s%s", short_run, long_enough());
    char *whole = scratch_directory(), *run = scratch_directory();
    set_emulator(NULL, "75");
    fixture_must_train(whole, options);
    share_autotune_cache(whole, run);
    assert_int_equal(fixture_train_and_signal(run, options, 3, SIGTERM), 128 + SIGTERM);
    assert_int_equal(fixture_train(run, "%s --resume auto", options), 0);
    assert_same_result(whole, run);
    set_emulator(NULL, NULL);
    free(options);
    free(whole);
    free(run);
}

/* The kernels and fills that a training has put into streams by themselves, and the graphs. */
typedef struct {
    double single, graphs;
} Launches;

static Launches train_and_count(int (*train)(const char *run, const char *more), const char *run, const char *options) {
    Launches l;
    set_variable("EMULATE_LAUNCHES", "1");
    int status = train(run, options);
    set_variable("EMULATE_LAUNCHES", NULL);
    const char *at = strstr(fixture.output, "emulate: ");
    if (status || !at || sscanf(at, "emulate: %lf launches, and %lf of graphs", &l.single, &l.graphs) != 2)
        fail_msg("%s", fixture.output);
    return l;
}

void check_launches(int (*train)(const char *run, const char *more), const char *options, int early, double most) {
    enum { STEPS = 16 };
    if (!emulated) skip();
    Launches l[2];
    for (int i = 0; i < 2; i++)
        l[i] = train_and_count(train, kept_folder(),
                               kept_format("%s --log-interval 1000 --max-steps %d", options, early + i * STEPS));
    double launches = (l[1].single - l[0].single) / STEPS, recorded = (l[1].graphs - l[0].graphs) / STEPS;
    print_message("%s: a step is %.2f launches and %.2f recordings\n", options, launches, recorded);
    assert_true(recorded > 0 && launches <= most);
}

void check_recorded(int (*train)(const char *run, const char *more), const char *options) {
    char *recorded = kept_folder(), *direct = kept_folder();
    if (!emulated) skip();
    Launches repeating = train_and_count(train, recorded, options);
    share_autotune_cache(recorded, direct);
    Launches calling = train_and_count(train, direct, kept_format("%s --profile", options));
    print_message("%s: %.0f recordings were repeated\n", options, repeating.graphs);
    assert_true(repeating.graphs > 0 && calling.graphs == 0);
    assert_same_result(recorded, direct);
}

void assert_memory_as_planned(const char *run) {
    double planned = logged_last(run, "summary", "summary/planned_bytes");
    double peak = logged_last(run, "summary", "summary/peak_bytes");
    print_message("planned %.0f bytes, peak %.0f\n", planned, peak);
    assert_true(fabs(peak / planned - 1) < 0.02);
}

/* Returns the last line of the output that tells of missing memory, if it is the only one and the last of all. */
static const char *only_complaint(void) {
    static const char *const words[] = {"out of memory", "no memory left to start with"};
    for (int i = 0; i < 2; i++) {
        const char *at = strstr(fixture.output, words[i]), *end = at ? strchr(at, '\n') : NULL;
        if (end && !end[1]) return at;
    }
    return NULL;
}

void check_shortage(int (*train)(const char *run), void (*assert_same)(const char *a, const char *b), int stride) {
    char *whole = scratch_directory(), *run = scratch_directory();
    int runs = 0, ended = 0;
    if (!emulated) skip();
    if (train(whole)) fail_msg("%s", fixture.output);
    for (bool reached = true; reached; runs++) {
        char *call = xformat("%d", 1 + runs * stride);
        set_variable("EMULATE_FAIL_MEMORY", call);
        int status = train(run);
        set_variable("EMULATE_FAIL_MEMORY", NULL);
        reached = !strstr(fixture.output, "emulate: EMULATE_FAIL_MEMORY=");
        if (!status)
            assert_same(whole, run);
        else if (status != 1 || !only_complaint())
            fail_msg("call %s: exit status %d:\n%s", call, status, fixture.output);
        ended += status != 0;
        must_run("rm -rf %s", run);
        free(call);
    }
    print_message("%d of %d runs ended\n", ended, runs - 1);
    assert_true(ended > 0 && runs > 4);
    free(whole);
    free(run);
}

void check_memory(const char *options, const char *more) {
    char *run = scratch_directory();
    int status = fixture_train(run, "%s --val-interval 2 %s", options, more);
    if (status) fail_msg("%s: exit status %d:\n%s", more, status, fixture.output);
    assert_memory_as_planned(run);
    free(run);
}
