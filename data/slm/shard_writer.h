/* Writes the documents of a split into shards, in order. The ids of one shard are in memory until it is written. */
#pragma once

#include "data/slm/shard.h"

typedef struct {
    const char *directory, *split;
    int64_t shard_ids; /* a shard has at most so many, unless a document alone has more */
    SlmShard shard;    /* vocabulary, end_of_text and tokenizer_hash are given; the others begin as zeros */
    Bytes ids;
    int64_t *first, *bytes;
    int64_t n_shards, n_ids, n_documents, n_bytes; /* of the whole split */
} ShardWriter;

/* Appends a document of n ids, each of slm_shard_width(vocabulary) bytes, and of `bytes` bytes of text. */
bool shard_writer_add(ShardWriter *writer, const void *ids, int64_t n, int64_t bytes, Error *error);
/* Writes the last end-of-text id and the last shard; a split without documents gets none. */
bool shard_writer_end(ShardWriter *writer, Error *error);
void shard_writer_close(ShardWriter *writer);
