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
    json_t *root =
        json_build(DESCRIPTION_FILE, "{s:i, s:s, s:s, s:I, s:o}", "format", FORMAT, "version", version_number, "model",
                   model->name, "parameters", (json_int_t)params_count(&model->params), "options", options);
    json_t *labels = json_array();
    for (int i = 0; i < d->n_labels; i++) json_array_append_new(labels, json_string(d->labels[i]));
    if (d->n_labels) json_object_set(root, "labels", labels);
    json_decref(labels);
    for (int i = 0; i < d->n_facts; i++) json_object_set_new(root, d->facts[i].name, fact_to_json(&d->facts[i]));
    json_sum_set(root, DIGITS, 0);
    char *text = json_text(DESCRIPTION_FILE, root, JSON_INDENT(1) | JSON_REAL_PRECISION(DIGITS));
    json_decref(root);
    return text;
}

/* Returns the path of a file in a checkpoint's folder, or beside a checkpoint's file; free(). */
static char *path_of(const char *checkpoint, const char *name) {
    char *folder = checkpoint_folder(checkpoint), *path = path_join(folder, name);
    free(folder);
    return path;
}

/* Reads a file of this format; json_decref(). NULL with an empty error if there is none. */
static json_t *read_beside(const char *checkpoint, const char *name, Error *error) {
    Error why;
    char *path = path_of(checkpoint, name);
    error_set(error, "%s", "");
    bool there = !access(path, F_OK);
    json_t *root = there ? json_read(path, 0, &why) : NULL;
    if (root && !(json_object_get(root, "format") && json_object_get(root, "version"))) {
        warn("%s is of another program, and is not read", path);
        json_decref(root);
        free(path);
        return NULL;
    }
    bool ok = root != NULL && json_sum_check(root, DIGITS, 0, &why);
    if (ok && json_integer_value(json_object_get(root, "format")) != FORMAT)
        ok = error_set(&why, "expected \"format\": %d", FORMAT);
    if (there && !ok) error_set(error, "%s: %s", path, why.text);
    free(path);
    if (ok) return root;
    json_decref(root);
    return NULL;
}

json_t *description_read(const char *checkpoint, Error *error) {
    Error why;
    json_t *root = read_beside(checkpoint, DESCRIPTION_FILE, error);
    if (!root || description_check(root, &why)) return root;
    json_decref(root);
    error_set(error, "the config.json of %s: %s", checkpoint, why.text);
    return NULL;
}

bool description_check(const json_t *description, Error *error) {
    const json_t *labels = json_object_get(description, "labels"), *model = json_object_get(description, "model"),
                 *label;
    size_t i;
    Error why;
    if (!json_is_object(json_object_get(description, "options")))
        return error_set(error, "\"options\" is missing, or no object");
    if (model && !json_is_string(model)) return error_set(error, "\"model\" is no text");
    if (labels && !json_is_array(labels)) return error_set(error, "\"labels\" is no array of names");
    json_array_foreach(labels, i, label) {
        if (!json_string_length(label)) return error_set(error, "entry %zu of \"labels\" is no name", i);
        if (!label_check(json_string_value(label), &why))
            return error_set(error, "entry %zu of \"labels\": %s", i, why.text);
    }
    return true;
}

static void refuse_fact(const char *checkpoint, const char *name, const char *expected, const json_t *found) {
    char *text = json_text(name, found, JSON_ENCODE_ANY);
    die("the config.json of %s: \"%s\": expected %s, found %.64s", checkpoint, name, expected, text);
}

const char *description_fact_text(const json_t *description, const char *checkpoint, const char *name) {
    const json_t *fact = json_object_get(description, name);
    if (fact && !json_is_string(fact)) refuse_fact(checkpoint, name, "a text", fact);
    return json_string_value(fact);
}

int64_t description_fact_number(const json_t *description, const char *checkpoint, const char *name) {
    const json_t *fact = json_object_get(description, name);
    if (fact && json_integer_value(fact) < 1) refuse_fact(checkpoint, name, "a whole number above 0", fact);
    return json_integer_value(fact);
}

/* ---- decision.json ---- */

/* Writes the checksum of a checkpoint's weights: the one that the file states, or else that of its tensors. */
static bool weights_sum(const char *checkpoint, char text[17], Error *error) {
    TensorFile file;
    if (!checkpoint_open_base(checkpoint, &file, error)) return false;
    uint64_t sum = checkpoint_base_sum(&file);
    for (int i = 0; !checkpoint_base_sum(&file) && i < file.n_tensors; i++) {
        const StoredTensor *t = &file.tensors[i];
        sum = checksum(checksum(sum, t->name, strlen(t->name)), t->data, t->bytes);
    }
    snprintf(text, 17, "%016llx", (unsigned long long)sum);
    tensor_file_close(&file);
    return true;
}

bool decision_write(const char *checkpoint, json_t *decision, Error *error) {
    char sum[17], *path = path_of(checkpoint, DECISION_FILE), *folder = path_directory(path);
    bool ok = weights_sum(checkpoint, sum, error);
    directory_remove_leftovers(folder);
    free(folder);
    if (ok) {
        json_object_update_new(
            decision, json_build(path, "{s:i, s:s, s:s}", "format", FORMAT, "version", version_number, "weights", sum));
        json_sum_set(decision, DIGITS, 0);
        char *text = json_text(path, decision, JSON_INDENT(1) | JSON_REAL_PRECISION(DIGITS));
        ok = file_write_atomic(path, text, strlen(text), error);
        free(text);
    }
    json_decref(decision);
    free(path);
    return ok;
}

json_t *decision_read(const char *checkpoint, Error *error) {
    char sum[17];
    Error why;
    json_t *root = read_beside(checkpoint, DECISION_FILE, error);
    if (!root) return NULL;
    const char *of = json_string_value(json_object_get(root, "weights"));
    bool ok = weights_sum(checkpoint, sum, &why);
    if (ok && (!of || strcmp(of, sum) != 0))
        ok = error_set(&why, "it was made for other weights (%s) than those beside it (%s)", of ? of : "?", sum);
    if (ok) return root;
    json_decref(root);
    error_set(error, "the decision.json of %s: %s", checkpoint, why.text);
    return NULL;
}
