/* index.json in a folder of splits: {"pooled_seed42_frac1.0.json": "0123456789abcdef", ...}, the manifest's hash by the
 * name of each file. It stands beside the splits because they are to the byte what other programs expect. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "data/psd_splits.h"
#include "data/safetensors.h"

static const char *name_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static char *index_path(const char *split_path) {
    char *directory = path_directory(split_path), *path = path_join(directory, "index.json");
    free(directory);
    return path;
}

/* An empty object if there is no such file; NULL with an error. */
static json_t *index_read(const char *path, Error *error) {
    if (access(path, F_OK)) return json_object();
    json_t *index = json_read(path, JSON_REJECT_DUPLICATES, NULL), *value;
    const char *key;
    bool fine = json_is_object(index);
    json_object_foreach(index, key, value) fine = fine && json_is_string(value);
    if (fine) return index;
    json_decref(index);
    error_set(error, "%.400s: is no list of splits and their manifests; remove it, and make the splits again", path);
    return NULL;
}

static bool index_write(const char *path, const json_t *index, Error *error) {
    char *text = json_text(path, index, JSON_INDENT(1));
    bool fine = file_write_atomic(path, text, strlen(text), error);
    free(text);
    return fine;
}

static const char *hash_text(uint64_t hash, char text[17]) {
    snprintf(text, 17, "%016llx", (unsigned long long)hash);
    return text;
}

bool psd_split_index_set(const char *split_path, uint64_t manifest_hash, Error *error) {
    char *path = index_path(split_path), text[17];
    const char *name = name_of(split_path);
    json_t *index = index_read(path, error), *before = json_deep_copy(index);
    if (index && manifest_hash)
        json_object_set_new(index, name, json_string(hash_text(manifest_hash, text)));
    else if (index)
        json_object_del(index, name);
    bool fine = index && (json_equal(index, before) || index_write(path, index, error));
    json_decref(before);
    json_decref(index);
    free(path);
    return fine;
}

bool psd_split_index_purge(const char *directory, uint64_t manifest_hash, Error *error) {
    char *path = path_join(directory, "index.json"), hash[17];
    json_t *index = index_read(path, error), *value;
    const char *name;
    void *next;
    int removed = 0;
    bool fine = index != NULL;
    hash_text(manifest_hash, hash);
    json_object_foreach_safe(index, next, name, value) {
        if (!fine || strcmp(json_string_value(value), hash)) continue;
        char *split = path_join(directory, name_of(name));
        printf("[Split] %s is removed: it was made of another manifest\n", split);
        if (unlink(split) && errno != ENOENT) fine = error_set(error, "cannot remove %s: %s", split, strerror(errno));
        free(split);
        json_object_del(index, name);
        removed++;
    }
    fine = fine && (!removed || index_write(path, index, error));
    json_decref(index);
    free(path);
    return fine;
}

bool psd_split_belongs(const char *split_path, uint64_t manifest_hash, Error *error) {
    char *path = index_path(split_path), hash[17];
    json_t *index = index_read(path, error);
    const char *made_of = json_string_value(json_object_get(index, name_of(split_path)));
    bool fine = index != NULL;
    error->text[0] = fine ? 0 : error->text[0];
    if (fine && (!made_of || !manifest_hash))
        error_set(error, "%.300s: nothing says which manifest its rows are of; it is taken for one of this data",
                  split_path);
    else if (fine && strcmp(made_of, hash_text(manifest_hash, hash)))
        fine = error_set(error,
                         "%.200s: was made of another manifest (%s, not %s): its rows are not those of this data; "
                         "make it anew with prepare_psd",
                         split_path, made_of, hash);
    json_decref(index);
    free(path);
    return fine;
}
