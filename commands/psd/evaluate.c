/* train_psd evaluate: scores, tables and diagrams of a classifier on the rows of one split. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "commands/psd/psd.h"
#include "page/page.h"

/* Returns how the rows were divided, by the name of the split file: "by_file" for by_file_seed42_frac1.0.json, the
 * whole name for a file that `prepare` has not named; free(). */
static char *protocol_of(const PsdOptions *o) {
    if (o->data.sensor) return xstrdup(o->data.sensor);
    const char *slash = strrchr(o->data.split, '/'), *name = slash ? slash + 1 : o->data.split,
               *seed = strstr(name, "_seed");
    if (seed && seed > name) return xformat("%.*s", (int)(seed - name), name);
    size_t length = strlen(name);
    return xformat("%.*s", (int)(ends_with(name, ".json") && length > 5 ? length - 5 : length), name);
}

int psd_evaluate(const PsdOptions *o, const PsdData *data, PsdClassifier *classifier, Evaluation *result) {
    const char *directory = o->train.output_dir;
    PsdPredictions test = psd_predictions(o, data, classifier, psd_eval_split(o));
    char *protocol = protocol_of(o);
    Error error;
    make_directories(directory);
    directory_remove_leftovers(directory);
    if (!report_classification(&test.predictions, 1, directory, protocol, o->test.tag, &error) ||
        (result && !evaluation_make(&test.predictions, 1, result, &error)))
        die("%s", error.text);
    page_write_or_warn(directory, PAGE_DEPTH, false);
    psd_predictions_print_chance(&test);
    psd_predictions_free(&test);
    free(protocol);
    return 0;
}
