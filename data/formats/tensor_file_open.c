#include "data/formats/tensor_file_open.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mapping.h"
#include "data/formats/safetensors.h"
#include "data/formats/torch_pth.h"

/* ---- one file ---- */

/* Reads the file whose bytes are mapped. Only the tensors of safetensors stay where they are; those of torch are
 * copied.
 */
static bool read_mapped(const char *path, void *bytes, size_t size, TensorFile *file, Error *error) {
    bool ok;
    if (size >= 4 && !memcmp(bytes, "PK\3\4", 4)) {
        file_unmap(bytes, size);
        ok = torch_pth_open(path, file, error);
    } else if (torch_is_legacy(bytes, size)) {
        ok = torch_legacy_parse(bytes, size, file, error);
        file_unmap(bytes, size);
    } else {
        ok = safetensors_parse(bytes, size, file, error);
        if (!ok) file_unmap(bytes, size);
        if (ok) file->owner = bytes, file->owner_bytes = size;
    }
    if (ok) file->path = xstrdup(path);
    return ok;
}

/* ---- the index of several files ---- */

/* Returns whether the bytes are JSON, and not the length of a safetensors header, which ends with zero bytes. */
static bool is_index(const void *bytes, size_t size) {
    return size >= 8 && *(const char *)bytes == '{' && !memchr(bytes, 0, 8);
}

/* Opens a shard, unless it is open, and returns it; NULL with an error. */
static TensorFile *open_shard(const char *index, const char *name, TensorFile *file, Error *error) {
    const char *slash = strrchr(index, '/');
    OWNED char *path = xformat("%.*s%s", slash ? (int)(slash + 1 - index) : 0, index, name);
    int i = 0;
    void *bytes;
    size_t size;
    while (i < file->n_shards && strcmp(file->shards[i].path, path) != 0) i++;
    if (i == file->n_shards) {
        file->shards = xrealloc(file->shards, ((size_t)i + 1) * sizeof *file->shards);
        file->shards[i] = (TensorFile){0};
        if (file_map(path, &bytes, &size, error) && read_mapped(path, bytes, size, &file->shards[i], error))
            file->n_shards++;
        else
            error_before(error, "its shard %s: ", name);
    }
    return i < file->n_shards ? &file->shards[i] : NULL;
}

/* Opens all shards; each must have the tensors that the index says it has. */
static bool open_shards(const char *path, const json_t *map, TensorFile *file, Error *error) {
    const char *tensor;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)map, tensor, value) {
        const char *name = json_string_value(value);
        if (!name || !*name || strchr(name, '/'))
            return error_set(error, "\"weight_map\" names no file of this folder for '%s'", tensor);
        const TensorFile *shard = open_shard(path, name, file, error);
        if (!shard) return false;
        if (!tensor_file_find(shard, tensor))
            return error_set(error, "it says that '%s' is in %s, which has no such tensor", tensor, name);
    }
    return file->n_shards || error_set(error, "it is JSON without a \"weight_map\", so no index of files of tensors");
}

/* Moves the tensors of the shards into the file. */
static void join_shards(TensorFile *file) {
    int n = 0;
    for (int s = 0; s < file->n_shards; s++) n += file->shards[s].n_tensors;
    file->tensors = xcalloc((size_t)n, sizeof *file->tensors);
    for (int s = 0; s < file->n_shards; s++) {
        TensorFile *shard = &file->shards[s];
        if (shard->n_tensors)
            memcpy(file->tensors + file->n_tensors, shard->tensors, (size_t)shard->n_tensors * sizeof *shard->tensors);
        file->n_tensors += shard->n_tensors;
        file->n_ignored += shard->n_ignored;
        shard->n_tensors = 0; /* the names are the file's now */
    }
}

static bool read_index(const char *path, const char *bytes, size_t size, TensorFile *file, Error *error) {
    json_auto_t *root = json_parse(bytes, size, JSON_REJECT_DUPLICATES, error);
    if (!root) return false;
    bool ok = open_shards(path, json_object_get(root, "weight_map"), file, error);
    if (ok) join_shards(file);
    ok = ok && tensor_file_index(file, error);
    if (ok)
        file->path = xstrdup(path);
    else
        tensor_file_close(file);
    return ok;
}

bool tensor_file_open(const char *path, TensorFile *file, Error *error) {
    void *bytes;
    size_t size;
    *file = (TensorFile){0};
    if (!file_map(path, &bytes, &size, error)) return false;
    if (!is_index(bytes, size)) return read_mapped(path, bytes, size, file, error);
    bool ok = read_index(path, bytes, size, file, error);
    file_unmap(bytes, size);
    return ok;
}
