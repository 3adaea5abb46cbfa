/* Writes safetensors files, whole or not at all. The header is produced twice by the same function: first into a sink
 * without a file, which only counts, then into the file. Nothing is allocated, so that a checkpoint can be written when
 * memory is short. */
#include "data/formats/safetensors.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"

enum { DATA_ALIGNMENT = 64 };

typedef struct {
    FileWriter *file;    /* NULL: count only */
    uint64_t size, hash; /* of the bytes so far */
} Sink;

static void put(Sink *sink, const void *bytes, size_t size) {
    sink->size += size;
    if (!sink->file) sink->hash = hash_bytes(sink->hash, bytes, size);
    if (sink->file) file_put(sink->file, bytes, size);
}

static void put_text(Sink *sink, const char *text) { put(sink, text, strlen(text)); }

static void put_number(Sink *sink, uint64_t number) {
    char text[24];
    int length = snprintf(text, sizeof text, "%llu", (unsigned long long)number);
    put(sink, text, (size_t)length);
}

/* A JSON string. */
static void put_quoted(Sink *sink, const char *text) {
    put(sink, "\"", 1);
    for (; *text; text++) {
        char escape[8];
        int length = 1;
        escape[0] = *text;
        if (*text == '"' || *text == '\\')
            length = snprintf(escape, sizeof escape, "\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            length = snprintf(escape, sizeof escape, "\\u%04x", (unsigned)*text);
        put(sink, escape, (size_t)length);
    }
    put(sink, "\"", 1);
}

typedef struct {
    const TensorToWrite *tensors;
    int n_tensors;
    const char *const *keys, *const *values; /* metadata */
    int n_metadata;
    const char *sum; /* the checksum, as text */
    uint64_t header; /* bytes of JSON, spaces included */
} Content;

static uint64_t tensor_bytes_of(const TensorToWrite *tensor) {
    uint64_t bytes = stored_element_size(tensor->dtype);
    for (int i = 0; i < tensor->rank; i++) bytes *= (uint64_t)tensor->dims[i];
    return bytes;
}

/* Returns the tensor that follows `last` in the file, where larger elements come first; last NULL: the first one. NULL:
 * there is none. */
static const TensorToWrite *next_tensor(const Content *content, const TensorToWrite *last) {
    ptrdiff_t i = last ? last + 1 - content->tensors : 0;
    for (size_t size = last ? stored_element_size(last->dtype) : 8; size; size /= 2, i = 0)
        for (; i < content->n_tensors; i++)
            if (stored_element_size(content->tensors[i].dtype) == size) return &content->tensors[i];
    return NULL;
}

static void put_tensor_entry(Sink *sink, const TensorToWrite *tensor, uint64_t begin) {
    put_quoted(sink, tensor->name);
    put_text(sink, ":{\"dtype\":");
    put_quoted(sink, tensor->dtype);
    put_text(sink, ",\"shape\":[");
    for (int i = 0; i < tensor->rank; i++) {
        put_text(sink, i ? "," : "");
        put_number(sink, (uint64_t)tensor->dims[i]);
    }
    put_text(sink, "],\"data_offsets\":[");
    put_number(sink, begin);
    put_text(sink, ",");
    put_number(sink, begin + tensor_bytes_of(tensor));
    put_text(sink, "]}");
}

/* Returns the bytes of the data. */
static uint64_t put_header(Sink *sink, const Content *content) {
    uint64_t position = 0;
    put_text(sink, "{\"__metadata__\":{");
    for (int i = 0; i <= content->n_metadata; i++) {
        bool given = i < content->n_metadata;
        put_text(sink, i ? "," : "");
        put_quoted(sink, given ? content->keys[i] : SAFETENSORS_SUM_KEY);
        put_text(sink, ":");
        put_quoted(sink, given ? content->values[i] : content->sum);
    }
    put_text(sink, "}");
    for (const TensorToWrite *tensor = NULL; (tensor = next_tensor(content, tensor));) {
        put_text(sink, ",");
        put_tensor_entry(sink, tensor, position);
        position += tensor_bytes_of(tensor);
    }
    put_text(sink, "}");
    return position;
}

static void put_file(Sink *sink, const Content *content) {
    char length[8];
    for (int i = 0; i < 8; i++) length[i] = (char)(content->header >> 8 * i & 255);
    put(sink, length, sizeof length);
    put_header(sink, content);
    while (sink->size < 8 + content->header) put(sink, " ", 1);
    for (const TensorToWrite *tensor = NULL; (tensor = next_tensor(content, tensor));)
        put(sink, tensor->data, tensor_bytes_of(tensor));
}

bool safetensors_write(const char *path, const TensorToWrite *tensors, int n_tensors, const char *const *metadata_keys,
                       const char *const *metadata_values, int n_metadata, Error *error) {
    FileWriter file;
    char sum[SAFETENSORS_SUM] = SAFETENSORS_NO_SUM;
    Content content = {tensors, n_tensors, metadata_keys, metadata_values, n_metadata, sum, 0};
    for (int i = 0; i < n_tensors; i++) {
        if (!stored_element_size(tensors[i].dtype))
            return error_set(error, "%s: tensor '%s' has the unknown dtype '%s'", path, tensors[i].name,
                             tensors[i].dtype);
        for (int j = 0; j < i; j++)
            if (!strcmp(tensors[i].name, tensors[j].name))
                return error_set(error, "%s: two tensors are named '%s'", path, tensors[i].name);
    }
    Sink counter = {.file = NULL, .hash = HASH_START};
    uint64_t data = put_header(&counter, &content), all = counter.hash; /* the checksum of the header, then the data */
    for (const TensorToWrite *tensor = NULL; (tensor = next_tensor(&content, tensor));)
        all = checksum(all, tensor->data, tensor_bytes_of(tensor));
    snprintf(sum, sizeof sum, "%016llx", (unsigned long long)all);
    uint64_t begin = (8 + counter.size + DATA_ALIGNMENT - 1) / DATA_ALIGNMENT * DATA_ALIGNMENT;
    content.header = begin - 8;
    if (!file_begin(&file, path, begin + data, error)) return false;
    put_file(&(Sink){.file = &file}, &content);
    return file_end(&file, error);
}
