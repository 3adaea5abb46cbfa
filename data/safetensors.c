/* Reads tensor files: the safetensors format, and what both formats share (finding by name, conversion to f32).
 *
 * A safetensors file is 8 bytes (the header's length n, little-endian), n bytes of JSON
 * {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ..., "__metadata__": {"key": "value"}},
 * then the data, which the offsets must cover exactly, without holes or overlaps. The file is mapped, never copied:
 * tensors are views. Every number of the header is checked before it is used, since the bytes may come from anywhere.
 */
#include "data/safetensors.h"

#include "base/file.h"
#include "base/mapping.h"
#include "data/torch_pth.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistr.h>

static const size_t header_limit = 100000000; /* the format's own */

size_t stored_element_size(const char *dtype) {
    static const struct {
        const char *name;
        size_t size;
    } known[] = {{"F32", 4}, {"F16", 2}, {"BF16", 2},    {"F64", 8},     {"I64", 8},    {"I32", 4},
                 {"I16", 2}, {"I8", 1},  {"U8", 1},      {"BOOL", 1},    {"U16", 2},    {"U32", 4},
                 {"U64", 8}, {"C64", 8}, {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F8_E8M0", 1}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(dtype, known[i].name)) return known[i].size;
    return 0;
}

const char *shape_text(const char *dtype, int rank, const int64_t *dims, char text[128]) {
    int used = snprintf(text, 128, "%s [", dtype);
    for (int i = 0; i < rank && used < 100; i++)
        used += snprintf(text + used, (size_t)(128 - used), "%s%lld", i ? ", " : "", (long long)dims[i]);
    snprintf(text + used, (size_t)(128 - used), "]");
    return text;
}

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

const char *tensor_file_metadata(const TensorFile *file, const char *key) {
    for (int i = 0; i < file->n_metadata; i++)
        if (!strcmp(file->metadata_keys[i], key)) return file->metadata_values[i];
    return NULL;
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
    json_t *header = json_loadb(text, n, JSON_REJECT_DUPLICATES, &where);
    if (!header) return error_set(error, "safetensors header, byte %d: %s", where.position, where.text);
    bool good = json_is_object(header) ? parse_header(header, text, n, size - 8 - n, file, error)
                                       : error_set(error, "the safetensors header is no object");
    json_decref(header);
    if (!good) tensor_file_close(file);
    return good;
}

bool tensor_file_open(const char *path, TensorFile *file, Error *error) {
    void *bytes;
    size_t size;
    *file = (TensorFile){0};
    if (!file_map(path, &bytes, &size, error)) return false; /* the mapping becomes the owner of `file` */
    if (size >= 4 && !memcmp(bytes, "PK\3\4", 4)) {
        file_unmap(bytes, size);
        if (!torch_pth_open(path, file, error)) return false;
    } else if (size >= 4 && !memcmp(bytes, "\x80\2\x8a\n", 4)) {
        file_unmap(bytes, size);
        return error_set(error, "written by a torch older than 1.6; load and save it once with a newer one");
    } else {
        if (!safetensors_parse(bytes, size, file, error)) {
            file_unmap(bytes, size);
            return false;
        }
        file->owner = bytes;
        file->owner_bytes = size;
    }
    file->path = xstrdup(path);
    return true;
}

void tensor_file_close(TensorFile *file) {
    for (int i = 0; i < file->n_tensors; i++) free(file->tensors[i].name);
    for (int i = 0; i < file->n_metadata; i++) {
        free(file->metadata_keys[i]);
        free(file->metadata_values[i]);
    }
    free(file->tensors);
    free(file->by_name);
    free(file->metadata_keys);
    free(file->metadata_values);
    free(file->path);
    file_unmap(file->owner, file->owner_bytes);
    *file = (TensorFile){0};
}

/* ---- names ---- */

static int compare_names(const void *a, const void *b, void *tensors) {
    const StoredTensor *t = tensors;
    return strcmp(t[*(const int *)a].name, t[*(const int *)b].name);
}

/* Names go to the terminal and into the headers of other files. */
static bool is_plain_text(const char *name) {
    for (const char *p = name; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f) return false;
    return *name && !u8_check((const uint8_t *)name, strlen(name));
}

bool tensor_file_index(TensorFile *file, Error *error) {
    free(file->by_name);
    file->by_name = xcalloc((size_t)file->n_tensors, sizeof(int));
    for (int i = 0; i < file->n_tensors; i++) {
        file->by_name[i] = i;
        if (!is_plain_text(file->tensors[i].name))
            return error_set(error, "tensor %d has a name that is empty or not plain UTF-8 text", i);
    }
    if (file->n_tensors) qsort_r(file->by_name, (size_t)file->n_tensors, sizeof(int), compare_names, file->tensors);
    for (int i = 1; i < file->n_tensors; i++) {
        const char *name = file->tensors[file->by_name[i]].name;
        if (!strcmp(name, file->tensors[file->by_name[i - 1]].name))
            return error_set(error, "two tensors are named '%s'", name);
    }
    return true;
}

const StoredTensor *tensor_file_find(const TensorFile *file, const char *name) {
    int low = 0, high = file->n_tensors;
    while (low < high) {
        int middle = low + (high - low) / 2;
        const StoredTensor *tensor = &file->tensors[file->by_name[middle]];
        int order = strcmp(name, tensor->name);
        if (!order) return tensor;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

/* ---- conversion ---- */

static float float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* IEEE binary16 (1 sign, 5 exponent, 10 fraction bits), exactly. */
static float half_to_float(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, fraction = half & 1023;
    if (exponent == 31) return float_of_bits(sign | 0x7f800000 | fraction << 13);
    if (exponent) return float_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
    float value = (float)fraction * 0x1p-24f; /* subnormal or zero */
    return sign ? -value : value;
}

bool stored_to_f32(const StoredTensor *tensor, float *out, Error *error) {
    const char *in = tensor->data; /* read by memcpy: it may lie at any address */
    int64_t n = tensor->count;
    if (!strcmp(tensor->dtype, "F32")) {
        if (n) memcpy(out, in, (size_t)n * sizeof(float));
    } else if (!strcmp(tensor->dtype, "F64")) {
        for (int64_t i = 0; i < n; i++) {
            double value;
            memcpy(&value, in + 8 * i, sizeof value);
            out[i] = (float)value;
        }
    } else if (!strcmp(tensor->dtype, "F16") || !strcmp(tensor->dtype, "BF16")) {
        bool brain = tensor->dtype[0] == 'B'; /* bf16: the upper half of an f32 */
        for (int64_t i = 0; i < n; i++) {
            uint16_t bits;
            memcpy(&bits, in + 2 * i, sizeof bits);
            out[i] = brain ? float_of_bits((uint32_t)bits << 16) : half_to_float(bits);
        }
    } else {
        return error_set(error, "tensor '%s' is %s; F32, F16, BF16 or F64 is needed", tensor->name, tensor->dtype);
    }
    return true;
}
