#include "data/formats/tensor_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistr.h>

#include "base/mapping.h"

void tensor_file_close(TensorFile *file) {
    for (int i = 0; i < file->n_tensors; i++) free(file->tensors[i].name);
    for (int i = 0; i < file->n_metadata; i++) FREE(file->metadata_keys[i], file->metadata_values[i]);
    FREE(file->tensors, file->by_name, file->metadata_keys, file->metadata_values, file->path);
    for (int i = 0; i < file->n_shards; i++) tensor_file_close(&file->shards[i]);
    free(file->shards);
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

const char *tensor_file_metadata(const TensorFile *file, const char *key) {
    for (int i = 0; i < file->n_metadata; i++)
        if (!strcmp(file->metadata_keys[i], key)) return file->metadata_values[i];
    return NULL;
}

/* ---- elements ---- */

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
