#include "commands/threshold_decision.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/description.h"

json_t *threshold_decision_to_json(const ThresholdDecision *d, const char *positive) {
    bool at_threshold = !isnan(d->threshold);
    OWNED char *text = at_threshold ? xformat("%s if p > threshold", positive) : xstrdup("the most probable class");
    return json_build("the decision", "{s:o, s:s, s:o, s:o}", "threshold", real_or_null(d->threshold), "decision", text,
                      "rule", at_threshold ? json_string(THRESHOLD_RULE_NAMES[d->rule]) : json_null(), "temperature",
                      real_or_null(d->temperature));
}

/* Sets *out to a number or, of null, to NaN. Returns whether the field is one of those that are allowed. */
static bool read_real(const json_t *root, const char *name, bool number, bool null, double *out, Error *error) {
    const json_t *value = json_object_get(root, name);
    *out = json_is_number(value) ? json_number_value(value) : (double)NAN;
    return (number && json_is_number(value)) || (null && json_is_null(value)) ||
           json_refuse(error, name,
                       number && null ? "a number or null"
                       : number       ? "a number"
                                      : "null",
                       value);
}

/* Reads the rule: null without a threshold, and missing in files of earlier versions. */
static bool read_rule(const json_t *value, ThresholdDecision *d, Error *error) {
    const char *name = json_string_value(value);
    d->rule = THRESHOLD_HALF;
    if (!value || (json_is_null(value) && isnan(d->threshold))) return true;
    while (name && d->rule < THRESHOLD_RULES && strcmp(name, THRESHOLD_RULE_NAMES[d->rule]) != 0) d->rule++;
    return (name && d->rule < THRESHOLD_RULES) || json_refuse(error, "rule", "a rule of this program", value);
}

/* Returns whether a threshold separates probabilities; that of two clusters need not. */
static bool is_bounded(const json_t *rule, const ThresholdDecision *d) {
    return !json_is_string(rule) || d->rule == THRESHOLD_KMEANS || isnan(d->threshold) ||
           (d->threshold > -1e-9 && d->threshold <= 1);
}

static bool decision_check(const json_t *root, int classes, ThresholdDecision *d, Error *error) {
    const json_t *rule = json_object_get(root, "rule"), *text = json_object_get(root, "decision"),
                 *threshold = json_object_get(root, "threshold"), *temperature = json_object_get(root, "temperature");
    if (!read_real(root, "threshold", classes == 2, classes > 2, &d->threshold, error) || !read_rule(rule, d, error) ||
        !read_real(root, "temperature", true, true, &d->temperature, error))
        return false;
    if (text && !json_string_length(text)) return json_refuse(error, "decision", "a text", text);
    if (d->temperature <= 0) return json_refuse(error, "temperature", "a number above 0", temperature);
    return is_bounded(rule, d) || json_refuse(error, "threshold", "0 to 1", threshold);
}

bool threshold_decision_read(const char *checkpoint, int classes, ThresholdDecision *d, json_t **root, Error *error) {
    *d = (ThresholdDecision){.threshold = 0.5, .temperature = NAN};
    *root = decision_read(checkpoint, error);
    if (!*root) return !error->text[0];
    d->kept = true;
    if (decision_check(*root, classes, d, error)) return true;
    json_decref(*root);
    *root = NULL;
    return error_before(error, "the decision.json of %s: ", checkpoint);
}
