/* The decision.json of a classifier: the threshold that validation rows chose, if it has two classes, and the
 * temperature.
 */
#pragma once

#include "base/json.h"
#include "report/threshold.h"

typedef struct {
    bool kept;          /* false: there is no decision.json; the threshold is 0.5 */
    ThresholdRule rule; /* that chose the threshold; only for writing */
    double threshold;   /* the second class if p > threshold; NaN: the most probable class */
    double temperature; /* probabilities of logits / temperature are calibrated; NaN: there is none */
} ThresholdDecision;

/* Returns the decision as an object, to which the program may add: "threshold", "decision", "rule" and "temperature".
 * positive: the name of the second class. */
json_t *threshold_decision_to_json(const ThresholdDecision *decision, const char *positive);
/* Reads the decision of a checkpoint of so many classes, two of which have a threshold, and more have none. Without a
 * decision.json the threshold is 0.5, and *root is NULL. Sets *root to all of it, json_decref(). False with the reason
 * if it cannot be used; then there is nothing to release. */
bool threshold_decision_read(const char *checkpoint, int classes, ThresholdDecision *decision, json_t **root,
                             Error *error);
