/* Writes, reads and checks state.json from one table of fields. Doubles are written with 17 digits, which give the same
 * bits back; JSON has no infinity, so a value that is not finite is a text ("inf"). The last member is the checksum of
 * all bytes before it, so that any change is detected. */
#include "checkpoint/state.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"

static const char format_name[] = "train.c checkpoint";
/* 2: data_hash; 3: validations_since_best; 4: extensions; 5: checkpoint, validating, window_*, xxh3_64;
 * 6: base_sum; 7: content_hash, validation_hash; 8: cost */
enum { VERSION = 8 };

typedef enum { WHOLE, BITS, REAL, SINGLE } Kind; /* int64_t, 64 bits of any value, double, float */

#define FIELD(key, member, kind_, count_, low_, high_)                                                                 \
    { .name = key, .offset = offsetof(TrainState, member), .kind = kind_, .count = count_, .low = low_, .high = high_ }
#define UNBOUNDED ((double)INFINITY)
#define ANY       ((double)NAN)

/* A number (count 0) or a list of `count` numbers, each from low to high and not NaN. ANY: any value. */
static const struct Field {
    const char *name;
    size_t offset;
    Kind kind;
    int count;
    double low, high;
} fields[] = {
    FIELD("checkpoint", serial, WHOLE, 0, 0, 1e15),
    FIELD("step", step, WHOLE, 0, 0, 1e15),
    FIELD("micro_step", micro_step, WHOLE, 0, 0, 1e18),
    FIELD("epoch", epoch, WHOLE, 0, 0, 1e9),
    FIELD("batch_index", batch_index, WHOLE, 0, 0, 1e12),
    FIELD("seed", seed, BITS, 0, ANY, ANY),
    FIELD("samples_seen", samples_seen, WHOLE, 0, 0, 4e18),
    FIELD("tokens_seen", tokens_seen, WHOLE, 0, 0, 4e18),
    FIELD("n_samples", n_samples, WHOLE, 0, 0, 1e12),
    FIELD("data_hash", data_hash, BITS, 0, ANY, ANY),
    FIELD("content_hash", content_hash, BITS, 0, ANY, ANY),
    FIELD("validation_hash", validation_hash, BITS, 0, ANY, ANY),
    FIELD("base_sum", base_sum, BITS, 0, ANY, ANY),
    FIELD("skipped_steps", skipped_steps, WHOLE, 0, 0, 1e15),
    FIELD("frozen_rows", frozen_rows, WHOLE, 0, 0, 1e12),
    FIELD("best_step", best_step, WHOLE, 0, 0, 1e15),
    FIELD("validations_since_best", validations_since_best, WHOLE, 0, 0, 1e15),
    FIELD("extensions", extensions, WHOLE, 0, 0, 1e6),
    FIELD("validating", validating, WHOLE, 0, 0, 1),
    FIELD("best", best, REAL, 0, -UNBOUNDED, UNBOUNDED),
    FIELD("seconds", seconds, REAL, 0, 0, 1e12),
    FIELD("cost", cost, REAL, 0, ANY, ANY),
    FIELD("loss_scale", loss_scale, SINGLE, LOSS_SCALE_FIELDS, 0, UNBOUNDED),
    FIELD("window_sums", window_sums, REAL, MODEL_MAX_METRICS, ANY, ANY),
    FIELD("window_counts", window_counts, REAL, BATCH_MAX_COUNTS, 0, UNBOUNDED),
};
enum { N_FIELDS = sizeof fields / sizeof *fields };

/* Pairs of fields, of which the first must not be larger than the second. */
static const struct {
    const char *small, *large;
    size_t small_at, large_at;
} orders[] = {
    {"skipped_steps", "step", offsetof(TrainState, skipped_steps), offsetof(TrainState, step)},
    {"best_step", "step", offsetof(TrainState, best_step), offsetof(TrainState, step)},
    {"step", "micro_step", offsetof(TrainState, step), offsetof(TrainState, micro_step)},
};

/* ---- checks ---- */

static void *place_of(const TrainState *state, const struct Field *field, int i) {
    size_t size = field->kind == SINGLE ? sizeof(float) : sizeof(double);
    return (char *)(uintptr_t)state + field->offset + (size_t)i * size;
}

static bool check_value(const struct Field *field, const void *at, Error *error) {
    bool whole = field->kind == WHOLE || field->kind == BITS;
    double value = field->kind == REAL     ? *(const double *)at
                   : field->kind == SINGLE ? (double)*(const float *)at
                                           : (double)*(const int64_t *)at;
    char text[32];
    if (isnan(field->low) || (value >= field->low && value <= field->high)) return true;
    if (whole) snprintf(text, sizeof text, "%lld", (long long)*(const int64_t *)at);
    if (!whole) snprintf(text, sizeof text, "%.17g", value);
    return error_set(error, "state.json: \"%s\" is %s, and it must be from %.17g to %.17g", field->name, text,
                     field->low, field->high);
}

static bool check_state(const TrainState *state, Error *error) {
    for (int f = 0; f < N_FIELDS; f++)
        for (int i = 0; i < (fields[f].count ? fields[f].count : 1); i++)
            if (!check_value(&fields[f], place_of(state, &fields[f], i), error)) return false;
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        int64_t small = *(const int64_t *)((const char *)state + orders[i].small_at);
        int64_t large = *(const int64_t *)((const char *)state + orders[i].large_at);
        if (small > large)
            return error_set(error, "state.json: \"%s\" is %lld, more than \"%s\", which is %lld", orders[i].small,
                             (long long)small, orders[i].large, (long long)large);
    }
    return true;
}

/* ---- the checksum ---- */

static const char trailer_format[] = ",\n  \"xxh3_64\": \"%016llx\"\n}";
enum { TRAILER = sizeof trailer_format - sizeof "%016llx" + 16 };

static void make_trailer(char trailer[TRAILER + 1], const char *text, size_t size) {
    snprintf(trailer, TRAILER + 1, trailer_format, (unsigned long long)checksum(0, text, size));
}

static bool check_trailer(const char *text, size_t size, Error *error) {
    char trailer[TRAILER + 1];
    size_t body = size < TRAILER ? 0 : size - TRAILER;
    make_trailer(trailer, text, body);
    return (size >= TRAILER && !memcmp(text + body, trailer, TRAILER)) ||
           error_set(error, "state.json is damaged: it does not have the checksum that it was written with");
}

/* ---- writing ---- */

static json_t *real_to_json(double value) {
    if (isfinite(value)) return json_real(value);
    return json_string(isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
}

static json_t *value_to_json(const struct Field *field, const void *at) {
    return field->kind == REAL     ? real_to_json(*(const double *)at)
           : field->kind == SINGLE ? real_to_json((double)*(const float *)at)
                                   : json_integer(*(const int64_t *)at);
}

static json_t *field_to_json(const struct Field *field, const TrainState *state) {
    if (!field->count) return value_to_json(field, place_of(state, field, 0));
    json_t *list = json_array();
    for (int i = 0; i < field->count; i++) json_array_append_new(list, value_to_json(field, place_of(state, field, i)));
    return list;
}

char *state_to_json(const TrainState *state) {
    MUST(check_state(state, &error));
    json_auto_t *root = json_build("state.json", "{s:s, s:i, s:s}", "format", format_name, "version", VERSION,
                                   "revision", state->revision);
    json_t *device = json_string(state->device); /* NULL: a library's path in it is no UTF-8 */
    json_object_set_new(root, "device", device ? device : json_null());
    if (state->sums_by[0]) json_object_set_new(root, "sums_by", json_string(state->sums_by));
    for (int i = 0; i < N_FIELDS; i++) json_object_set_new(root, fields[i].name, field_to_json(&fields[i], state));
    json_t *metrics = json_object(), *options = json_loads(state->options_json ? state->options_json : "{}", 0, NULL);
    for (int i = 0; i < state->n_metrics; i++)
        if (state->metric_names[i][0]) /* the name is empty until the metric is measured */
            json_object_set_new(metrics, state->metric_names[i], real_to_json(state->metric_values[i]));
    json_object_set_new(root, "metrics", metrics);
    if (!options || json_object_set_new(root, "options", options)) die("the options of the run are no JSON object");
    char *text = json_text("state.json", root, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
    size_t body = strlen(text) - strlen("\n}");
    char *complete = realloc(text, body + TRAILER + 1);
    if (complete)
        make_trailer(complete + body, complete, body);
    else
        die("out of memory for state.json");
    return complete;
}

/* ---- reading ---- */

static bool json_to_real(const json_t *json, double *value) {
    const char *text = json_string_value(json);
    *value = text ? strtod(text, NULL) : json_number_value(json);
    return json_is_number(json) || (text && (!strcmp(text, "nan") || !strcmp(text, "inf") || !strcmp(text, "-inf")));
}

static bool read_value(const struct Field *field, const json_t *json, void *at, Error *error) {
    double real;
    bool is_real = field->kind == REAL || field->kind == SINGLE;
    if (is_real ? !json_to_real(json, &real) : !json_is_integer(json))
        return error_set(error, "state.json: \"%s\" is missing, or not %s%s", field->name,
                         field->count ? "a list of " : "", is_real ? "a number" : "a whole number");
    if (field->kind == REAL)
        *(double *)at = real;
    else if (field->kind == SINGLE)
        *(float *)at = (float)real;
    else
        *(int64_t *)at = json_integer_value(json);
    return true;
}

static bool read_field(const struct Field *field, const json_t *json, TrainState *state, Error *error) {
    if (!field->count) return read_value(field, json, place_of(state, field, 0), error);
    if (!json_is_array(json) || json_array_size(json) != (size_t)field->count)
        return error_set(error, "state.json: \"%s\" is not a list of %d numbers", field->name, field->count);
    for (int i = 0; i < field->count; i++)
        if (!read_value(field, json_array_get(json, (size_t)i), place_of(state, field, i), error)) return false;
    return true;
}

static bool read_metrics(const json_t *metrics, TrainState *state, Error *error) {
    const char *name;
    json_t *value;
    const int most = sizeof state->metric_values / sizeof *state->metric_values;
    if (!json_is_object(metrics)) return error_set(error, "state.json: \"metrics\" is missing, or no object");
    json_object_foreach((json_t *)(uintptr_t)metrics, name, value) {
        if (state->n_metrics == most) return error_set(error, "state.json: \"metrics\" has more than %d entries", most);
        char *copy = state->metric_names[state->n_metrics];
        if (snprintf(copy, sizeof state->metric_names[0], "%s", name) >= (int)sizeof state->metric_names[0])
            return error_set(error, "state.json: \"metrics\": the name '%.40s...' is too long", name);
        if (!json_to_real(value, &state->metric_values[state->n_metrics++]))
            return error_set(error, "state.json: \"metrics\": '%s' is not a number", name);
    }
    return true;
}

static bool read_fields(const json_t *root, TrainState *state, Error *error) {
    *state = (TrainState){0};
    for (int i = 0; i < N_FIELDS; i++)
        if (!read_field(&fields[i], json_object_get(root, fields[i].name), state, error)) return false;
    if (!check_state(state, error) || !read_metrics(json_object_get(root, "metrics"), state, error)) return false;
    const char *revision = json_string_value(json_object_get(root, "revision")),
               *device = json_string_value(json_object_get(root, "device")),
               *sums_by = json_string_value(json_object_get(root, "sums_by"));
    const json_t *options = json_object_get(root, "options");
    if (!revision || strlen(revision) >= sizeof state->revision)
        return error_set(error, "state.json: \"revision\" is missing, or not a text of fewer than %zu bytes",
                         sizeof state->revision);
    if (!json_is_object(options)) return error_set(error, "state.json: \"options\" is missing, or no object");
    snprintf(state->revision, sizeof state->revision, "%s", revision);
    snprintf(state->device, sizeof state->device, "%s", device ? device : "");
    snprintf(state->sums_by, sizeof state->sums_by, "%s", sums_by ? sums_by : "");
    state->options_json = json_dumps(options, JSON_REAL_PRECISION(17));
    return state->options_json || error_set(error, "out of memory for state.json");
}

static bool check_version(const json_t *root, Error *error) {
    const char *format = json_string_value(json_object_get(root, "format"));
    json_int_t version = json_integer_value(json_object_get(root, "version"));
    if (!format || strcmp(format, format_name))
        return error_set(error, "state.json does not belong to a checkpoint of this program");
    return version == VERSION ||
           error_set(
               error,
               "state.json is of version %lld, and this program reads %d: go on with the program that wrote it%s, "
               "or start a new run in another directory from its weights (its model.safetensors, by "
               "--base-checkpoint)",
               (long long)version, VERSION, version > VERSION ? ", which is newer" : "");
}

bool state_parse(const char *text, size_t size, TrainState *state, Error *error) {
    json_auto_t *root = json_parse(text, size, JSON_REJECT_DUPLICATES, error);
    if (!root) return error_before(error, "state.json, ");
    return check_version(root, error) && check_trailer(text, size, error) && read_fields(root, state, error);
}

static bool path_in(char out[PATH_MAX], const char *directory, const char *name) {
    return snprintf(out, PATH_MAX, "%s/%s", directory, name) < PATH_MAX;
}

bool state_read(const char *path, TrainState *state, Error *error) {
    char file[PATH_MAX];
    OWNED char *text = NULL;
    size_t size;
    if (!path_in(file, path, "state.json")) return error_set(error, "the path is too long");
    if (!read_file(file, &text, &size, error))
        return error_before(error, "no checkpoint: cannot read its state.json: ");
    return state_parse(text, size, state, error);
}

bool checkpoint_is_whole(const char *path, TrainState *state, Error *error) {
    static const char *const names[] = {"model.safetensors", "optimizer.safetensors"};
    char file[PATH_MAX];
    bool ok = state_read(path, state, error);
    for (int i = 0; i < 2 && ok; i++)
        if (!path_in(file, path, names[i]) || access(file, R_OK)) {
            free(state->options_json);
            state->options_json = NULL;
            ok = error_set(error, "cannot read its %s: %s", names[i], strerror(errno));
        }
    return ok;
}
