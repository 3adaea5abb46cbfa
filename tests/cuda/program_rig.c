#include "tests/cuda/program_rig.h"

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

void check_resume(const char *options) {
    char *whole = scratch_directory(), *run = scratch_directory();
    set_emulator(NULL, "75");
    fixture_must_train(whole, options);
    assert_int_equal(fixture_train_and_signal(run, options, 3, SIGTERM), 128 + SIGTERM);
    assert_int_equal(fixture_train(run, "%s --resume auto", options), 0);
    assert_same_result(whole, run);
    set_emulator(NULL, NULL);
    free(whole);
    free(run);
}

void assert_memory_as_planned(const char *run) {
    double planned = logged_last(run, "summary", "summary/planned_bytes");
    double peak = logged_last(run, "summary", "summary/peak_bytes");
    print_message("planned %.0f bytes, peak %.0f\n", planned, peak);
    assert_true(fabs(peak / planned - 1) < 0.02);
    assert_true(logged_last(run, "summary", "summary/allocations_after_first_step") == 0);
}

void check_memory(const char *options, const char *more) {
    char *run = scratch_directory();
    int status = fixture_train(run, "%s --val-interval 2 %s", options, more);
    if (status) fail_msg("%s: exit status %d:\n%s", more, status, fixture.output);
    assert_memory_as_planned(run);
    free(run);
}
