/* Checks that short runs leave the same weights for any number of threads, any OpenMP variables, and after they are
 * resumed with another number of cores. */
#pragma once

#include "tests/train_rig.h"

/* Runs the training command `what`, given without its output folder, in several ways into ROOT/run0, ROOT/run1 and so
 * on. Fails unless the file `weights`, a path below these folders, has the same bytes in all. */
void threads_expect_same_weights(const char *root, const char *what, const char *weights);

/* Resumes ROOT/run1, a run of two threads, at step 2 with one thread. Fails unless it ends with the weights of run0.
 * `folder` is where the runs keep their checkpoints, "." or a folder below theirs. */
void threads_expect_same_resumed(const char *root, const char *what, const char *folder);
