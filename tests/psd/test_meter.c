/* The last lines of a run of train_psd: its memory and the time of a step, as measured, planned and predicted. */
#include <jansson.h>

#include "tests/meter_rig.h"

static char *make_spectra(void) {
    char *directory = kept_folder(), *program = keep(xstrdup(program_at("train_psd")));
    must_run("%s synthesize -o %s/made --sensors 2 --rows 20 && %s prepare --input %s/made --output %s/data", program,
             directory, program, directory, directory);
    return directory;
}

TEST(memory_of_pretraining_is_as_planned) {
    char *directory = make_spectra();
    must_run("%s pretrain -m %s/data/manifest.csv --split %s/data/splits/pooled*.json --size small -b 16 --max-steps 5 "
             "--threads 2 --device cpu --output-dir %s/run",
             program_at("train_psd"), directory, directory, directory);
    char *run = kept_path(directory, "run");
    meter_expect_planned_memory(run);
}

/* All micro-batches of this model are alike. The estimate leaves out the loop's own copies of a few numbers, less than
 * a kilobyte of some hundred megabytes. */
TEST(a_run_and_its_estimate_predict_the_same) {
    char *directory = make_spectra();
    char *command =
        xformat("%s pretrain -m %s/data/manifest.csv --split %s/data/splits/pooled*.json --size small -b 16 "
                "-g 2 --threads 2 --device cpu --calibration %s",
                program_at("train_psd"), directory, directory, meter_synthetic_rates());
    must_run("%s --max-steps 5 --output-dir %s/run", command, directory);
    char *run = kept_path(directory, "run");
    double seconds = logged_last(run, "summary", "summary/predicted_step_seconds");
    must_run("%s --estimate --json --gpu here 2>/dev/null", command);
    json_t *root = json_loads(fixture.output, 0, NULL);
    assert_non_null(root);
    const json_t *card = json_array_get(json_object_get(root, "gpus"), 0);
    double estimated = json_number_value(json_object_get(card, "step_seconds"));
    print_message("the run: %.9f s, the estimate: %.9f s\n", seconds, estimated);
    assert_near(seconds, estimated,
                200 / 1e9); /* what is not estimated, norm_guard and results, is less than 200 bytes */
    json_decref(root);
    free(command);
}
