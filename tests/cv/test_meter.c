/* The last lines of a run of train_cv: its memory, as measured and as planned. */
#include "data/cv/synthetic.h"
#include "tests/meter_rig.h"

TEST(memory_of_cells_is_as_planned) {
    CvSynthetic wanted = {.cells = 60, .donors = 3, .shape = {32, 7, 7}, .photons = 1, .separation = 2, .seed = 5};
    char *directory = kept_folder(), *cells = kept_path(directory, "cells");
    int64_t n;
    Error error;
    if (!cv_synthetic_write(cells, &wanted, 2, &n, &error)) fail_msg("%s", error.text);
    must_run("%s --data %s --output-dir %s/run --threads 2 --channels 8,8,8 -b 8 --epochs 2 --device cpu",
             program_at("train_cv"), cells, directory);
    for (int donor = 1; donor <= 3; donor++) { /* one behind the other, by one process */
        char *run = kept_format("%s/run/fold_D%d", directory, donor);
        meter_expect_planned_memory(run);
    }
}
