#include "data/gpt/speech_coder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "data/formats/npy.h"
#include "kernels/philox.h"

static const double MAP_SCALE = 0.1;
static const float MIN_DEVIATION = 1e-3f; /* of a band that never changes: it has no sound */

void speech_coder_statistics(const float *frames, int64_t n, float mean[MEL_BANDS], float deviation[MEL_BANDS]) {
    for (int b = 0; b < MEL_BANDS; b++) {
        double sum = 0, squares = 0;
        for (int64_t t = 0; t < n; t++) sum += (double)frames[t * MEL_BANDS + b];
        for (int64_t t = 0; t < n; t++) {
            double x = (double)frames[t * MEL_BANDS + b] - sum / (double)n;
            squares += x * x;
        }
        mean[b] = (float)(sum / (double)n);
        deviation[b] = fmaxf((float)sqrt(squares / (double)n), MIN_DEVIATION);
    }
}

/* ---- files ---- */

char *speech_coder_facts_path(const char *path) {
    size_t n = strlen(path);
    return xformat("%.*s.json", (int)(n > 4 && !strcmp(path + n - 4, ".npy") ? n - 4 : n), path);
}

static bool read_entries(const char *path, Codebook *codebook, Error *error) {
    OWNED char *bytes = NULL;
    OWNED float *entries = NULL;
    size_t size;
    Npy npy;
    bool ok = read_file(path, &bytes, &size, error) && npy_parse(bytes, size, &npy, error);
    if (ok && (npy.kind != 'f' || npy.rank != 2 || npy.dims[1] != MEL_BANDS || npy.dims[0] < 1))
        ok = error_set(error, "a codebook is a matrix of floats with %d columns, one per band", MEL_BANDS);
    if (ok) entries = xmalloc((size_t)npy.count * sizeof *entries);
    ok = ok && npy_to_f32(&npy, entries, error);
    for (int64_t i = 0; ok && i < npy.count; i++)
        if (!isfinite(entries[i])) ok = error_set(error, "element %lld is not finite", (long long)i);
    if (!ok) return error_before(error, "%s: ", path);
    *codebook = codebook_of(entries, npy.dims[0], MEL_BANDS);
    entries = NULL;
    return true;
}

static bool take_bands(const json_t *object, const char *key, float least, float out[MEL_BANDS], Error *error) {
    const json_t *list = json_object_get(object, key);
    if (json_array_size(list) != MEL_BANDS) return error_set(error, "%s is not a list of %d numbers", key, MEL_BANDS);
    for (int b = 0; b < MEL_BANDS; b++) {
        const json_t *item = json_array_get(list, (size_t)b);
        out[b] = (float)json_number_value(item);
        if (!json_is_number(item) || !isfinite(out[b]) || out[b] < least)
            return error_set(error, "%s[%d] is not a number of at least %g", key, b, (double)least);
    }
    return true;
}

enum { DIGITS = 9 }; /* of real numbers: enough for a float */

/* The checksum in codebook.json includes the entries, so that two files that do not belong together are detected. */
static uint64_t sum_of_entries(const Codebook *c) {
    return checksum(0, c->centroids, (size_t)(c->entries * c->width) * sizeof *c->centroids);
}

static bool parse_facts(const json_t *object, SpeechCoder *coder, Error *error) {
    const char *features = json_string_value(json_object_get(object, "features"));
    const json_t *seed = json_object_get(object, "seed");
    if (!features || strcmp(features, MEL_DESCRIPTION))
        return error_set(error, "features is '%s', but this program computes '%s'", features ? features : "",
                         MEL_DESCRIPTION);
    if (!json_is_integer(seed) || json_integer_value(seed) < 0) return error_set(error, "seed is not a number");
    if (!json_sum_check(object, DIGITS, sum_of_entries(&coder->codebook), error)) return false;
    coder->seed = (uint64_t)json_integer_value(seed);
    coder->frames = json_integer_value(json_object_get(object, "frames"));
    coder->iterations = (int)json_integer_value(json_object_get(object, "iterations"));
    coder->squared_error = json_number_value(json_object_get(object, "squared_error"));
    return take_bands(object, "mean", -1e3f, coder->mean, error) &&
           take_bands(object, "deviation", MIN_DEVIATION, coder->deviation, error);
}

static bool read_facts(const char *path, SpeechCoder *coder, Error *error) {
    OWNED char *facts = speech_coder_facts_path(path), *bytes = NULL;
    size_t size;
    json_error_t problem;
    bool ok = read_file(facts, &bytes, &size, error);
    json_auto_t *object = ok ? json_loadb(bytes, size, JSON_REJECT_DUPLICATES, &problem) : NULL;
    if (ok && !object)
        ok = error_set(error, "line %d, column %d: invalid JSON: %s", problem.line, problem.column, problem.text);
    return (ok && parse_facts(object, coder, error)) ||
           error_before(error, "%s, which belongs to the codebook: ", facts);
}

bool speech_coder_read(const char *path, SpeechCoder *coder, Error *error) {
    *coder = (SpeechCoder){0};
    if (read_entries(path, &coder->codebook, error) && read_facts(path, coder, error)) return true;
    speech_coder_close(coder);
    return false;
}

static json_t *list_of(const float *values) {
    json_t *list = json_array();
    for (int b = 0; b < MEL_BANDS; b++) json_array_append_new(list, json_real((double)values[b]));
    return list;
}

bool speech_coder_write(const char *path, const SpeechCoder *coder, Error *error) {
    const Codebook *c = &coder->codebook;
    if (!file_is_replaceable(path, error)) return false; /* before the facts are written */
    OWNED char *facts_path = speech_coder_facts_path(path);
    json_auto_t *facts =
        json_build("codebook.json", "{s:s, s:I, s:I, s:I, s:I, s:i, s:f, s:o, s:o}", "features", MEL_DESCRIPTION,
                   "entries", (json_int_t)c->entries, "bands", (json_int_t)c->width, "seed", (json_int_t)coder->seed,
                   "frames", (json_int_t)coder->frames, "iterations", coder->iterations, "squared_error",
                   coder->squared_error, "mean", list_of(coder->mean), "deviation", list_of(coder->deviation));
    json_sum_set(facts, DIGITS, sum_of_entries(c));
    return json_write_file(facts_path, facts, JSON_INDENT(1) | JSON_REAL_PRECISION(DIGITS), error) &&
           npy_write(path, "<f4", c->centroids, 2, (int64_t[]){c->entries, c->width}, error);
}

void speech_coder_close(SpeechCoder *coder) { codebook_close(&coder->codebook); }

/* ---- the map ---- */

static float *projection(uint64_t seed, uint32_t which, int64_t rows, int64_t columns) {
    float *p = xmalloc((size_t)(rows * columns) * sizeof *p), scale = (float)(MAP_SCALE / sqrt((double)rows));
    for (int64_t i = 0; i < rows * columns; i++)
        p[i] = scale * philox_normal(seed, PURPOSE_PROJECTION, which, (uint64_t)i);
    return p;
}

PromptMap prompt_map_open(const SpeechCoder *coder, int64_t d_model) {
    return (PromptMap){coder, d_model, projection(coder->seed, 0, MEL_BANDS, d_model),
                       projection(coder->seed, 1, VOICE_STATISTICS, d_model)};
}

void prompt_map_close(PromptMap *map) {
    free(map->conditioning);
    free(map->voice);
    *map = (PromptMap){0};
}

/* Computes out[d_model] = in[rows] times a projection. */
static void project(const float *in, int64_t rows, const float *projection, int64_t d_model, float *out) {
    memset(out, 0, (size_t)d_model * sizeof *out);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < d_model; j++) out[j] += in[i] * projection[i * d_model + j];
}

/* Computes the mean of z over frames begin .. end - 1. */
static void pool(const SpeechCoder *coder, const float *frames, int64_t begin, int64_t end, float out[MEL_BANDS]) {
    for (int b = 0; b < MEL_BANDS; b++) {
        double sum = 0;
        for (int64_t t = begin; t < end; t++) sum += (double)frames[t * MEL_BANDS + b];
        out[b] = ((float)(sum / (double)(end - begin)) - coder->mean[b]) / coder->deviation[b];
    }
}

/* Computes s, as the header defines it. */
static void voice_statistics(const SpeechCoder *coder, const float *frames, int64_t n, float out[VOICE_STATISTICS]) {
    float mean[MEL_BANDS], deviation[MEL_BANDS];
    double sum = 0, squares = 0;
    speech_coder_statistics(frames, n, mean, deviation);
    for (int b = 0; b < MEL_BANDS; b++) {
        out[b] = (mean[b] - coder->mean[b]) / coder->deviation[b];
        out[MEL_BANDS + b] = deviation[b] / coder->deviation[b] - 1;
    }
    for (int64_t t = 0; t < n; t++) {
        double energy = 0;
        for (int b = 0; b < MEL_BANDS; b++)
            energy += (double)((frames[t * MEL_BANDS + b] - coder->mean[b]) / coder->deviation[b]);
        sum += energy / MEL_BANDS;
        squares += energy / MEL_BANDS * (energy / MEL_BANDS);
    }
    double average = sum / (double)n;
    out[2 * MEL_BANDS] = (float)average;
    out[2 * MEL_BANDS + 1] = (float)sqrt(fmax(0, squares / (double)n - average * average));
}

void prompt_map_apply(const PromptMap *map, const float *frames, int64_t n, float *condition, float *emotion) {
    float pooled[MEL_BANDS], statistics[VOICE_STATISTICS];
    for (int64_t i = 0; i < CONDITIONING_ROWS; i++) {
        int64_t begin = i * n / CONDITIONING_ROWS, end = (i + 1) * n / CONDITIONING_ROWS;
        pool(map->coder, frames, begin, end > begin ? end : begin + 1, pooled);
        project(pooled, MEL_BANDS, map->conditioning, map->d_model, condition + i * map->d_model);
    }
    voice_statistics(map->coder, frames, n, statistics);
    project(statistics, VOICE_STATISTICS, map->voice, map->d_model, emotion);
}
