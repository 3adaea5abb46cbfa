/* train_psd calibrate: temperature, vector scaling and a temperature by SNR, fitted on the validation split. */
#include <stdio.h>

#include "base/file.h"
#include "commands/psd/psd.h"
#include "page/page.h"

/* Keeps the calibrations with the weights, for predict. Those of a foreign file are only in the report. */
static void keep(const PsdOptions *o, json_t *fits) {
    const char *checkpoint = o->train.base_checkpoint;
    Error error;
    json_t *description = description_read(checkpoint, &PSD_DESCRIPTION, &error);
    if (!description)
        printf("[Calibration] %s is no checkpoint of this program: predict will not find its calibrations\n",
               checkpoint);
    else if (!decision_write(checkpoint, json_build(checkpoint, "{s:O}", "calibrations", fits), &error))
        die("%s; predict will not find the calibrations", error.text);
    else
        printf("[Calibration] kept with the weights: %s\n", checkpoint);
    json_decref(description);
}

int psd_calibrate(const PsdOptions *o, const PsdData *data, PsdClassifier *classifier) {
    const char *directory = o->train.output_dir;
    PsdPredictions validation = psd_predictions(o, data, classifier, PSD_VAL);
    PsdPredictions test = psd_predictions(o, data, classifier, psd_eval_split(o));
    json_t *fits = json_array();
    Error error;
    make_directories(directory);
    directory_remove_leftovers(directory);
    bool fitted,
        done = report_calibration(&validation.predictions, &test.predictions, directory, fits, &fitted, &error);
    if (!done && fitted) die("%s", error.text);
    if (done)
        keep(o, fits);
    else
        warn("%s", error.text);
    json_decref(fits);
    if (done) page_write_or_warn(directory, PAGE_DEPTH, false);
    psd_predictions_print_chance(&test);
    psd_predictions_free(&validation);
    psd_predictions_free(&test);
    return !done;
}
