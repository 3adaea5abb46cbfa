/* Reads safetensors.
 *
 * A safetensors file is 8 bytes (the header's length n, little-endian), n bytes of JSON
 * {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ..., "__metadata__": {"key": "value"}},
 * then the data, which the offsets must cover exactly, without holes or overlaps. The file is mapped, never copied:
 * tensors are views. Every number of the header is checked before it is used, since the bytes may come from anywhere.
 */
#include "data/formats/safetensors.h"

#include "base/file.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const size_t header_limit = 100000000; /* the format's own */

/* ---- one tensor of the header ---- */

/* shape: an array of sizes >= 0 whose product, in bytes, does not overflow. */
static bool parse_shape(const json_t *shape, StoredTensor *tensor, Error *error) {
    if (!json_is_array(shape)) return error_set(error, "tensor '%s': no array \"shape\"", tensor->name);
    if (json_array_size(shape) > STORED_MAX_RANK)
        return error_set(error, "tensor '%s' has %zu dimensions; at most %d are read", tensor->name,
                         json_array_size(shape), STORED_MAX_RANK);
    tensor->rank = (int)json_array_size(shape);
    tensor->count = 1;
    for (int i = 0; i < tensor->rank; i++) {
        const json_t *dim = json_array_get(shape, (size_t)i);
        tensor->dims[i] = json_integer_value(dim);
        if (!json_is_integer(dim) || tensor->dims[i] < 0 ||
            __builtin_mul_overflow(tensor->count, tensor->dims[i], &tensor->count))
            return error_set(error, "tensor '%s': \"shape\" is not a list of sizes", tensor->name);
    }
    return true;
}

/* data_offsets: [begin, end] inside the data, of the length that dtype and shape need. */
static bool parse_offsets(const json_t *offsets, const char *data, size_t data_size, StoredTensor *tensor,
                          Error *error) {
    const json_t *first = json_array_get(offsets, 0), *second = json_array_get(offsets, 1);
    json_int_t begin = json_integer_value(first), end = json_integer_value(second);
    int64_t need;
    if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(second) || begin < 0 ||
        end < begin || (uint64_t)end > data_size)
        return error_set(error,
                         "tensor '%s': \"data_offsets\" are not [begin, end] inside the %zu bytes of data; is the file "
                         "complete?",
                         tensor->name, data_size);
    if (__builtin_mul_overflow(tensor->count, (int64_t)stored_element_size(tensor->dtype), &need) ||
        need != end - begin) {
        char text[128];
        return error_set(error, "tensor '%s' is %s, which does not fit its %lld bytes", tensor->name,
                         shape_text(tensor->dtype, tensor->rank, tensor->dims, text), (long long)(end - begin));
    }
    tensor->data = data + begin;
    tensor->bytes = (size_t)(end - begin);
    return true;
}

static bool parse_tensor(const char *name, const json_t *entry, const char *data, size_t data_size,
                         StoredTensor *tensor, Error *error) {
    tensor->name = xstrdup(name);
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    if (!dtype) return error_set(error, "tensor '%s': no text \"dtype\"", name);
    if (!stored_element_size(dtype)) return error_set(error, "tensor '%s': unknown dtype '%.32s'", name, dtype);
    snprintf(tensor->dtype, sizeof tensor->dtype, "%s", dtype);
    return parse_shape(json_object_get(entry, "shape"), tensor, error) &&
           parse_offsets(json_object_get(entry, "data_offsets"), data, data_size, tensor, error);
}

static bool parse_metadata(const json_t *metadata, TensorFile *file, Error *error) {
    if (!json_is_object(metadata)) return error_set(error, "\"__metadata__\" is not an object");
    size_t n = json_object_size(metadata);
    file->metadata_keys = xcalloc(n, sizeof(char *));
    file->metadata_values = xcalloc(n, sizeof(char *));
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)metadata, key, value) {
        if (!json_is_string(value)) return error_set(error, "\"__metadata__\": the value of '%s' is no text", key);
        file->metadata_keys[file->n_metadata] = xstrdup(key);
        file->metadata_values[file->n_metadata++] = xstrdup(json_string_value(value));
    }
    return true;
}

/* ---- the file ---- */

static int compare_positions(const void *a, const void *b) {
    const StoredTensor *x = a, *y = b;
    const char *x_begin = x->data, *y_begin = y->data;
    if (x_begin != y_begin) return x_begin < y_begin ? -1 : 1;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1; /* empty ones first */
    return strcmp(x->name, y->name);
}

/* Sorts the tensors by position; they must follow each other without holes or overlaps, from the first byte to the
 * last. */
static bool check_coverage(TensorFile *file, const char *data, size_t data_size, Error *error) {
    if (file->n_tensors) qsort(file->tensors, (size_t)file->n_tensors, sizeof *file->tensors, compare_positions);
    const char *expected = data;
    for (int i = 0; i < file->n_tensors; i++) {
        const StoredTensor *tensor = &file->tensors[i];
        if (tensor->data != expected)
            return error_set(error, "tensor '%s' begins at byte %lld of the data, not at %lld: a hole or an overlap",
                             tensor->name, (long long)((const char *)tensor->data - data),
                             (long long)(expected - data));
        expected += tensor->bytes;
    }
    if (expected != data + data_size)
        return error_set(error, "the tensors end at byte %lld of %zu bytes of data", (long long)(expected - data),
                         data_size);
    return true;
}

/* Returns the hash of the header as safetensors_write summed it: with zeros for the checksum's digits, and without the
 * spaces at its end. */
static uint64_t hash_of_header(const char *header, size_t size) {
    static const char key[] = "\"" SAFETENSORS_SUM_KEY "\":\"";
    const char *found = memmem(header, size, key, sizeof key - 1);
    size_t before = found ? (size_t)(found - header) + sizeof key - 1 : size, digits = SAFETENSORS_SUM - 1;
    while (size && header[size - 1] == ' ') size--;
    if (before + digits > size) return 0; /* written by another program */
    uint64_t hash = hash_bytes(hash_bytes(HASH_START, header, before), SAFETENSORS_NO_SUM, digits);
    return hash_bytes(hash, header + before + digits, size - before - digits);
}

/* Compares header and data with the checksum that was written with them, if there is one. */
static bool check_sum(const TensorFile *file, const char *header, size_t size, Error *error) {
    const char *stated = tensor_file_metadata(file, SAFETENSORS_SUM_KEY);
    char text[SAFETENSORS_SUM];
    if (!stated) return true;
    uint64_t sum = hash_of_header(header, size);
    for (int i = 0; i < file->n_tensors; i++) sum = checksum(sum, file->tensors[i].data, file->tensors[i].bytes);
    snprintf(text, sizeof text, "%016llx", (unsigned long long)sum);
    return !strcmp(text, stated) ||
           error_set(error,
                     "it is not what was written: its checksum is %s, and \"%s\" in its metadata says %.32s; the file "
                     "is damaged (or another program changed it and kept the metadata)",
                     text, SAFETENSORS_SUM_KEY, stated);
}

/* text[size] is the header as it stands in the file, before its data. */
static bool parse_header(const json_t *header, const char *text, size_t size, size_t data_size, TensorFile *file,
                         Error *error) {
    const char *data = text + size;
    const char *name;
    json_t *entry;
    file->tensors = xcalloc(json_object_size(header), sizeof *file->tensors);
    json_object_foreach((json_t *)header, name, entry) {
        if (!strcmp(name, "__metadata__")) {
            if (!parse_metadata(entry, file, error)) return false;
        } else if (!parse_tensor(name, entry, data, data_size, &file->tensors[file->n_tensors++], error)) {
            return false;
        }
    }
    return check_coverage(file, data, data_size, error) && check_sum(file, text, size, error) &&
           tensor_file_index(file, error);
}

bool safetensors_parse(const void *bytes, size_t size, TensorFile *file, Error *error) {
    *file = (TensorFile){0};
    const unsigned char *length = bytes;
    const char *text = (const char *)bytes + 8;
    uint64_t n = 0;
    if (size < 8) return error_set(error, "%zu bytes are no safetensors file", size);
    for (int i = 0; i < 8; i++) n |= (uint64_t)length[i] << 8 * i;
    if (n > header_limit || n > size - 8 || n < 2 || text[0] != '{')
        return error_set(error, "neither a safetensors nor a torch file, or cut off: no header of %llu bytes in %zu",
                         (unsigned long long)n, size);
    json_error_t where;
    json_auto_t *header = json_loadb(text, n, JSON_REJECT_DUPLICATES, &where);
    if (!header) return error_set(error, "safetensors header, byte %d: %s", where.position, where.text);
    bool ok = json_is_object(header) ? parse_header(header, text, n, size - 8 - n, file, error)
                                     : error_set(error, "the safetensors header is no object");
    if (!ok) tensor_file_close(file);
    return ok;
}
