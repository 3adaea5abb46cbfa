/* Writes files that are either whole or not there: safetensors, and small files given as bytes.
 *
 * Everything goes to PATH.partial, is flushed, and is then renamed to PATH; a failure at any point removes the partial
 * file and leaves what was at PATH. The header of a safetensors file is produced twice by the same function: first into
 * a writer without a file, which only counts, then into the file. Nothing is allocated, so that a checkpoint can be
 * written when memory is short and does not count as an allocation of the training loop. */
#include "data/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { WRITE_PIECE = 1 << 24, DATA_ALIGNMENT = 64 };

typedef struct {
    int fd; /* -1: count only */
    uint64_t written, buffered;
    int reason; /* errno of the first failure; what follows it is dropped */
    char buffer[1 << 16];
} Writer;

/* ---- the writer ---- */

static void write_through(Writer *writer, const char *bytes, size_t size) {
    while (size && !writer->reason && writer->fd >= 0) {
        ssize_t n = write(writer->fd, bytes, size < WRITE_PIECE ? size : WRITE_PIECE);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            writer->reason = n ? errno : ENOSPC;
            return;
        }
        writer->written += (uint64_t)n;
        bytes += n;
        size -= (size_t)n;
    }
    if (writer->fd < 0) writer->written += size;
}

static void writer_flush(Writer *writer) {
    write_through(writer, writer->buffer, writer->buffered);
    writer->buffered = 0;
}

static void put(Writer *writer, const char *bytes, size_t size) {
    if (size > sizeof writer->buffer - writer->buffered) writer_flush(writer);
    if (size > sizeof writer->buffer) {
        write_through(writer, bytes, size);
    } else if (size) {
        memcpy(writer->buffer + writer->buffered, bytes, size);
        writer->buffered += size;
    }
}

static void put_text(Writer *writer, const char *text) { put(writer, text, strlen(text)); }

static void put_number(Writer *writer, uint64_t number) {
    char text[24];
    int length = snprintf(text, sizeof text, "%llu", (unsigned long long)number);
    put(writer, text, (size_t)length);
}

/* A JSON string. */
static void put_quoted(Writer *writer, const char *text) {
    put(writer, "\"", 1);
    for (; *text; text++) {
        char escape[8];
        int length = 1;
        escape[0] = *text;
        if (*text == '"' || *text == '\\')
            length = snprintf(escape, sizeof escape, "\\%c", *text);
        else if ((unsigned char)*text < 0x20)
            length = snprintf(escape, sizeof escape, "\\u%04x", (unsigned)*text);
        put(writer, escape, (size_t)length);
    }
    put(writer, "\"", 1);
}

/* ---- whole or not there ---- */

bool directory_flush(const char *path, Error *error) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return error_set(error, "%s: cannot open the directory: %s", path, strerror(errno));
    bool failed = fsync(fd) && errno != EINVAL; /* EINVAL: a file system that has nothing to flush here */
    int reason = errno;
    close(fd);
    return !failed || error_set(error, "%s: cannot flush the directory: %s", path, strerror(reason));
}

static bool flush_parent(const char *path, Error *error) {
    char parent[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) : 0;
    memcpy(parent, path, length);
    parent[length] = 0;
    return directory_flush(!slash ? "." : length ? parent : "/", error);
}

typedef void Produce(Writer *writer, const void *what);

static bool write_atomic(const char *path, uint64_t total, Produce *produce, const void *what, Error *error) {
    char partial[PATH_MAX];
    Writer writer;
    if (snprintf(partial, sizeof partial, "%s.partial", path) >= (int)sizeof partial)
        return error_set(error, "the path is too long: %.100s...", path);
    writer.fd = open(partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (writer.fd < 0) return error_set(error, "cannot create %s: %s", partial, strerror(errno));
    writer.written = writer.buffered = 0;
    writer.reason = 0;
    produce(&writer, what);
    writer_flush(&writer);
    if (!writer.reason && fsync(writer.fd)) writer.reason = errno;
    if (close(writer.fd) && !writer.reason) writer.reason = errno;
    if (!writer.reason && rename(partial, path)) writer.reason = errno;
    if (writer.reason) {
        unlink(partial);
        return error_set(error, "%s: %llu of %llu bytes were written, then: %s", path,
                         (unsigned long long)writer.written, (unsigned long long)total, strerror(writer.reason));
    }
    return flush_parent(path, error);
}

typedef struct {
    const char *bytes;
    size_t size;
} Span;

static void produce_bytes(Writer *writer, const void *what) {
    const Span *span = what;
    put(writer, span->bytes, span->size);
}

bool file_write_atomic(const char *path, const void *bytes, size_t size, Error *error) {
    Span span = {bytes, size};
    return write_atomic(path, size, produce_bytes, &span, error);
}

/* ---- safetensors ---- */

typedef struct {
    const TensorToWrite *tensors;
    int n_tensors;
    const char *const *keys, *const *values; /* metadata */
    int n_metadata;
    uint64_t header; /* bytes of JSON, spaces included */
} Content;

static uint64_t tensor_bytes_of(const TensorToWrite *tensor) {
    uint64_t bytes = stored_element_size(tensor->dtype);
    for (int i = 0; i < tensor->rank; i++) bytes *= (uint64_t)tensor->dims[i];
    return bytes;
}

static void put_tensor_entry(Writer *writer, const TensorToWrite *tensor, uint64_t begin) {
    put_quoted(writer, tensor->name);
    put_text(writer, ":{\"dtype\":");
    put_quoted(writer, tensor->dtype);
    put_text(writer, ",\"shape\":[");
    for (int i = 0; i < tensor->rank; i++) {
        put_text(writer, i ? "," : "");
        put_number(writer, (uint64_t)tensor->dims[i]);
    }
    put_text(writer, "],\"data_offsets\":[");
    put_number(writer, begin);
    put_text(writer, ",");
    put_number(writer, begin + tensor_bytes_of(tensor));
    put_text(writer, "]}");
}

/* Returns the bytes of the data. */
static uint64_t put_header(Writer *writer, const Content *content) {
    uint64_t position = 0;
    const char *comma = "";
    put_text(writer, "{");
    if (content->n_metadata) {
        put_text(writer, "\"__metadata__\":{");
        for (int i = 0; i < content->n_metadata; i++) {
            put_text(writer, i ? "," : "");
            put_quoted(writer, content->keys[i]);
            put_text(writer, ":");
            put_quoted(writer, content->values[i]);
        }
        put_text(writer, "}");
        comma = ",";
    }
    for (size_t size = 8; size; size /= 2) {
        for (int i = 0; i < content->n_tensors; i++) {
            const TensorToWrite *tensor = &content->tensors[i];
            if (stored_element_size(tensor->dtype) != size) continue;
            put_text(writer, comma);
            put_tensor_entry(writer, tensor, position);
            position += tensor_bytes_of(tensor);
            comma = ",";
        }
    }
    put_text(writer, "}");
    return position;
}

static void produce_safetensors(Writer *writer, const void *what) {
    const Content *content = what;
    char length[8];
    for (int i = 0; i < 8; i++) length[i] = (char)(content->header >> 8 * i & 255);
    put(writer, length, sizeof length);
    put_header(writer, content);
    while (writer->written + writer->buffered < 8 + content->header && !writer->reason) put(writer, " ", 1);
    for (size_t size = 8; size; size /= 2)
        for (int i = 0; i < content->n_tensors; i++)
            if (stored_element_size(content->tensors[i].dtype) == size)
                put(writer, content->tensors[i].data, tensor_bytes_of(&content->tensors[i]));
}

bool safetensors_write(const char *path, const TensorToWrite *tensors, int n_tensors, const char *const *metadata_keys,
                       const char *const *metadata_values, int n_metadata, Error *error) {
    Content content = {tensors, n_tensors, metadata_keys, metadata_values, n_metadata, 0};
    for (int i = 0; i < n_tensors; i++) {
        if (!stored_element_size(tensors[i].dtype))
            return error_set(error, "%s: tensor '%s' has the unknown dtype '%s'", path, tensors[i].name,
                             tensors[i].dtype);
        for (int j = 0; j < i; j++)
            if (!strcmp(tensors[i].name, tensors[j].name))
                return error_set(error, "%s: two tensors are named '%s'", path, tensors[i].name);
    }
    Writer counter = {.fd = -1};
    uint64_t data = put_header(&counter, &content);
    writer_flush(&counter);
    uint64_t begin = (8 + counter.written + DATA_ALIGNMENT - 1) / DATA_ALIGNMENT * DATA_ALIGNMENT;
    content.header = begin - 8;
    return write_atomic(path, begin + data, produce_safetensors, &content, error);
}
