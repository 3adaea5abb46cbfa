#include "commands/gpt/reference.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "data/formats/npy.h"

static const char *const folders[REFERENCE_ARRAYS] = {"codes", "condition", "emo_vec"};
static const char *const keys[REFERENCE_ARRAYS] = {"codes_path", "condition_path", "emo_vec_path"};

/* ---- the list ---- */

/* Adds the paths of a line of a manifest, unless another manifest had its id. */
static bool add_line(Reference *reference, const char *folder, const char *line, size_t size, Error *error) {
    json_auto_t *record = json_parse(line, size, 0, error), *paths = json_array();
    if (!record) return false;
    const char *id = json_string_value(json_object_get(record, "id"));
    if (!id) return error_set(error, "id: expected a text");
    for (int k = 0; k < REFERENCE_ARRAYS; k++) {
        const char *path = json_string_value(json_object_get(record, keys[k]));
        if (!path) return error_set(error, "%s: expected a path, as manifests of single clips have it", keys[k]);
        OWNED char *full = path_join(folder, path);
        json_array_append_new(paths, json_string(full));
    }
    if (!json_object_get(reference->paths, id)) json_object_set(reference->paths, id, paths);
    return true;
}

static bool add_manifest(Reference *reference, const char *folder, const char *name, Error *error) {
    OWNED char *path = path_join(folder, name), *bytes = NULL;
    size_t size;
    int64_t number = 1;
    Error why;
    if (access(path, F_OK)) return true;
    if (!read_file(path, &bytes, &size, &why)) return error_set(error, "%s: %s", path, why.text);
    for (const char *line = bytes, *end; line < bytes + size; line = end + 1, number++) {
        end = memchr(line, '\n', (size_t)(bytes + size - line));
        if (!end) end = bytes + size;
        if (line + strspn(line, " \t\r") >= end) continue;
        if (!add_line(reference, folder, line, (size_t)(end - line), &why))
            return error_set(error, "%s:%lld: %s", path, (long long)number, why.text);
    }
    return true;
}

/* Adds the clips that lie in the folder under their ids, in no manifest. */
static void add_files(Reference *reference, const char *folder) {
    OWNED char *path = path_join(folder, folders[REFERENCE_CODES]);
    DIR *directory = opendir(path);
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        if (!ends_with(entry->d_name, ".npy")) continue;
        OWNED char *id = xformat("%.*s", (int)(strlen(entry->d_name) - strlen(".npy")), entry->d_name);
        if (json_object_get(reference->paths, id)) continue;
        json_t *paths = json_array();
        for (int k = 0; k < REFERENCE_ARRAYS; k++) {
            OWNED char *full = xformat("%s/%s/%s.npy", folder, folders[k], id);
            json_array_append_new(paths, json_string(full));
        }
        json_object_set_new(reference->paths, id, paths);
    }
    if (directory) closedir(directory);
}

bool reference_open(const char *folder, Reference *reference, Error *error) {
    static const char *const manifests[] = {"manifest.jsonl", "train_manifest.jsonl", "val_manifest.jsonl"};
    bool ok = path_is_folder(folder) || error_set(error, "%s: is no folder", folder);
    *reference = (Reference){json_object()};
    for (int i = 0; i < 3 && ok; i++) ok = add_manifest(reference, folder, manifests[i], error);
    if (ok) add_files(reference, folder);
    if (ok && !json_object_size(reference->paths))
        ok = error_set(error,
                       "%s: has no codes/*.npy and no manifest.jsonl, train_manifest.jsonl or val_manifest.jsonl: give "
                       "the folder that IndexTTS2's preprocessing has written",
                       folder);
    if (!ok) reference_close(reference);
    return ok;
}

void reference_close(Reference *reference) {
    json_decref(reference->paths);
    *reference = (Reference){NULL};
}

const char *reference_path(const Reference *reference, const char *id, ReferenceArray array) {
    return json_string_value(json_array_get(json_object_get(reference->paths, id), (size_t)array));
}

/* ---- the arrays ---- */

static void describe(const int64_t *dims, int rank, char text[128]) {
    int used = snprintf(text, 128, "[");
    for (int k = 0; k < rank; k++)
        used += snprintf(text + used, 128 - (size_t)used, k ? ", %lld" : "%lld", (long long)dims[k]);
    snprintf(text + used, 128 - (size_t)used, "]");
}

/* Parses a file of `rank` dims, those of `dims` unless it is NULL. */
static bool parse(const char *path, int rank, const int64_t *dims, char **bytes, Npy *npy, Error *error) {
    size_t size;
    Error why;
    char found[128], wanted[128];
    *bytes = NULL;
    if (!read_file(path, bytes, &size, &why) || !npy_parse(*bytes, size, npy, &why))
        return error_set(error, "%s: %s", path, why.text);
    bool fits = npy->rank == rank;
    for (int k = 0; k < rank && fits && dims; k++) fits = npy->dims[k] == dims[k];
    if (fits) return true;
    describe(npy->dims, npy->rank, found);
    describe(dims, dims ? rank : 0, wanted);
    return error_set(error, "%s: is an array of shape %s, expected %s", path, found, dims ? wanted : "[codes]");
}

int32_t *reference_read_codes(const char *path, int64_t *n, int64_t codebook, Error *error) {
    OWNED char *bytes = NULL;
    Npy npy;
    Error why;
    if (!parse(path, 1, NULL, &bytes, &npy, error)) return NULL;
    int32_t *codes = xmalloc((size_t)npy.count * sizeof *codes + 1);
    bool ok = npy_to_i32(&npy, codes, &why) || error_set(error, "%s: %s", path, why.text);
    for (int64_t t = 0; t < npy.count && ok; t++)
        if (codes[t] < 0 || codes[t] >= codebook)
            ok = error_set(error, "%s: code %lld is %d, expected 0 to %lld", path, (long long)t, codes[t],
                           (long long)codebook - 1);
    *n = npy.count;
    if (ok) return codes;
    free(codes);
    return NULL;
}

float *reference_read_floats(const char *path, int rank, const int64_t *dims, Error *error) {
    OWNED char *bytes = NULL;
    Npy npy;
    Error why;
    if (!parse(path, rank, dims, &bytes, &npy, error)) return NULL;
    float *values = xmalloc((size_t)npy.count * sizeof *values + 1);
    bool ok = npy_to_f32(&npy, values, &why) || error_set(error, "%s: %s", path, why.text);
    for (int64_t i = 0; i < npy.count && ok; i++)
        if (!isfinite(values[i])) ok = error_set(error, "%s: number %lld is not finite", path, (long long)i);
    if (ok) return values;
    free(values);
    return NULL;
}
