/* --estimate of train_cv. */
#include "tests/estimate_rig.h"

/* Batch norms are over the samples of a micro-batch. */
TEST(a_batch_is_not_divided) {
    estimate_command(0, true, "train_cv --estimate --gpu t4 -b auto");
    assert_contains(estimate_output, "[Batch] -b 64 -g 1 is an effective batch of 64: all of it fits at once, ");
    assert_contains(estimate_output, "; it is never divided: batch norms see each micro-batch separately\n");
    estimate_command(2, false, "train_cv --estimate -b auto --effective-batch 1");
    assert_contains(estimate_output, "--effective-batch 1: expected at least 2, the smallest -b");
}
