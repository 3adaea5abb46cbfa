/* The training loop: for each step, for each micro-batch forward and backward; clip; update; and what is due after it.
 *
 * A run is a pure function of (options, data, seed): the order of batches depends on the seed and the epoch only,
 * dropout on the seed and the number of the micro-batch. The checkpoint holds weights, moments and these counters, so a
 * run that was stopped anywhere resumes with the same bits. */
#include "train/parallel/ranks.h"
#include "train/run/after_step.h"
#include "train/run/finish.h"
#include "train/run/open.h"
#include "train/run/step.h"

int train_run(Training *training) {
    Run run;
    run_open(&run, training); /* loaders, log, checkpoints, queue of results */
    while (!run.over) {
        step_begin(&run);
        for (int64_t micro = ranks_rank(); micro < run.accumulation; micro += ranks_count())
            step_micro_batch(&run,
                             micro); /* next batch, copy to the device, Model.forward_backward; the last: update */
        step_end(&run);
        after_step(&run); /* results, log, validation, checkpoints, page: what is due */
    }
    return run_finish(&run);
}
