#include "commands/threshold_decision.h"

#include <math.h>
#include <stdlib.h>

#include "checkpoint/description.h"

json_t *threshold_decision_to_json(const ThresholdDecision *d, const char *positive) {
    bool at_threshold = !isnan(d->threshold);
    char *text = at_threshold ? xformat("%s if p > threshold", positive) : xstrdup("the most probable class");
    json_t *root =
        json_build("the decision", "{s:o, s:s, s:o, s:o}", "threshold", real_or_null(d->threshold), "decision", text,
                   "rule", at_threshold ? json_string(THRESHOLD_RULE_NAMES[d->rule]) : json_null(), "temperature",
                   real_or_null(d->temperature));
    free(text);
    return root;
}

/* Sets *out to a number or, of null, to NaN. Returns whether it is one of them, and there. */
static bool read_real(const json_t *value, double *out) {
    *out = json_is_real(value) ? json_real_value(value) : (double)NAN;
    return json_is_real(value) || json_is_null(value);
}

bool threshold_decision_read(const char *checkpoint, ThresholdDecision *d, json_t **root, Error *error) {
    *d = (ThresholdDecision){.threshold = 0.5, .temperature = NAN};
    *root = decision_read(checkpoint, error);
    if (!*root) return !error->text[0];
    d->kept = true;
    if (read_real(json_object_get(*root, "threshold"), &d->threshold) &&
        read_real(json_object_get(*root, "temperature"), &d->temperature) && !(d->temperature <= 0))
        return true;
    json_decref(*root);
    *root = NULL;
    return error_set(error, "the decision.json of %s: threshold or temperature are missing or senseless", checkpoint);
}
