#include "data/psd/split_index.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"

static char *index_path(const char *split_path) {
    OWNED char *directory = path_directory(split_path);
    return path_join(directory, "index.json");
}

/* Returns an empty object if there is no such file; NULL with an error. */
static json_t *index_read(const char *path, Error *error) {
    if (access(path, F_OK)) return json_object();
    json_auto_t *index = json_read(path, JSON_REJECT_DUPLICATES, NULL);
    json_t *value;
    const char *key;
    bool ok = json_is_object(index);
    json_object_foreach(index, key, value) ok = ok && json_is_string(value);
    if (ok && json_sum_check(index, 0, 0, NULL)) return json_incref(index);
    error_set(error,
              "%s: is no list of splits and their manifests; remove it and the splits beside it, and make them again",
              path);
    return NULL;
}

static bool index_write(const char *path, json_t *index, Error *error) {
    json_sum_set(index, 0, 0);
    return json_write_file(path, index, JSON_INDENT(1), error);
}

static const char *hash_text(uint64_t hash, char text[17]) {
    snprintf(text, 17, "%016llx", (unsigned long long)hash);
    return text;
}

static bool file_sum(const char *split_path, char text[17], Error *error) {
    OWNED char *bytes = NULL;
    size_t size;
    if (!read_file(split_path, &bytes, &size, error)) return error_before(error, "%s: ", split_path);
    hash_text(checksum(0, bytes, size), text);
    return true;
}

static bool set_entry(json_t *index, const char *split_path, uint64_t manifest_hash, Error *error) {
    const char *name = path_name(split_path);
    char hash[17], sum[17], both[36];
    if (!manifest_hash) {
        json_object_del(index, name);
        return true;
    }
    if (!file_sum(split_path, sum, error)) return false;
    snprintf(both, sizeof both, "%s %s", hash_text(manifest_hash, hash), sum);
    json_object_set_new(index, name, json_string(both));
    return true;
}

/* Sets the entry of a file that will be written. If the file exists, its present entry must exist and contain `held`.
 */
static bool claim(const char *directory, const char *file, const char *entry, const char *held, Error *error) {
    OWNED char *path = path_join(directory, "index.json");
    OWNED_BY(file_unlock) FileLock lock;
    if (!file_lock(&lock, path, error)) return false;
    json_auto_t *index = index_read(path, error);
    if (!index) return false;
    const char *before = json_string_value(json_object_get(index, path_name(file)));
    if (!access(file, F_OK) && !(before && strstr(before, held)))
        return error_set(error,
                         "%s would be replaced, and %s does not say that train_psd prepare has made it%s: move it away",
                         file, path, *held ? " as it is" : "");
    if (before && !*held) return true;
    json_object_set_new(index, path_name(file), json_string(entry));
    return index_write(path, index, error);
}

bool psd_split_index_claim(const char *split_path, uint64_t manifest_hash, Error *error) {
    OWNED char *directory = path_directory(split_path);
    char hash[17];
    return claim(directory, split_path, hash_text(manifest_hash, hash), "", error);
}

bool psd_split_index_claim_manifest(const char *directory, const char *manifest, uint64_t now, uint64_t before,
                                    Error *error) {
    char new_hash[17], old_hash[17], both[36];
    snprintf(both, sizeof both, "%s %s", hash_text(now, new_hash), hash_text(before, old_hash));
    return claim(directory, manifest, both, old_hash, error);
}

bool psd_split_index_set(const char *split_path, uint64_t manifest_hash, Error *error) {
    OWNED char *path = index_path(split_path);
    OWNED_BY(file_unlock) FileLock lock;
    if (!file_lock(&lock, path, error)) return false;
    json_auto_t *index = index_read(path, error);
    json_auto_t *before = json_deep_copy(index);
    return index && set_entry(index, split_path, manifest_hash, error) &&
           (json_equal(index, before) || index_write(path, index, error));
}

/* Returns whether an entry of the index names this manifest. */
static bool names_manifest(const char *entry, const char hash[17]) { return !strncmp(entry, hash, 16); }

static bool purge(const char *directory, const char *path, uint64_t manifest_hash, Error *error) {
    char hash[17];
    json_auto_t *index = index_read(path, error);
    json_t *value;
    const char *name;
    void *next;
    int removed = 0;
    if (!index) return false;
    hash_text(manifest_hash, hash);
    json_object_foreach_safe(index, next, name, value) {
        if (!names_manifest(json_string_value(value), hash)) continue;
        OWNED char *split = path_join(directory, path_name(name));
        printf("[Split] %s is removed: it was made from another manifest\n", split);
        if (unlink(split) && errno != ENOENT) return error_set(error, "cannot remove %s: %s", split, strerror(errno));
        json_object_del(index, name);
        removed++;
    }
    return !removed || index_write(path, index, error);
}

bool psd_split_index_purge(const char *directory, uint64_t manifest_hash, Error *error) {
    OWNED char *path = path_join(directory, "index.json");
    OWNED_BY(file_unlock) FileLock lock = {.fd = -1};
    return access(path, F_OK) || (file_lock(&lock, path, error) && purge(directory, path, manifest_hash, error));
}

bool psd_split_index_check(const char *split_path, uint64_t manifest_hash, Error *error) {
    OWNED char *path = index_path(split_path);
    char hash[17], sum[17];
    json_auto_t *index = index_read(path, error);
    const char *made_of = json_string_value(json_object_get(index, path_name(split_path)));
    if (!index) return false;
    error->text[0] = 0;
    if (!made_of || !manifest_hash)
        return !error_set(error, "%s: nothing says which manifest its rows are of; it is taken for one of this data",
                          split_path);
    if (!names_manifest(made_of, hash_text(manifest_hash, hash)))
        return error_set(error,
                         "%s: was made from another manifest (%.16s, not %s): its rows are not those of this data; "
                         "make it anew with train_psd prepare",
                         split_path, made_of, hash);
    return strlen(made_of) <= 16 ||
           (file_sum(split_path, sum, error) &&
            (!strcmp(made_of + 17, sum) ||
             error_set(error,
                       "%s: is not as it was written: its checksum is %s, and index.json beside it says %.40s; "
                       "make it anew with train_psd prepare; if it was changed on purpose, give it another name",
                       split_path, sum, made_of + 17)));
}
