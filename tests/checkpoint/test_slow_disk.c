/* Checkpoints on a disk that takes its time, or hangs. */
#include "tests/checkpoint/rig.h"

#include <errno.h>
#include <pthread.h>

static int joins_in_vain; /* how often the thread seems to write on when the time is over */

int pthread_timedjoin_np(pthread_t thread, void **result, const struct timespec *until) {
    (void)until;
    return joins_in_vain && joins_in_vain-- ? ETIMEDOUT : pthread_join(thread, result);
}

static void save_to_a_slow_disk(void *directory) {
    Checkpointer *c = rig_checkpointer(directory, 2);
    rig_save_good(c, 3, 1, false);
    checkpointer_close(c);
}

TEST(a_disk_that_is_slow_is_told_and_not_waited_for_for_ever) {
    char *directory = kept_folder(), *output = xmalloc(1 << 16);
    joins_in_vain = 2;
    assert_int_equal(run_function(output, 1 << 16, save_to_a_slow_disk, directory), 0);
    assert_contains(output, ": the checkpoint of step 3 is not written after 10 s: the disk is slow, or hangs; ");
    assert_contains(output, " is not written after 70 s: ");
    assert_null(strstr(output, "130 s"));
    joins_in_vain = 1000;
    assert_int_equal(run_function(output, 1 << 16, save_to_a_slow_disk, directory), 1);
    assert_contains(output, "was not written within an hour: the disk hangs. The earlier checkpoints are whole");
    joins_in_vain = 0;
    free(output);
}

int main(void) { return tests_run(rig_set_up, NULL); }
