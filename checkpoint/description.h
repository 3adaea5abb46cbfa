/* The files beside the weights of a checkpoint, for those who use them without the command that trained them.
 *
 * config.json says what the weights are:
 *   {"format": 1, "version": "0.2.0", "model": "psd_classifier", "parameters": 10524, "options": {"d-model": 32, ...},
 *    "labels": [...], and the program's facts: sizes, hashes of other files}
 * decision.json says how decisions follow from the outputs. It is added when that is known: after a test, which chooses
 * a threshold, or a calibration.
 *   {"format": 1, "version": "0.2.0", "weights": "b2a1...", and what the program decides by} */
#pragma once

#include "base/options.h"
#include "model/model.h"

/* A size, or the hash of another file, that no option says. */
typedef struct {
    const char *name, *text; /* text: NULL, if the fact is a number */
    int64_t number;
} Fact;

/* Returns the text or the number. */
json_t *fact_to_json(const Fact *fact);

/* The part of config.json that a program fills in. */
typedef struct {
    const char *const *options; /* names of the options that decide what the model computes; ends with NULL; or NULL */
    const char *const *labels;  /* [n_labels] names of the classes */
    int n_labels;
    const Fact *facts; /* [n_facts]; a run whose facts have changed is not resumed */
    int n_facts;
} Description;

/* Returns the text of config.json; free(). */
char *description_text(const Description *description, const Model *model, const OptionSet *set);

/* Type and range of a fact. */
typedef struct {
    const char *name;
    int64_t least, most; /* of a whole number; both 0: the fact is a text */
} FactRule;

/* Rules for the config.json of a program. */
typedef struct {
    const char *model;         /* name of the model, or its beginning before a "_" */
    const char *const *labels; /* [n_labels] the only names of classes; n_labels 0: any */
    int n_labels;
    const FactRule *facts; /* ends with a name that is NULL; NULL: none */
} DescriptionRules;

/* Reads the config.json of a checkpoint's folder, or the one beside a checkpoint's file; json_decref(). NULL with an
 * empty error if there is none, and with the reason if it cannot be used: every field but the options has the type and
 * the range of the rules. Warns of a file of another program, which counts as none. */
json_t *description_read(const char *checkpoint, const DescriptionRules *rules, Error *error);
/* Checks the part of a config.json that an export contains, too: options, labels and facts. */
bool description_check(const json_t *description, const DescriptionRules *rules, Error *error);

/* Writes decision.json into a checkpoint's folder, for its present weights. Takes `decision`, an object. */
bool decision_write(const char *checkpoint, json_t *decision, Error *error);
/* Reads the decision.json of a checkpoint's folder, or the one beside a checkpoint's file; json_decref(). NULL with an
 * empty error if there is none, and with the reason if it cannot be used, for instance because it is of other weights.
 * The fields by which the program decides are not checked. */
json_t *decision_read(const char *checkpoint, Error *error);
