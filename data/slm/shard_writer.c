#include "data/slm/shard_writer.h"

#include <stdlib.h>
#include <string.h>

#include "data/slm/prepared.h"

static void reserve(ShardWriter *w, int64_t ids, int64_t documents) {
    SlmShard *s = &w->shard;
    if (s->n_ids + ids > w->id_capacity) {
        w->id_capacity = s->n_ids + ids + s->n_ids / 2;
        w->ids = xrealloc(w->ids, (size_t)w->id_capacity * (size_t)s->width);
    }
    if (s->n_documents + documents > w->document_capacity) {
        w->document_capacity = s->n_documents + documents + s->n_documents / 2 + 64;
        w->first = xrealloc(w->first, (size_t)w->document_capacity * sizeof *w->first);
        w->bytes = xrealloc(w->bytes, (size_t)w->document_capacity * sizeof *w->bytes);
    }
}

static void put_end_of_text(ShardWriter *w) {
    const uint16_t narrow = (uint16_t)w->shard.end_of_text;
    const uint32_t wide = (uint32_t)w->shard.end_of_text;
    size_t width = (size_t)w->shard.width;
    memcpy(w->ids + (size_t)w->shard.n_ids++ * width, width == 2 ? (const void *)&narrow : &wide, width);
    w->n_ids++;
}

static bool write_shard(ShardWriter *w, Error *error) {
    SlmShard *s = &w->shard;
    OWNED char *path = prepared_shard_path(w->directory, w->split, w->n_shards);
    s->ids = w->ids;
    s->first = w->first;
    s->bytes = w->bytes;
    s->number = w->n_shards++;
    bool ok = slm_shard_write(path, s, error);
    s->n_ids = s->n_documents = 0;
    return ok;
}

bool shard_writer_add(ShardWriter *w, const void *ids, int64_t n, int64_t bytes, Error *error) {
    SlmShard *s = &w->shard;
    s->width = slm_shard_width(s->vocabulary);
    if (s->n_documents && s->n_ids + 1 + n > w->shard_ids && !write_shard(w, error)) return false;
    reserve(w, n + 2, 1); /* with the end-of-text ids before it and, perhaps, behind the last document */
    w->first[s->n_documents] = s->n_ids;
    w->bytes[s->n_documents++] = bytes;
    put_end_of_text(w);
    if (n) memcpy(w->ids + (size_t)s->n_ids * (size_t)s->width, ids, (size_t)n * (size_t)s->width);
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
    free(w->ids);
    free(w->first);
    free(w->bytes);
}
