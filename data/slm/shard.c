#include "data/slm/shard.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/formats/safetensors.h"
#include "data/formats/tensor_file_open.h"

static const char FORMAT[] = "train.c tokens 1";
enum { N_METADATA = 5 };
static const char *const KEYS[N_METADATA] = {"format", "vocabulary", "end_of_text", "tokenizer_hash", "shard"};

int slm_shard_width(int64_t vocabulary) { return vocabulary <= 1 << 16 ? 2 : 4; }

void slm_shard_close(SlmShard *shard) {
    tensor_file_close(&shard->file);
    *shard = (SlmShard){0};
}

/* ---- ids ---- */

static uint32_t largest_id(const SlmShard *shard, int64_t begin, int64_t end) {
    uint32_t largest = 0;
    if (shard->width == 2) {
        const uint16_t *ids = shard->ids;
        uint16_t most = 0;
        for (int64_t i = begin; i < end; i++) most = ids[i] > most ? ids[i] : most;
        largest = most;
    } else {
        const uint32_t *ids = shard->ids;
        for (int64_t i = begin; i < end; i++) largest = ids[i] > largest ? ids[i] : largest;
    }
    return largest;
}

bool slm_shard_check_ids(const SlmShard *shard, Error *error) {
    enum { BLOCK = 1 << 16 };
    for (int64_t begin = 0; begin < shard->n_ids; begin += BLOCK) {
        int64_t end = begin + BLOCK < shard->n_ids ? begin + BLOCK : shard->n_ids;
        if (largest_id(shard, begin, end) < shard->vocabulary) continue;
        while (largest_id(shard, begin, begin + 1) < shard->vocabulary) begin++;
        return error_set(error,
                         "id %u at position %lld is not below the vocabulary, %lld: the file was made with another "
                         "tokenizer, or its ids are not of %d bits",
                         largest_id(shard, begin, begin + 1), (long long)begin, (long long)shard->vocabulary,
                         8 * shard->width);
    }
    return true;
}

/* ---- reading ---- */

/* Returns the data of a vector, aligned to its elements, and its length; NULL with an error. */
static const void *take(const TensorFile *file, const char *name, const char *dtype, int64_t *n, Error *error) {
    const StoredTensor *t = tensor_file_find(file, name);
    char text[128];
    if (!t) {
        error_set(error, "has no tensor '%s': it is no shard of train_slm prepare", name);
    } else if (strcmp(t->dtype, dtype) != 0 || t->rank != 1 || (*n >= 0 && t->dims[0] != *n)) {
        error_set(error, "tensor '%s' is %s; expected %s [%s]", name, shape_text(t->dtype, t->rank, t->dims, text),
                  dtype, *n >= 0 ? "documents" : "n");
    } else if ((uintptr_t)t->data % stored_element_size(dtype)) {
        error_set(error, "tensor '%s' is not aligned to its elements", name);
    } else {
        *n = t->dims[0];
        return t->data;
    }
    return NULL;
}

/* Reads a whole number of the metadata; base 16: 16 digits. */
static bool take_number(const TensorFile *file, const char *key, int64_t max, int64_t *value, Error *error) {
    const char *text = tensor_file_metadata(file, key);
    char *end = NULL;
    errno = 0;
    if (text && *text >= '0' && *text <= '9') *value = strtoll(text, &end, 10);
    return (end && !*end && !errno && *value <= max) ||
           error_set(error, "its metadata's \"%s\" is %.40s; expected a number from 0 to %lld", key,
                     text ? text : "missing", (long long)max);
}

static bool take_metadata(SlmShard *s, Error *error) {
    const char *format = tensor_file_metadata(&s->file, "format"),
               *hash = tensor_file_metadata(&s->file, "tokenizer_hash");
    if (!format || strcmp(format, FORMAT) != 0)
        return error_set(error, "its metadata's \"format\" is %.40s; expected \"%s\", a shard of train_slm prepare",
                         format ? format : "missing", FORMAT);
    if (!hash || strlen(hash) != 16 || strspn(hash, "0123456789abcdef") != 16)
        return error_set(error, "its metadata's \"tokenizer_hash\" is %.40s; expected 16 hexadecimal digits",
                         hash ? hash : "missing");
    s->tokenizer_hash = strtoull(hash, NULL, 16);
    return take_number(&s->file, "vocabulary", INT32_MAX, &s->vocabulary, error) &&
           take_number(&s->file, "end_of_text", s->vocabulary - 1, &s->end_of_text, error) &&
           take_number(&s->file, "shard", INT32_MAX, &s->number, error);
}

static bool check_documents(const SlmShard *s, Error *error) {
    const int64_t most = (int64_t)1 << 44; /* sums over all shards stay in range */
    int64_t bytes = 0;
    if (!s->n_documents || s->first[0]) return error_set(error, "its first document is not at position 0");
    for (int64_t d = 0; d < s->n_documents; d++) {
        int64_t at = s->first[d];
        if (at >= s->n_ids || (d && at <= s->first[d - 1]))
            return error_set(error, "first[%lld] is %lld: positions must ascend, below %lld", (long long)d,
                             (long long)at, (long long)s->n_ids);
        if (slm_shard_id(s, at) != s->end_of_text)
            return error_set(error,
                             "document %lld begins at position %lld with id %d, not with the end-of-text id %lld",
                             (long long)d, (long long)at, slm_shard_id(s, at), (long long)s->end_of_text);
        if (s->bytes[d] < 0 || s->bytes[d] > most - bytes)
            return error_set(error, "bytes[%lld] is %lld: expected sizes of texts, from 0 to %lld in all", (long long)d,
                             (long long)s->bytes[d], (long long)most);
        bytes += s->bytes[d];
    }
    return true;
}

static bool take_tensors(SlmShard *s, Error *error) {
    s->width = slm_shard_width(s->vocabulary);
    s->n_ids = s->n_documents = -1;
    s->ids = take(&s->file, "ids", s->width == 2 ? "U16" : "U32", &s->n_ids, error);
    if (!s->ids) return false;
    s->first = take(&s->file, "first", "I64", &s->n_documents, error);
    if (!s->first) return false;
    s->bytes = take(&s->file, "bytes", "I64", &s->n_documents, error);
    return s->bytes && slm_shard_check_ids(s, error) && check_documents(s, error);
}

bool slm_shard_open(const char *path, SlmShard *shard, Error *error) {
    *shard = (SlmShard){0};
    if (tensor_file_open(path, &shard->file, error) && take_metadata(shard, error) && take_tensors(shard, error))
        return true;
    slm_shard_close(shard);
    return false;
}

/* ---- writing ---- */

bool slm_shard_write(const char *path, const SlmShard *s, Error *error) {
    char vocabulary[24], end_of_text[24], hash[24], number[24];
    const char *const values[N_METADATA] = {FORMAT, vocabulary, end_of_text, hash, number};
    const TensorToWrite tensors[] = {
        {.name = "first", .dtype = "I64", .rank = 1, .dims = {s->n_documents}, .data = s->first},
        {.name = "bytes", .dtype = "I64", .rank = 1, .dims = {s->n_documents}, .data = s->bytes},
        {.name = "ids", .dtype = s->width == 2 ? "U16" : "U32", .rank = 1, .dims = {s->n_ids}, .data = s->ids}};
    snprintf(vocabulary, sizeof vocabulary, "%lld", (long long)s->vocabulary);
    snprintf(end_of_text, sizeof end_of_text, "%lld", (long long)s->end_of_text);
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)s->tokenizer_hash);
    snprintf(number, sizeof number, "%lld", (long long)s->number);
    return safetensors_write(path, tensors, 3, KEYS, values, N_METADATA, error);
}
