/* Shards: files with a part of a stream of ids.
 *
 * `train_slm prepare` writes safetensors files (docs/formats.md): `first` and `bytes`, I64 [documents], `ids`, U16 or
 * U32 [ids], and as metadata the vocabulary, the end-of-text id, the tokenizer's hash, the number of the shard and a
 * checksum of everything. A shard holds whole documents, each behind an end-of-text id; the last shard of a split ends
 * with one more. */
#pragma once

#include "data/formats/tensor_file.h"

/* An open file of ids, of this program or of another one. The arrays lie in a mapped file. */
typedef struct {
    const void *ids; /* uint16 or uint32 [n_ids], of `width` bytes each */
    int width;
    int64_t n_ids, n_documents;
    const int64_t *first;    /* [n_documents] where the end-of-text id before each document is; NULL: unknown */
    const int64_t *bytes;    /* [n_documents] of UTF-8 text; NULL: unknown */
    int64_t vocabulary;      /* every id is smaller */
    int64_t end_of_text;     /* -1: unknown */
    uint64_t tokenizer_hash; /* 0: unknown */
    int64_t number;          /* of the shard within its split, from 0 */
    TensorFile file;         /* owns the mapping; of a foreign file nothing else is set */
} SlmShard;

/* Returns the bytes per id: 2 for at most 65536 ids, else 4. */
int slm_shard_width(int64_t vocabulary);
/* Opens a shard of prepare and checks all of it. The error does not contain the path. */
bool slm_shard_open(const char *path, SlmShard *shard, Error *error);
void slm_shard_close(SlmShard *shard);
/* Writes a shard, whole or not at all; the error contains the path. */
bool slm_shard_write(const char *path, const SlmShard *shard, Error *error);

static inline int32_t slm_shard_id(const SlmShard *shard, int64_t i) {
    return shard->width == 2 ? ((const uint16_t *)shard->ids)[i] : (int32_t)((const uint32_t *)shard->ids)[i];
}
/* Returns whether every id is below the vocabulary; the error names the first that is not, and its position. */
bool slm_shard_check_ids(const SlmShard *shard, Error *error);
