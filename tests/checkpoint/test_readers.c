/* Readers of a run that writes checkpoints and removes old ones meanwhile. */
#include "tests/checkpoint/rig.h"

#include <errno.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checkpoint/description.h"
#include "checkpoint/folder.h"

static Error error;

/* Writes checkpoints of which only one is kept, until it is killed; every third is the best. */
static pid_t begin_run(const char *directory) {
    pid_t child = fork();
    if (child) return child;
    Checkpointer *c = rig_checkpointer(directory, 1);
    for (int64_t step = 1;; step++) rig_save_good(c, step, (uint64_t)step, step % 3 == 0);
}

static void end_run(pid_t child) {
    int status;
    assert_int_equal(waitpid(child, &status, WNOHANG), 0); /* it has not failed */
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
}

/* Opens what a program opens that is given this path, one file after the other. Returns the step. */
static int64_t read_all(const char *path) {
    TrainState state = {0};
    TensorFile file;
    uint64_t seed;
    char *folder = keep(checkpoint_folder(path)), step[24];
    assert_true(checkpoint_exists(path));
    if (!state_read(folder, &state, &error)) fail_msg("%s: %s", folder, error.text);
    json_t *description = description_read(path, &(DescriptionRules){.model = "test"}, &error);
    if (!description) fail_msg("%s: %s", folder, error.text);
    usleep(500); /* the run goes on */
    if (!checkpoint_open_base(path, &file, &error)) fail_msg("%s: %s", folder, error.text);
    snprintf(step, sizeof step, "%lld", (long long)state.step);
    assert_string_equal(tensor_file_metadata(&file, "step"), step);
    assert_int_equal(rig_check_whole(folder, &seed), state.step);
    tensor_file_close(&file);
    json_decref(description);
    free(state.options_json);
    return state.step;
}

TEST(a_run_that_goes_on_can_be_read_at_any_moment) {
    enum { STARTS = 250, CHANGES = 25 };
    char *directory = kept_folder(), *links[] = {kept_path(directory, LAST_LINK), kept_path(directory, BEST_LINK)};
    pid_t run = begin_run(directory);
    int64_t steps = 0, before = 0;
    while (access(links[1], F_OK)) usleep(1000);
    for (int i = 0; i < STARTS || steps < CHANGES; i++) { /* until the run has gone on so often */
        char *best, *newest;
        for (int k = 0; k < 2; k++) {
            int64_t step = read_all(links[k]);
            assert_int_equal(read_all(links[k]), step); /* the link leads there until the end of the program */
            checkpoint_release();
        }
        if (!checkpoint_best(directory, &best, &error)) fail_msg("%s", error.text);
        int64_t step = read_all(best);
        newest = keep(checkpoint_resolve(directory, "auto"));
        assert_true(read_all(newest) >= step);
        steps += step != before;
        before = step;
        checkpoint_release();
        free(best);
    }
    end_run(run);
}

TEST(a_file_behind_a_link_is_there_at_any_moment) {
    char *directory = kept_folder(), *last = kept_path(directory, LAST_LINK), *path = kept_path(last, "state.json");
    pid_t run = begin_run(directory);
    while (access(last, F_OK)) usleep(1000);
    for (int i = 0; i < 5000; i++) {
        size_t size;
        int fd = checkpoint_file_open(path, &size, &error);
        if (fd < 0) fail_msg("%s", error.text);
        close(fd);
    }
    end_run(run);
}

TEST(a_checkpoint_that_is_read_is_removed_later) {
    char *directory = kept_folder(), *path = kept_path(directory, "step_00000001");
    Checkpointer *c = rig_checkpointer(directory, 1);
    rig_save_good(c, 1, 1, false);
    free(checkpoint_hold(path));
    rig_save_good(c, 2, 2, false);
    rig_assert_listing(directory, "last step_00000001 step_00000002 ");
    checkpoint_release();
    rig_save_good(c, 3, 3, false);
    rig_assert_listing(directory, "last step_00000003 ");
    checkpointer_close(c);
}

static bool without_locks;

int flock(int fd, int operation) {
    if (!without_locks) return (int)syscall(SYS_flock, fd, operation);
    errno = ENOLCK;
    return -1;
}

/* On such a disk nobody knows who reads a checkpoint. */
TEST(without_locks_a_checkpoint_outlives_its_need_by_one) {
    char *directory = kept_folder();
    without_locks = true;
    Checkpointer *c = rig_checkpointer(directory, 1);
    rig_best_step = 0;
    for (int step = 1; step < 4; step++) rig_save_good(c, step, 1, false);
    rig_assert_listing(directory, "last step_00000002 step_00000003 ");
    checkpointer_close(c);
    without_locks = false;
}

TEST(a_link_to_nothing_is_not_waited_for) {
    char *directory = kept_folder(), *last = kept_path(directory, LAST_LINK);
    make_link("step_00000001", last);
    char *found = checkpoint_hold(last);
    assert_string_equal(found, kept_path(directory, "step_00000001"));
    free(found);
}

int main(void) { return tests_run(rig_set_up, NULL); }
