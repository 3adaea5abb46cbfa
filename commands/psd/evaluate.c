/* train_psd evaluate: scores, tables and diagrams of a classifier on the rows of one split. train_psd calibrate:
 * temperature, vector scaling and a temperature by SNR, fitted on the validation split. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "commands/psd/psd.h"
#include "page/page.h"

/* Returns how the rows were divided, by the name of the split file: "by_file" for by_file_seed42_frac1.0.json, the
 * whole name for a file that `prepare` has not named; free(). */
static char *protocol_of(const PsdOptions *o) {
    if (o->data.sensor) return xstrdup(o->data.sensor);
    const char *name = path_name(o->data.split), *seed = strstr(name, "_seed");
    if (seed && seed > name) return xformat("%.*s", (int)(seed - name), name);
    size_t length = strlen(name);
    return xformat("%.*s", (int)(ends_with(name, ".json") && length > 5 ? length - 5 : length), name);
}

int psd_evaluate(const PsdOptions *o, const PsdData *data, PsdClassifier *classifier, Evaluation *result) {
    const char *directory = o->train.output_dir;
    PsdPredictions test = psd_predictions(o, data, classifier, psd_eval_split(o));
    OWNED char *protocol = protocol_of(o);
    make_directories(directory);
    directory_remove_leftovers(directory);
    MUST(report_classification(&test.predictions, 1, directory, protocol, o->test.tag, &error) &&
         (!result || evaluation_make(&test.predictions, 1, result, &error)));
    page_write_or_warn(directory, PAGE_DEPTH, false);
    psd_predictions_print_chance(&test);
    psd_predictions_free(&test);
    return 0;
}

/* Keeps the calibrations with the weights, for predict. Those of a foreign file are only in the report. */
static void keep(const PsdOptions *o, json_t *fits) {
    const char *checkpoint = o->train.base_checkpoint;
    Error error;
    json_auto_t *description = description_read(checkpoint, &PSD_DESCRIPTION, &error);
    if (!description)
        printf("[Calibration] %s is no checkpoint of this program: predict will not find its calibrations\n",
               checkpoint);
    else if (!decision_write(checkpoint, json_build(checkpoint, "{s:O}", "calibrations", fits), &error))
        die("%s; predict will not find the calibrations", error.text);
    else
        printf("[Calibration] kept with the weights: %s\n", checkpoint);
}

int psd_calibrate(const PsdOptions *o, const PsdData *data, PsdClassifier *classifier) {
    const char *directory = o->train.output_dir;
    PsdPredictions validation = psd_predictions(o, data, classifier, PSD_VAL);
    PsdPredictions test = psd_predictions(o, data, classifier, psd_eval_split(o));
    json_auto_t *fits = json_array();
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
    if (done) page_write_or_warn(directory, PAGE_DEPTH, false);
    psd_predictions_print_chance(&test);
    psd_predictions_free(&validation);
    psd_predictions_free(&test);
    return !done;
}
