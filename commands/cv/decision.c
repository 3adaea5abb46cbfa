#include "commands/cv/decision.h"

#include <math.h>
#include <stdlib.h>

#include "checkpoint/checkpoint.h"

/* Returns the names of the donors in a split. */
static json_t *donors_of(const CvFold *f, int split) {
    json_t *names = json_array();
    for (int d = 0; d < f->data->columns.n_donors; d++)
        if (f->fold->splits[d] == split) json_array_append_new(names, json_string(f->data->columns.donor_names[d]));
    return names;
}

bool cv_decision_write(const CvFold *f, const FoldResult *result, Error *error) {
    const Threshold *t = &result->threshold;
    char *best;
    if (!checkpoint_best(f->run.train.output_dir, &best, error)) return false;
    if (!best) return error_set(error, "%s: there are no best weights in it", f->run.train.output_dir);
    json_t *decision = json_build(best, "{s:f, s:s, s:s, s:b, s:o, s:o, s:o}", "threshold", t->value, "decision",
                                  "active if p > threshold", "rule", THRESHOLD_RULE_NAMES[t->rule], "views", f->run.tta,
                                  "temperature", real_or_null(result->temperature), "training_donors",
                                  donors_of(f, FLIM_TRAIN), "validation_donors", donors_of(f, FLIM_VAL));
    bool ok = decision_write(best, decision, error);
    free(best);
    return ok;
}

bool cv_decision_read(const char *checkpoint, CvDecision *decision, Error *error) {
    *decision = (CvDecision){.threshold = 0.5, .temperature = NAN, .views = true};
    json_t *root = decision_read(checkpoint, error);
    if (!root) return !error->text[0];
    const json_t *temperature = json_object_get(root, "temperature"), *views = json_object_get(root, "views");
    double threshold = json_number_value(json_object_get(root, "threshold"));
    bool ok = json_is_real(json_object_get(root, "threshold")) && json_is_boolean(views) &&
              (json_is_null(temperature) || (json_is_real(temperature) && json_real_value(temperature) > 0));
    if (ok) {
        decision->kept = true;
        decision->threshold = threshold;
        if (json_is_real(temperature)) decision->temperature = json_real_value(temperature);
        decision->views = json_is_true(views);
        decision->donors = json_incref(json_object_get(root, "training_donors"));
    } else
        error_set(error, "the decision.json of %s: threshold, temperature or views are missing or senseless",
                  checkpoint);
    json_decref(root);
    return ok;
}
