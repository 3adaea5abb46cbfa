#include "tests/threads_rig.h"

/* Returns "taskset -c N" with a CPU that this process may use. */
static const char *on_one_core(void) {
    static char text[32];
    snprintf(text, sizeof text, "taskset -c %d", first_cpu());
    return text;
}

void threads_expect_same_weights(const char *root, const char *what, const char *weights) {
    const char *const ways[][2] = {{"env", "--threads 1"},
                                   {"env", "--threads 2"},
                                   {"env", "--threads 3"},
                                   {"env", "--threads 8"},
                                   {on_one_core(), ""},
                                   {"OMP_DYNAMIC=true", "--threads 2"},
                                   {"OMP_MAX_ACTIVE_LEVELS=0", "--threads 2"},
                                   {"OMP_NUM_THREADS=3,2", "--threads 2"}};
    must_run("rm -rf %s/run*", root);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        must_run("%s %s %s --device cpu -o %s/run%zu", ways[i][0], what, ways[i][1], root, i);
        if (run_command(fixture.output, sizeof fixture.output, "cmp %s/run0/%s %s/run%zu/%s", root, weights, root, i,
                        weights))
            fail_msg("%s with %s %s: %s", what, ways[i][0], ways[i][1], fixture.output);
    }
    assert_int_equal(run_command(fixture.output, sizeof fixture.output,
                                 "OMP_THREAD_LIMIT=1 %s --threads 2 --device cpu -o %s/refused", what, root),
                     2);
    assert_contains(fixture.output, "OMP_THREAD_LIMIT=1 allows only 1");
}

void threads_expect_same_resumed(const char *root, const char *what, const char *folder) {
    must_run("cd %s/run1/%s && rm -rf $(readlink last || cat last) best && rm last", root, folder);
    must_run("%s %s --threads 1 --device cpu -o %s/run1 --resume auto", on_one_core(), what, root);
    assert_contains(fixture.output, "step 2,");
    must_run("cmp %s/run0/%s/last/model.safetensors %s/run1/%s/last/model.safetensors", root, folder, root, folder);
}
