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
    char *best = cv_fold_best(f, error);
    if (!best) return false;
    const ThresholdDecision chosen = {.rule = t->rule, .threshold = t->value, .temperature = result->temperature};
    json_t *decision = threshold_decision_to_json(&chosen, FLIM_CLASS_NAMES[1]);
    json_object_update_new(decision, json_build(best, "{s:b, s:o, s:o}", "views", f->run.tta, "training_donors",
                                                donors_of(f, FLIM_TRAIN), "validation_donors", donors_of(f, FLIM_VAL)));
    bool ok = decision_write(best, decision, error);
    free(best);
    return ok;
}

bool cv_decision_read(const char *checkpoint, CvDecision *decision, Error *error) {
    json_t *root;
    *decision = (CvDecision){.views = true};
    if (!threshold_decision_read(checkpoint, &decision->chosen, &root, error) || !root) return !root && !error->text[0];
    const json_t *views = json_object_get(root, "views");
    bool ok = (json_is_boolean(views) && !isnan(decision->chosen.threshold)) ||
              error_set(error, "the decision.json of %s: threshold or views are missing or senseless", checkpoint);
    decision->views = json_is_true(views);
    if (ok) decision->donors = json_incref(json_object_get(root, "training_donors"));
    json_decref(root);
    return ok;
}
