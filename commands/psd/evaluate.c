/* train_psd evaluate: scores, tables and diagrams of a classifier on the rows of one split. */
#include "base/file.h"
#include "commands/psd/psd.h"

int psd_evaluate(const PsdRun *o, const PsdData *data, PsdClassifier *classifier, Evaluation *result) {
    const char *directory = o->train.output_dir;
    PsdPredictions test = psd_predict(o, data, classifier, psd_eval_split(o));
    Error error;
    make_directories(directory);
    directory_remove_leftovers(directory);
    if (!report_classification(&test.predictions, 1, directory, o->sensor ? o->sensor : "pooled", o->tag, &error) ||
        (result && !evaluation_make(&test.predictions, 1, result, &error)))
        die("%s", error.text);
    psd_predictions_free(&test);
    return 0;
}
