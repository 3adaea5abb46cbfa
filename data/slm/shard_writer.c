#include "data/slm/shard_writer.h"

#include <stdlib.h>

#include "data/slm/prepared.h"

static void put_end_of_text(ShardWriter *w) {
    const uint16_t narrow = (uint16_t)w->shard.end_of_text;
    const uint32_t wide = (uint32_t)w->shard.end_of_text;
    size_t width = (size_t)w->shard.width;
    bytes_add(&w->ids, width == 2 ? (const void *)&narrow : &wide, width);
    w->shard.n_ids++;
    w->n_ids++;
}

static bool write_shard(ShardWriter *w, Error *error) {
    SlmShard *s = &w->shard;
    OWNED char *path = prepared_shard_path(w->directory, w->split, w->n_shards);
    s->ids = w->ids.at;
    s->first = w->first;
    s->bytes = w->bytes;
    s->number = w->n_shards++;
    bool ok = slm_shard_write(path, s, error);
    s->n_ids = s->n_documents = 0;
    w->ids.n = 0;
    return ok;
}

bool shard_writer_add(ShardWriter *w, const void *ids, int64_t n, int64_t bytes, Error *error) {
    SlmShard *s = &w->shard;
    s->width = slm_shard_width(s->vocabulary);
    if (s->n_documents && s->n_ids + 1 + n > w->shard_ids && !write_shard(w, error)) return false;
    w->first = xgrow(w->first, (size_t)s->n_documents, sizeof *w->first);
    w->bytes = xgrow(w->bytes, (size_t)s->n_documents, sizeof *w->bytes);
    w->first[s->n_documents] = s->n_ids;
    w->bytes[s->n_documents++] = bytes;
    put_end_of_text(w);
    bytes_add(&w->ids, ids, (size_t)n * (size_t)s->width);
    s->n_ids += n;
    w->n_ids += n;
    w->n_documents++;
    w->n_bytes += bytes;
    return true;
}

bool shard_writer_end(ShardWriter *w, Error *error) {
    if (!w->shard.n_documents) return true;
    put_end_of_text(w);
    return write_shard(w, error);
}

void shard_writer_close(ShardWriter *w) {
    free(w->ids.at);
    free(w->first);
    free(w->bytes);
}
