#include "cost/rates.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"

static const char *const type_names[NUMBER_TYPES] = {"f32", "tf32", "16 bits"};

/* Interpolates linearly over the logarithms. */
static double between(double size, double size0, double size1, double rate0, double rate1) {
    return rate0 * pow(rate1 / rate0, log(size / size0) / log(size1 / size0));
}

double rate_curve_at(const RateCurve *c, double size) {
    int i = 1;
    if (size <= c->size[0] || c->n == 1) return c->rate[0];
    while (i < c->n && c->size[i] < size) i++;
    if (i == c->n) return c->rate[c->n - 1];
    return between(size, c->size[i - 1], c->size[i], c->rate[i - 1], c->rate[i]);
}

double rate_curves_at(const RateCurve *curves, double flops, double bytes) {
    int n = 0, i = 1;
    while (n < CURVES && curves[n].n) n++;
    if (!n) return 0;
    double density = flops / bytes;
    if (!(density > curves[0].density)) return rate_curve_at(curves, flops);
    while (i < n && curves[i].density < density) i++;
    if (i == n) return rate_curve_at(&curves[n - 1], flops);
    return between(density, curves[i - 1].density, curves[i].density, rate_curve_at(&curves[i - 1], flops),
                   rate_curve_at(&curves[i], flops));
}

double rates_best(const Rates *rates, NumberType type) {
    double best = 0;
    for (int i = 0; i < CURVES; i++)
        for (int k = 0; k < rates->flops[WORK_PRODUCT][type][i].n; k++)
            best = fmax(best, rates->flops[WORK_PRODUCT][type][i].rate[k]);
    return best;
}

/* ---- names ---- */

void rates_device_name(const Device *device, char name[128]) {
    char line[128], model[96] = "";
    if (device->product[0]) {
        snprintf(name, 128, "%s", device->product);
        return;
    }
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file && !model[0] && fgets(line, sizeof line, file)) sscanf(line, "model name : %95[^\n]", model);
    if (file) fclose(file);
    struct utsname system;
    if (!model[0]) snprintf(model, sizeof model, "%.60s CPU", uname(&system) ? "unknown" : system.machine);
    snprintf(name, 128, "%s, %d thread%s", model, device->n_threads, device->n_threads == 1 ? "" : "s");
}

char *rates_path(const char *path) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (path) return xstrdup(path);
    if (cache && cache[0] == '/') return path_join(cache, "train.c/rates.json");
    return home && *home ? path_join(home, ".cache/train.c/rates.json") : NULL;
}

/* ---- the file: {"version": 1, "devices": {name: {...}}} ---- */

enum { VERSION = 1, DIGITS = 6 };

static json_t *points_to_json(const RateCurve *curve) {
    json_t *points = json_array();
    for (int i = 0; i < curve->n; i++)
        json_array_append_new(points, json_build("the measured rates", "[f, f]", curve->size[i], curve->rate[i]));
    return points;
}

static json_t *curves_to_json(const RateCurve *curves) {
    json_t *list = json_array();
    for (int i = 0; i < CURVES && curves[i].n; i++)
        json_array_append_new(list, json_build("the measured rates", "{s:f, s:o}", "flops_per_byte", curves[i].density,
                                               "rates", points_to_json(&curves[i])));
    return list;
}

static json_t *rates_to_json(const Rates *r) {
    json_t *kinds = json_object();
    for (int k = 0; k < WORK_KINDS; k++) {
        json_t *types = json_object();
        for (int t = 0; t < NUMBER_TYPES; t++)
            if (r->flops[k][t][0].n) json_object_set_new(types, type_names[t], curves_to_json(r->flops[k][t]));
        json_object_set_new(kinds, work_kind_names[k], types);
    }
    return json_build("the measured rates", "{s:s, s:I, s:s, s:f, s:f, s:f, s:o, s:o}", "date", r->date, "memory",
                      (json_int_t)r->memory, "half", dtype_name(r->half), "launch", r->launch, "copy", r->copy,
                      "seconds", r->seconds, "bytes", points_to_json(&r->bytes), "flops", kinds);
}

/* A value of the file, with the path to it for messages: "NVIDIA L4: flops: product". */
typedef struct {
    const json_t *json;
    char name[256];
} Field;

static Field inside(const Field *field, const char *name) {
    Field in = {.json = json_object_get(field->json, name)};
    snprintf(in.name, sizeof in.name, "%.190s%s%.60s", field->name, field->name[0] ? ": " : "", name);
    return in;
}

static bool read_number(const Field *of, const char *name, double *number, Error *error) {
    Field field = inside(of, name);
    *number = json_number_value(field.json);
    if (json_is_number(field.json) && *number >= 0) return true;
    return error_set(error, "%s is missing, or no number of 0 or more", field.name);
}

/* Reads pairs of numbers above 0, by ascending size. */
static bool read_points(const Field *of, const char *name, RateCurve *curve, Error *error) {
    Field field = inside(of, name);
    size_t n = json_array_size(field.json);
    if (n < 1 || n > CURVE_POINTS)
        return error_set(error, "%s is no list of 1 to %d pairs [size, rate]", field.name, CURVE_POINTS);
    for (size_t i = 0; i < n; i++) {
        const json_t *pair = json_array_get(field.json, i);
        curve->size[i] = json_number_value(json_array_get(pair, 0));
        curve->rate[i] = json_number_value(json_array_get(pair, 1));
        if (json_array_size(pair) != 2 || !(curve->rate[i] > 0) || !(curve->size[i] > (i ? curve->size[i - 1] : 0)))
            return error_set(error, "%s: entry %zu is no pair [size, rate] above 0 and of a size above that before it",
                             field.name, i);
    }
    curve->n = (int)n;
    return true;
}

static bool read_curves(const Field *kind, const char *type, RateCurve *curves, Error *error) {
    Field list = inside(kind, type);
    size_t n = json_array_size(list.json);
    if (!list.json) return true;
    if (n < 1 || n > CURVES) return error_set(error, "%s is no list of 1 to %d curves", list.name, CURVES);
    for (size_t i = 0; i < n; i++) {
        Field curve = {.json = json_array_get(list.json, i)};
        memcpy(curve.name, list.name, sizeof curve.name);
        if (!read_number(&curve, "flops_per_byte", &curves[i].density, error) ||
            !read_points(&curve, "rates", &curves[i], error))
            return false;
        if (!(curves[i].density > (i ? curves[i - 1].density : 0)))
            return error_set(error, "%s: the flops_per_byte of curve %zu is not above %s", list.name, i,
                             i ? "that of the one before" : "0");
    }
    return true;
}

static bool read_text(const Field *of, const char *name, char *text, size_t size, Error *error) {
    Field field = inside(of, name);
    const char *found = json_string_value(field.json);
    if (!found || strlen(found) >= size)
        return error_set(error, "%s is missing, or no text of less than %zu bytes", field.name, size);
    memcpy(text, found, strlen(found) + 1);
    return true;
}

static bool read_half(const Field *of, DType *half, Error *error) {
    static const DType types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
    char name[8];
    if (!read_text(of, "half", name, sizeof name, error)) return false;
    for (int i = 0; i < 3; i++) {
        *half = types[i];
        if (!strcmp(name, dtype_name(types[i]))) return true;
    }
    return error_set(error, "%s: half is '%s', and not f32, bf16 or f16", of->name, name);
}

static bool read_device(const Field *of, Rates *r, Error *error) {
    Field flops = inside(of, "flops");
    if (!json_is_object(of->json)) return error_set(error, "%s is no object", of->name);
    if (!read_text(of, "date", r->date, sizeof r->date, error) || !read_number(of, "memory", &r->memory, error) ||
        !read_number(of, "launch", &r->launch, error) || !read_number(of, "copy", &r->copy, error) ||
        !read_number(of, "seconds", &r->seconds, error) || !read_half(of, &r->half, error) ||
        !read_points(of, "bytes", &r->bytes, error))
        return false;
    if (!json_is_object(flops.json)) return error_set(error, "%s is missing, or no object", flops.name);
    for (int k = 0; k < WORK_KINDS; k++) {
        Field kind = inside(&flops, work_kind_names[k]);
        for (int t = 0; t < NUMBER_TYPES; t++)
            if (!read_curves(&kind, type_names[t], r->flops[k][t], error)) return false;
    }
    return r->flops[WORK_PRODUCT][NUMBERS_F32][0].n || error_set(error, "%s: product: f32 is missing", flops.name);
}

/* Reads the whole file. NULL if it is damaged, with a reason, or missing, with an empty error. */
static json_t *read_all(const char *path, Error *error) {
    json_error_t why;
    OWNED char *bytes = NULL;
    size_t size;
    Error reason;
    error->text[0] = 0;
    if (!path || access(path, F_OK)) return NULL;
    if (!read_file(path, &bytes, &size, &reason)) {
        error_set(error, "%s: %s", path, reason.text);
        return NULL;
    }
    json_auto_t *root = json_loadb(bytes, size, 0, &why);
    const json_t *version = json_object_get(root, "version");
    if (!root)
        error_set(error, "%s:%d: %s; remove it and measure again", path, why.line, why.text);
    else if (!json_is_integer(version) || json_integer_value(version) != VERSION)
        error_set(error, "%s: version is missing, or not %d as this program writes it; remove it and measure again",
                  path, VERSION);
    else if (!json_is_object(json_object_get(root, "devices")))
        error_set(error, "%s: devices is missing, or no object; remove it and measure again", path);
    else if (!json_sum_check(root, DIGITS, 0, &reason))
        error_set(error, "%s: %s; measure again without it, or remove that key if it was changed on purpose", path,
                  reason.text);
    return error->text[0] ? NULL : json_incref(root);
}

bool rates_are_none(const char *path) { return path && !strcmp(path, "none"); }

bool rates_read(const char *path, const char *device, Rates *rates, Error *error) {
    OWNED char *file = rates_path(path);
    json_auto_t *root = read_all(file, error);
    Field entry = {.json = json_object_get(json_object_get(root, "devices"), device)};
    Error why;
    *rates = (Rates){0};
    snprintf(rates->device, sizeof rates->device, "%s", device);
    snprintf(entry.name, sizeof entry.name, "%.127s", device);
    bool found = entry.json && read_device(&entry, rates, &why);
    if (entry.json && !found) error_set(error, "%s: %s; measure it again", file, why.text);
    return found;
}

int rates_devices(const char *path, char names[][128], int most, Error *error) {
    OWNED char *file = rates_path(path);
    json_auto_t *root = read_all(file, error);
    json_t *entry;
    const char *name;
    int n = 0;
    json_object_foreach(json_object_get(root, "devices"), name, entry) {
        if (n < most) snprintf(names[n++], 128, "%.127s", name);
    }
    return root || !error->text[0] ? n : -1;
}

static bool put_rates(const char *file, const Rates *rates, Error *error) {
    json_auto_t *root = read_all(file, error);
    bool ok = root || !error->text[0];
    if (ok && !root) root = json_build("the measured rates", "{s:i, s:{}}", "version", VERSION, "devices");
    if (ok && json_object_set_new(json_object_get(root, "devices"), rates->device, rates_to_json(rates)))
        ok = error_set(error, "%s cannot hold a device of the name '%.127s'", file, rates->device);
    if (ok) json_sum_set(root, DIGITS, 0);
    return ok && json_write_file(file, root, JSON_INDENT(1) | JSON_REAL_PRECISION(DIGITS) | JSON_SORT_KEYS, error);
}

/* Holds the lock from reading to writing, so that no rates of another program are lost. */
bool rates_write(const char *path, const Rates *rates, Error *error) {
    OWNED char *file = rates_path(path), *directory = path_directory(file);
    OWNED_BY(file_unlock) FileLock lock;
    make_directories(directory);
    if (!file_lock(&lock, file, error)) return false;
    directory_remove_leftovers(directory);
    return put_rates(file, rates, error);
}
