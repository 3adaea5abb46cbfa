/* Ranks that end while others wait for them, and what mpirun does with those: it must end them. */
#include "base/base.h"
#include "tests/test.h"

static char output[4096];

/* Runs three ranks of leaver; returns mpirun's exit status. */
static int leave(const char *how) {
    return run_command(output, sizeof output, "tools/run_mpi.sh 3 '%s/tests/mpi/leaver' %s 2>&1", getenv("BUILD"), how);
}

TEST(ranks_that_close_the_group_end_well) {
    assert_int_equal(leave("close"), 0);
    assert_string_equal(output, "");
}

/* The end of a waiting rank must come from mpirun, within a few seconds: rank 2 dies, 0 and 1 wait without end. */
TEST(a_rank_that_dies_ends_the_others) {
    double start = seconds_now();
    assert_int_not_equal(leave("die"), 0);
    assert_contains(output, "leaver: the last rank dies");
    assert_int_not_equal(leave("kill"), 0);
    if (seconds_now() - start > 60) fail_msg("mpirun took %g s", seconds_now() - start);
}

/* MPICH takes status 0 for a good end, Open MPI does not. */
TEST(ranks_that_end_without_closing_do_not_hang) {
    double start = seconds_now();
    leave("exit-0");
    if (seconds_now() - start > 30) fail_msg("mpirun took %g s", seconds_now() - start);
}

TEST(waiting_may_end_the_program) { assert_int_equal(leave("leave-by-exit"), 7); }

TEST(waiting_may_jump_out_of_an_operation_and_then_close) {
    assert_int_not_equal(leave("jump"), 0);
    assert_contains(output, " has left");
    assert_contains(output, " has closed");
}

TEST(a_group_that_was_left_is_not_used_again) {
    assert_int_not_equal(leave("jump-and-use"), 0);
    assert_contains(output, "barrier: the group cannot be used again, since its all_reduce was left");
}
