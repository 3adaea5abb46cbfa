#include "commands/cv/decision.h"

#include <stdlib.h>

/* Returns the names of the donors in a split. */
static json_t *donors_of(const CvFold *f, int split) {
    json_t *names = json_array();
    for (int d = 0; d < f->data->columns.n_donors; d++)
        if (f->fold->splits[d] == split) json_array_append_new(names, json_string(f->data->columns.donor_names[d]));
    return names;
}

bool cv_decision_write(const CvFold *f, const FoldResult *result, Error *error) {
    const Threshold *t = &result->threshold;
    OWNED char *best = cv_fold_best(f, error);
    if (!best) return false;
    const ThresholdDecision chosen = {.rule = t->rule, .threshold = t->value, .temperature = result->temperature};
    json_t *decision = threshold_decision_to_json(&chosen, CV_CLASS_NAMES[1]);
    json_object_update_new(decision,
                           json_build(best, "{s:b, s:o, s:o}", "views", f->run.tta, "training_donors",
                                      donors_of(f, CV_SPLIT_TRAIN), "validation_donors", donors_of(f, CV_SPLIT_VAL)));
    return decision_write(best, decision, error);
}

static bool names_check(const json_t *root, const char *name, Error *error) {
    const json_t *names = json_object_get(root, name), *one;
    size_t i;
    bool ok = !names || json_is_array(names);
    json_array_foreach(names, i, one) { ok = ok && json_is_string(one); }
    return ok || json_refuse(error, name, "an array of names", names);
}

static bool decision_check(const json_t *root, Error *error) {
    const json_t *views = json_object_get(root, "views");
    if (!json_is_boolean(views)) return json_refuse(error, "views", "true or false", views);
    return names_check(root, "training_donors", error) && names_check(root, "validation_donors", error);
}

bool cv_decision_read(const char *checkpoint, CvDecision *decision, Error *error) {
    json_auto_t *root = NULL;
    *decision = (CvDecision){.views = true};
    if (!threshold_decision_read(checkpoint, CV_CLASSES, &decision->chosen, &root, error) || !root)
        return !root && !error->text[0];
    bool ok = decision_check(root, error) || error_before(error, "the decision.json of %s: ", checkpoint);
    decision->views = json_is_true(json_object_get(root, "views"));
    if (ok) decision->donors = json_incref(json_object_get(root, "training_donors"));
    return ok;
}
