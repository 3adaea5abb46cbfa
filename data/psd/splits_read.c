/* Reads split files. Whatever they hold, the ids that come out are existing rows, none of them twice. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "data/psd/splits.h"

static json_t *parse(const char *text, size_t size, Error *error) {
    json_error_t problem;
    json_auto_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &problem);
    if (json_is_object(root)) return json_incref(root);
    if (root)
        error_set(error, "expected a JSON object: train, val and test, or sensors");
    else
        error_set(error, "line %d, column %d: invalid JSON: %s", problem.line, problem.column, problem.text);
    return NULL;
}

static bool take_ids(const json_t *list, const char *name, PsdIds *ids, Error *error) {
    if (!json_is_array(list)) return error_set(error, "'%s' is missing or no list of rows", name);
    ids->n = (int64_t)json_array_size(list);
    ids->at = xmalloc((size_t)ids->n * sizeof *ids->at);
    for (int64_t i = 0; i < ids->n; i++) {
        const json_t *id = json_array_get(list, (size_t)i);
        if (!json_is_integer(id)) return error_set(error, "entry %lld of '%s' is no whole number", (long long)i, name);
        ids->at[i] = json_integer_value(id);
    }
    return true;
}

/* Takes {"train", "val", "test"}, or by shots {"finetune", "test"}. */
static bool take_splits(const json_t *object, bool shots, PsdPartition *partition, Error *error) {
    size_t n = 0;
    for (int split = 0; split < PSD_SPLITS; split++) {
        const char *name = PSD_SPLIT_NAMES[shots][split];
        if (!name) continue;
        if (!take_ids(json_object_get(object, name), name, &partition->splits[split], error)) return false;
        n++;
    }
    return json_object_size(object) == n ||
           error_set(error, "has %zu entries; expected %zu", json_object_size(object), n);
}

/* Lists the keys: "5, 10, 50, 100". */
static const char *keys_text(const json_t *object, char text[128]) {
    int used = 0;
    text[0] = 0;
    for (void *at = json_object_iter((json_t *)(uintptr_t)object); at && used < 100;
         at = json_object_iter_next((json_t *)(uintptr_t)object, at))
        used += snprintf(text + used, (size_t)(128 - used), "%s%.60s", used ? ", " : "", json_object_iter_key(at));
    return text;
}

/* Finds the object of a sensor and a number of shots. */
static bool find_split(const json_t *root, const char *sensor, int shots, const json_t **split, Error *error) {
    char keys[128], number[16];
    bool pooled = json_is_array(json_object_get(root, "test"));
    *split = root;
    if (!sensor && pooled) return true;
    if (!sensor)
        return error_set(
            error,
            "holds a split for each sensor, not one for all; choose a sensor (%s) with --sensor, or all of them "
            "with train_psd run --protocol loso",
            keys_text(root, keys));
    if (pooled) return error_set(error, "holds one split for all sensors; there is none of %.100s alone", sensor);
    const json_t *own = *split = json_object_get(root, sensor);
    if (!own)
        return error_set(error, "has no split for the sensor %.100s; there are %s", sensor, keys_text(root, keys));
    bool has_shots = !json_is_array(json_object_get(own, "test"));
    if (!shots && !has_shots) return true;
    if (!shots || !has_shots)
        return error_set(error, "sensor %.100s: %s", sensor,
                         shots ? "there are no splits by shots" : "there are splits by shots only; choose how many");
    snprintf(number, sizeof number, "%d", shots);
    *split = json_object_get(own, number);
    return *split || error_set(error, "sensor %.100s: there is no split of %s shots, but of %s", sensor, number,
                               keys_text(own, keys));
}

bool psd_partition_parse(const char *text, size_t size, const char *sensor, int shots, int64_t rows,
                         PsdPartition *partition, Error *error) {
    *partition = (PsdPartition){0};
    json_auto_t *root = parse(text, size, error);
    if (!root) return false;
    const json_t *split;
    bool found = find_split(root, sensor, shots, &split, error);
    bool ok = found && take_splits(split, shots > 0, partition, error) && psd_partition_check(partition, rows, error);
    if (found && !ok)
        error_before(error, "%s%.100s%s", sensor ? "sensor " : "", sensor ? sensor : "", sensor ? ": " : "");
    if (!ok) psd_partition_free(partition);
    return ok;
}

bool psd_partition_sensors_parse(const char *text, size_t size, char ***names, int *n, Error *error) {
    json_auto_t *root = parse(text, size, error);
    *names = NULL;
    *n = 0;
    if (!root) return false;
    if (json_object_get(root, "")) return error_set(error, "one of its sensors has an empty name");
    if (json_is_array(json_object_get(root, "test")) || !json_object_size(root))
        return error_set(error, "holds one split for all sensors, none for each");
    *names = xmalloc(json_object_size(root) * sizeof **names);
    for (void *at = json_object_iter(root); at; at = json_object_iter_next(root, at))
        (*names)[(*n)++] = xstrdup(json_object_iter_key(at));
    return true;
}

bool psd_partition_read(const char *path, const char *sensor, int shots, int64_t rows, PsdPartition *partition,
                        Error *error) {
    OWNED char *text = NULL;
    size_t size;
    *partition = (PsdPartition){0};
    return (read_file(path, &text, &size, error) &&
            psd_partition_parse(text, size, sensor, shots, rows, partition, error)) ||
           error_before(error, "%s: ", path);
}

bool psd_partition_sensors_read(const char *path, char ***names, int *n, Error *error) {
    OWNED char *text = NULL;
    size_t size;
    return (read_file(path, &text, &size, error) && psd_partition_sensors_parse(text, size, names, n, error)) ||
           error_before(error, "%s: ", path);
}
