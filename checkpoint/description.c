#include "checkpoint/description.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/version.h"
#include "checkpoint/folder.h"
#include "checkpoint/load.h"
#include "data/text/label.h"
#include "model/params.h"

enum { FORMAT = 1, DIGITS = 17 };

json_t *fact_to_json(const Fact *fact) { return fact->text ? json_string(fact->text) : json_integer(fact->number); }

char *description_text(const Description *d, const Model *model, const OptionSet *set) {
    json_t *options = json_object();
    for (const char *const *name = d->options; name && *name; name++) {
        const Option *option = options_find(set, *name);
        if (option) json_object_set_new(options, *name, option_to_json(option));
    }
    json_auto_t *root =
        json_build(DESCRIPTION_FILE, "{s:i, s:s, s:s, s:I, s:o}", "format", FORMAT, "version", version_number, "model",
                   model->name, "parameters", (json_int_t)params_count(&model->params), "options", options);
    json_auto_t *labels = json_array();
    for (int i = 0; i < d->n_labels; i++) json_array_append_new(labels, json_string(d->labels[i]));
    if (d->n_labels) json_object_set(root, "labels", labels);
    for (int i = 0; i < d->n_facts; i++) json_object_set_new(root, d->facts[i].name, fact_to_json(&d->facts[i]));
    json_sum_set(root, DIGITS, 0);
    return json_text(DESCRIPTION_FILE, root, JSON_INDENT(1) | JSON_REAL_PRECISION(DIGITS));
}

/* Returns the path of a file in a checkpoint's folder, or beside a checkpoint's file; free(). */
static char *path_of(const char *checkpoint, const char *name) {
    OWNED char *folder = checkpoint_folder(checkpoint);
    return path_join(folder, name);
}

/* ---- reading ---- */

/* Fields of both files, in all versions. */
static const FactRule head[] = {{"format", FORMAT, FORMAT}, {"version", 0, 0}, {NULL, 0, 0}};

static bool fact_check(const json_t *root, const FactRule *rule, bool required, Error *error) {
    const json_t *fact = json_object_get(root, rule->name);
    int64_t number = json_integer_value(fact);
    bool text = !rule->least && !rule->most;
    if (!fact && !required) return true;
    if (text ? json_is_string(fact) : json_is_integer(fact) && number >= rule->least && number <= rule->most)
        return true;
    OWNED char *expected = text                        ? xstrdup("a text")
                           : rule->least == rule->most ? xformat("%lld", (long long)rule->least)
                                                       : xformat("a whole number from %lld to %lld",
                                                                 (long long)rule->least, (long long)rule->most);
    return json_refuse(error, rule->name, expected, fact);
}

static bool facts_check(const json_t *root, const FactRule *rules, bool required, Error *error) {
    for (; rules && rules->name; rules++)
        if (!fact_check(root, rules, required, error)) return false;
    return true;
}

/* Returns whether a config.json is of another program: it has at most two of the fields that all of ours have. An empty
 * object is damage. decision.json is a name of ours alone. */
static bool is_foreign(const json_t *root) {
    static const char *const ours[] = {"format", "version", "model", "parameters", "options", "xxh3_64"};
    int n = 0;
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) n += json_object_get(root, ours[i]) != NULL;
    return json_object_size(root) && n < 3;
}

/* Reads a file of this format; json_decref(). NULL with an empty error if there is none. */
static json_t *read_beside(const char *checkpoint, const char *name, Error *error) {
    OWNED char *path = path_of(checkpoint, name);
    error_set(error, "%s", "");
    bool there = !access(path, F_OK);
    json_auto_t *root = there ? json_read(path, 0, error) : NULL;
    bool foreign = root && !strcmp(name, DESCRIPTION_FILE) && is_foreign(root);
    bool ok = root && !foreign && (json_is_object(root) || error_set(error, "expected an object {...}")) &&
              json_sum_check(root, DIGITS, 0, error) && facts_check(root, head, true, error);
    if (foreign)
        warn("%s is of another program, and is not read", path);
    else if (there && !ok)
        error_before(error, "%s: ", path);
    return ok ? json_incref(root) : NULL;
}

static bool model_check(const json_t *model, const char *expected, Error *error) {
    const char *name = json_string_value(model);
    size_t n = strlen(expected);
    if (name && !strncmp(name, expected, n) && (!name[n] || name[n] == '_')) return true;
    OWNED char *text = xformat("%s (another name is a checkpoint of another model)", expected);
    return json_refuse(error, "model", text, model);
}

json_t *description_read(const char *checkpoint, const DescriptionRules *rules, Error *error) {
    static const FactRule parameters = {"parameters", 1, INT64_MAX};
    json_auto_t *root = read_beside(checkpoint, DESCRIPTION_FILE, error);
    if (!root || (model_check(json_object_get(root, "model"), rules->model, error) &&
                  fact_check(root, &parameters, true, error) && description_check(root, rules, error)))
        return json_incref(root);
    error_before(error, "the config.json of %s: ", checkpoint);
    return NULL;
}

/* Checks the names of the classes, if there are any. */
static bool labels_check(const json_t *labels, const DescriptionRules *rules, Error *error) {
    const json_t *label;
    size_t i, n = (size_t)rules->n_labels;
    if (!labels) return true;
    if (!json_is_array(labels)) return json_refuse(error, "labels", "an array of names", labels);
    if (n && json_array_size(labels) != n)
        return error_set(error, "\"labels\": expected %zu names, found %zu", n, json_array_size(labels));
    json_array_foreach(labels, i, label) {
        if (!json_string_length(label)) return error_set(error, "entry %zu of \"labels\" is no name", i);
        if (!label_check(json_string_value(label), error)) return error_before(error, "entry %zu of \"labels\": ", i);
        if (n && strcmp(json_string_value(label), rules->labels[i]) != 0)
            return error_set(error, "entry %zu of \"labels\": expected \"%s\", found \"%.64s\"", i, rules->labels[i],
                             json_string_value(label));
    }
    return true;
}

bool description_check(const json_t *description, const DescriptionRules *rules, Error *error) {
    const json_t *options = json_object_get(description, "options");
    if (!json_is_object(options)) return json_refuse(error, "options", "an object", options);
    return labels_check(json_object_get(description, "labels"), rules, error) &&
           facts_check(description, rules->facts, false, error);
}

/* ---- decision.json ---- */

/* Writes the checksum of a checkpoint's weights: the one that the file states, or else that of its tensors. */
static bool weights_sum(const char *checkpoint, char text[17], Error *error) {
    OWNED_BY(tensor_file_close) TensorFile file = {0};
    if (!checkpoint_open_base(checkpoint, &file, error)) return false;
    uint64_t sum = checkpoint_base_sum(&file);
    for (int i = 0; !checkpoint_base_sum(&file) && i < file.n_tensors; i++) {
        const StoredTensor *t = &file.tensors[i];
        sum = checksum(checksum(sum, t->name, strlen(t->name)), t->data, t->bytes);
    }
    snprintf(text, 17, "%016llx", (unsigned long long)sum);
    return true;
}

bool decision_write(const char *checkpoint, json_t *decision, Error *error) {
    char sum[17];
    json_auto_t *written = decision;
    OWNED char *path = path_of(checkpoint, DECISION_FILE);
    OWNED char *folder = path_directory(path);
    bool ok = weights_sum(checkpoint, sum, error);
    directory_remove_leftovers(folder);
    if (!ok) return false;
    json_object_update_new(
        written, json_build(path, "{s:i, s:s, s:s}", "format", FORMAT, "version", version_number, "weights", sum));
    json_sum_set(written, DIGITS, 0);
    return json_write_file(path, written, JSON_INDENT(1) | JSON_REAL_PRECISION(DIGITS), error);
}

json_t *decision_read(const char *checkpoint, Error *error) {
    char sum[17];
    json_auto_t *root = read_beside(checkpoint, DECISION_FILE, error);
    if (!root) return NULL;
    const char *of = json_string_value(json_object_get(root, "weights"));
    bool ok = weights_sum(checkpoint, sum, error);
    if (ok && of && !strcmp(of, sum)) return json_incref(root);
    if (ok) error_set(error, "it was made for other weights (%s) than those beside it (%s)", of ? of : "?", sum);
    error_before(error, "the decision.json of %s: ", checkpoint);
    return NULL;
}
