/* train_psd calibrate: temperature, vector scaling and a temperature by SNR, fitted on the validation split. */
#include "base/file.h"
#include "commands/psd/psd.h"

int psd_calibrate(const PsdRun *o, const PsdData *data, PsdClassifier *classifier) {
    const char *directory = o->train.output_dir;
    PsdPredictions validation = psd_predict(o, data, classifier, PSD_VAL);
    PsdPredictions test = psd_predict(o, data, classifier, psd_eval_split(o));
    Error error;
    make_directories(directory);
    directory_remove_leftovers(directory);
    bool fitted, done = report_calibration(&validation.predictions, &test.predictions, directory, &fitted, &error);
    if (!done && fitted) die("%s", error.text);
    if (!done) warn("%s", error.text);
    psd_predictions_free(&validation);
    psd_predictions_free(&test);
    return !done;
}
