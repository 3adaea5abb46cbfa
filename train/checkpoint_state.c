/* state.json and back, by one table of fields. Doubles are written with 17 digits, which give the same bits back; JSON
 * has no infinity, so a value that is not finite is a text ("inf"). Nothing here is counted as an allocation of the
 * training loop: the library has its own. */
#include "train/checkpoint_state.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char mark[] = "train.c checkpoint";
enum { VERSION = 4 }; /* 2: data_hash; 3: validations_since_best; 4: extensions */

/* Whole numbers (the seed by its 64 bits), then doubles. */
static const struct {
    const char *name;
    size_t offset;
    bool real;
} fields[] = {
    {"step", offsetof(TrainState, step), false},
    {"micro_step", offsetof(TrainState, micro_step), false},
    {"epoch", offsetof(TrainState, epoch), false},
    {"batch_index", offsetof(TrainState, batch_index), false},
    {"seed", offsetof(TrainState, seed), false},
    {"samples_seen", offsetof(TrainState, samples_seen), false},
    {"tokens_seen", offsetof(TrainState, tokens_seen), false},
    {"n_samples", offsetof(TrainState, n_samples), false},
    {"data_hash", offsetof(TrainState, data_hash), false},
    {"skipped_steps", offsetof(TrainState, skipped_steps), false},
    {"frozen_rows", offsetof(TrainState, frozen_rows), false},
    {"best_step", offsetof(TrainState, best_step), false},
    {"validations_since_best", offsetof(TrainState, worse), false},
    {"extensions", offsetof(TrainState, extensions), false},
    {"best", offsetof(TrainState, best), true},
    {"seconds", offsetof(TrainState, seconds), true},
};
enum { N_FIELDS = sizeof fields / sizeof *fields };

static json_t *real_to_json(double value) {
    if (isfinite(value)) return json_real(value);
    return json_string(isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
}

static bool json_to_real(const json_t *json, double *value) {
    const char *text = json_string_value(json);
    *value = text ? strtod(text, NULL) : json_number_value(json);
    return json_is_number(json) || (text && (!strcmp(text, "nan") || !strcmp(text, "inf") || !strcmp(text, "-inf")));
}

char *state_to_json(const TrainState *state) {
    json_t *root = json_pack("{s:s, s:i, s:s}", "format", mark, "version", VERSION, "revision", state->revision);
    for (int i = 0; i < N_FIELDS; i++) {
        const void *value = (const char *)state + fields[i].offset;
        json_object_set_new(root, fields[i].name,
                            fields[i].real ? real_to_json(*(const double *)value)
                                           : json_integer(*(const int64_t *)value));
    }
    json_t *metrics = json_object(), *options = json_loads(state->options_json ? state->options_json : "{}", 0, NULL);
    for (int i = 0; i < state->n_metrics; i++)
        if (state->metric_names[i][0]) /* measured yet */
            json_object_set_new(metrics, state->metric_names[i], real_to_json(state->metric_values[i]));
    json_t *scale = json_array();
    for (int i = 0; i < LOSS_SCALE_FIELDS; i++)
        json_array_append_new(scale, real_to_json((double)state->loss_scale[i]));
    json_object_set_new(root, "loss_scale", scale);
    json_object_set_new(root, "metrics", metrics);
    if (!options || json_object_set_new(root, "options", options)) die("the options of the run are no JSON object");
    char *text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
    json_decref(root);
    if (!text) die("out of memory for state.json");
    return text;
}

static bool read_metrics(const json_t *metrics, TrainState *state, Error *error) {
    const char *name;
    json_t *value;
    const int most = sizeof state->metric_values / sizeof *state->metric_values;
    json_object_foreach((json_t *)metrics, name, value) {
        if (state->n_metrics == most) return error_set(error, "state.json has more than %d metrics", most);
        char *copy = state->metric_names[state->n_metrics];
        if (snprintf(copy, sizeof state->metric_names[0], "%s", name) >= (int)sizeof state->metric_names[0])
            return error_set(error, "state.json: the metric '%.40s...' has too long a name", name);
        if (!json_to_real(value, &state->metric_values[state->n_metrics++]))
            return error_set(error, "state.json: metric '%s' is no number", name);
    }
    return true;
}

static bool read_fields(const json_t *root, TrainState *state, Error *error) {
    *state = (TrainState){0};
    for (int i = 0; i < N_FIELDS; i++) {
        const json_t *value = json_object_get(root, fields[i].name);
        void *field = (char *)state + fields[i].offset;
        if (fields[i].real ? !json_to_real(value, field) : !json_is_integer(value))
            return error_set(error, "state.json: \"%s\" is missing or no number", fields[i].name);
        if (!fields[i].real) *(int64_t *)field = json_integer_value(value);
    }
    const char *revision = json_string_value(json_object_get(root, "revision"));
    const json_t *options = json_object_get(root, "options");
    if (!revision || !json_is_object(options))
        return error_set(error, "state.json: \"revision\" or \"options\" is missing");
    snprintf(state->revision, sizeof state->revision, "%s", revision);
    for (size_t i = 0; i < LOSS_SCALE_FIELDS; i++) {
        double value;
        if (!json_to_real(json_array_get(json_object_get(root, "loss_scale"), i), &value))
            return error_set(error, "state.json: \"loss_scale\" is missing or no list of %d numbers",
                             LOSS_SCALE_FIELDS);
        state->loss_scale[i] = (float)value;
    }
    if (!read_metrics(json_object_get(root, "metrics"), state, error)) return false;
    state->options_json = json_dumps(options, JSON_REAL_PRECISION(17));
    return true;
}

static bool path_in(char out[PATH_MAX], const char *directory, const char *name) {
    return snprintf(out, PATH_MAX, "%s/%s", directory, name) < PATH_MAX;
}

bool state_read(const char *path, TrainState *state, Error *error) {
    char file[PATH_MAX];
    json_error_t where;
    if (!path_in(file, path, "state.json")) return error_set(error, "the path is too long");
    if (access(file, R_OK)) return error_set(error, "no checkpoint: cannot read its state.json: %s", strerror(errno));
    json_t *root = json_load_file(file, JSON_REJECT_DUPLICATES, &where);
    if (!root) return error_set(error, "state.json, line %d, column %d: %s", where.line, where.column, where.text);
    const char *format = json_string_value(json_object_get(root, "format"));
    json_int_t version = json_integer_value(json_object_get(root, "version"));
    bool good = true;
    if (!format || strcmp(format, mark))
        good = error_set(error, "state.json is not one of a checkpoint of this program");
    else if (version != VERSION)
        good = error_set(error,
                         "state.json is of version %lld, and this program reads %d: go on with the program that wrote "
                         "it, or start a new run from its weights with --base-checkpoint",
                         (long long)version, VERSION);
    else if (state)
        good = read_fields(root, state, error);
    json_decref(root);
    return good;
}

bool checkpoint_is_whole(const char *path, Error *error) {
    static const char *const names[] = {"model.safetensors", "optimizer.safetensors"};
    char file[PATH_MAX];
    if (!state_read(path, NULL, error)) return false;
    for (int i = 0; i < 2; i++)
        if (!path_in(file, path, names[i]) || access(file, R_OK))
            return error_set(error, "cannot read its %s: %s", names[i], strerror(errno));
    return true;
}
