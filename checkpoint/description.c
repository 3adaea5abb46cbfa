#include "checkpoint/description.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/version.h"
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
        json_build("config.json", "{s:i, s:s, s:s, s:I, s:o}", "format", FORMAT, "version", version_number, "model",
                   model->name, "parameters", (json_int_t)params_count(&model->params), "options", options);
    json_t *labels = json_array();
    for (int i = 0; i < d->n_labels; i++) json_array_append_new(labels, json_string(d->labels[i]));
    if (d->n_labels) json_object_set(root, "labels", labels);
    json_decref(labels);
    for (int i = 0; i < d->n_facts; i++) json_object_set_new(root, d->facts[i].name, fact_to_json(&d->facts[i]));
    json_sum_set(root, DIGITS, 0);
    char *text = json_text("config.json", root, JSON_INDENT(1) | JSON_REAL_PRECISION(DIGITS));
    json_decref(root);
    return text;
}

/* Returns the path of the config.json that belongs to a folder or a file; free(). */
static char *path_of(const char *checkpoint) {
    struct stat status;
    if (!stat(checkpoint, &status) && S_ISDIR(status.st_mode)) return path_join(checkpoint, "config.json");
    char *folder = path_directory(checkpoint), *path = path_join(folder, "config.json");
    free(folder);
    return path;
}

json_t *description_read(const char *checkpoint, Error *error) {
    Error why;
    char *path = path_of(checkpoint);
    error_set(error, "%s", "");
    bool there = !access(path, F_OK);
    json_t *root = there ? json_read(path, 0, &why) : NULL;
    bool ok = root != NULL && json_sum_check(root, DIGITS, 0, &why);
    if (ok && json_integer_value(json_object_get(root, "format")) != FORMAT)
        ok = error_set(&why, "expected \"format\": %d", FORMAT);
    if (ok && !json_is_object(json_object_get(root, "options")))
        ok = error_set(&why, "\"options\" is missing, or no object");
    if (there && !ok) error_set(error, "%s: %s", path, why.text);
    free(path);
    if (ok) return root;
    json_decref(root);
    return NULL;
}
