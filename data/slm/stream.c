#include "data/slm/stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "data/slm/prepared.h"
#include "data/slm/shard.h"
#include "data/slm/split_files.h"

/* The files of a stream, and where they begin in it. */
typedef struct {
    int n;
    SlmShard *shards; /* [n] */
    int64_t *begin;   /* [n + 1] */
    void *own_ids;    /* of a stream in memory */
    int64_t *first, *bytes;
} State;

/* ---- opening ---- */

/* Returns the files of a split: shards of prepare if there are any, else those of another program. */
static SplitFiles find_files(const char *directory, const char *split, bool *shards) {
    static const char *const endings[] = {".bin", ".npy"};
    SplitFiles paths = split_files_list(directory, split, SHARD_ENDING);
    OWNED char *below = path_join(directory, "tokenized_data"); /* as helloLondon has them */
    *shards = paths.n > 0;
    for (int i = 0; i < 4 && !paths.n; i++) paths = split_files_list(i % 2 ? below : directory, split, endings[i / 2]);
    return paths;
}

bool slm_stream_exists(const char *path, const char *split) {
    bool shards;
    SplitFiles paths = find_files(path, split, &shards);
    bool exists = paths.n > 0;
    split_files_free(&paths);
    return exists;
}

/* Fails unless the folder is whole and these are all its shards. */
static bool check_prepared(const char *directory, const char *split, int n, Error *error) {
    json_auto_t *record = prepared_read(directory, error);
    if (!record) return false;
    const json_t *facts = json_object_get(json_object_get(record, "splits"), split);
    long long want = json_integer_value(json_object_get(facts, "shards"));
    if (want != n)
        return error_set(error,
                         "%s has %d shards of '%s', and its " PREPARED_NAME " says %lld: files are missing or do not "
                         "belong there; run train_slm prepare again, with --overwrite",
                         directory, n, split, want);
    return prepared_check_tokenizer(directory, record, error);
}

/* Opens file i, which must be of the same kind as the first. */
static bool open_shard(State *s, int i, const char *path, const SlmForeign *foreign, Error *error) {
    SlmShard *shard = &s->shards[i];
    const SlmShard *one = s->shards;
    if (!ends_with(path, SHARD_ENDING)) {
        if (!slm_foreign_open(path, foreign, shard, error)) return false;
    } else if (!slm_shard_open(path, shard, error)) {
        return error_before(error, "%s: ", path);
    }
    if (foreign && foreign->width && shard->width != foreign->width)
        return error_set(error, "%s says that its ids have %d bytes, and --token-bytes says %d: leave that option out",
                         path, shard->width, foreign->width);
    if (shard->tokenizer_hash != one->tokenizer_hash || shard->vocabulary != one->vocabulary ||
        shard->end_of_text != one->end_of_text)
        return error_set(
            error,
            "%s was made with another tokenizer than the files before it: vocabulary %lld and hash %016llx, "
            "not %lld and %016llx",
            path, (long long)shard->vocabulary, (unsigned long long)shard->tokenizer_hash, (long long)one->vocabulary,
            (unsigned long long)one->tokenizer_hash);
    int64_t number = !shard->first ? -1 : s->n > 1 ? i : split_files_number(path);
    if (number >= 0 && shard->number != number)
        return error_set(error, "%s is shard %lld by its metadata, and %lld by its name: a shard is missing or renamed",
                         path, (long long)shard->number, (long long)number);
    return true;
}

/* Lists where documents begin in files without a list: at position 0 and at every end-of-text id. */
static void find_documents(SlmStream *stream, State *s) {
    int64_t n = 0;
    s->first = xgrow(NULL, 0, sizeof *s->first);
    for (int i = 0; i < s->n; i++)
        for (int64_t at = 0; at < s->shards[i].n_ids; at++) {
            int64_t position = s->begin[i] + at;
            bool begins = !position || slm_shard_id(&s->shards[i], at) == stream->end_of_text;
            if (!begins || position == stream->n_tokens - 1) continue;
            s->first[n++] = position;
            s->first = xgrow(s->first, (size_t)n, sizeof *s->first); /* with room for the end */
        }
    stream->n_documents = n;
}

/* Joins the lists of the shards. */
static void join_documents(SlmStream *stream, State *s) {
    for (int i = 0; i < s->n; i++) stream->n_documents += s->shards[i].n_documents;
    s->first = xmalloc((size_t)(stream->n_documents + 1) * sizeof *s->first);
    s->bytes = xmalloc((size_t)stream->n_documents * sizeof *s->bytes);
    for (int64_t i = 0, d = 0; i < s->n; i++)
        for (int64_t k = 0; k < s->shards[i].n_documents; k++, d++) {
            s->first[d] = s->begin[i] + s->shards[i].first[k];
            s->bytes[d] = s->shards[i].bytes[k];
        }
}

static SlmStream *stream_of_state(State *s) {
    SlmStream *stream = xcalloc(1, sizeof *stream);
    s->begin = xcalloc((size_t)s->n + 1, sizeof *s->begin);
    for (int i = 0; i < s->n; i++) s->begin[i + 1] = s->begin[i] + s->shards[i].n_ids;
    stream->n_tokens = s->begin[s->n];
    stream->vocabulary = (int)s->shards->vocabulary;
    stream->end_of_text = (int32_t)s->shards->end_of_text;
    stream->tokenizer_hash = s->shards->tokenizer_hash;
    stream->state = s;
    return stream;
}

static SlmStream *open_paths(const SplitFiles *paths, const SlmForeign *foreign, Error *error) {
    State *s = xcalloc(1, sizeof *s);
    s->shards = xcalloc((size_t)paths->n, sizeof *s->shards);
    s->n = paths->n;
    bool ok = true;
    for (int i = 0; ok && i < s->n; i++) ok = open_shard(s, i, paths->paths[i], foreign, error);
    SlmStream *stream = stream_of_state(s);
    if (ok && stream->n_tokens < 2)
        ok = error_set(error, "%s has %lld ids; a stream needs 2, the second as the target of the first",
                       paths->paths[0], (long long)stream->n_tokens);
    if (ok && s->shards->first)
        join_documents(stream, s);
    else if (ok)
        find_documents(stream, s);
    if (ok && s->first[stream->n_documents - 1] >= stream->n_tokens - 1)
        ok = error_set(error, "%s ends with the end-of-text id before a document, which is missing",
                       paths->paths[paths->n - 1]);
    if (!ok) {
        slm_stream_close(stream);
        return NULL;
    }
    s->first[stream->n_documents] = stream->n_tokens - 1;
    stream->first = s->first;
    stream->bytes = s->bytes;
    return stream;
}

SlmStream *slm_stream_open(const char *path, const char *split, const SlmForeign *foreign, Error *error) {
    SplitFiles paths = {0};
    bool shards = false, ok = true;
    if (split)
        paths = find_files(path, split, &shards);
    else
        split_files_add(&paths, path);
    if (!paths.n)
        ok = path_is_folder(path)
                 ? error_set(error,
                             "%s has no split '%s': expected %s_00000" SHARD_ENDING
                             ", which train_slm prepare makes from texts, or %s.bin or .npy",
                             path, split, split, split)
                 : error_set(error, "%s is no folder: expected what train_slm prepare has written", path);
    ok = ok && (shards ? check_prepared(path, split, paths.n, error) : split_files_check(&paths, error));
    SlmStream *stream = ok ? open_paths(&paths, foreign, error) : NULL;
    split_files_free(&paths);
    return stream;
}

SlmStream *slm_stream_of(const int32_t *ids, int64_t n_tokens, const int64_t *first, const int64_t *bytes,
                         int64_t n_documents, int vocabulary, int32_t end_of_text) {
    State *s = xcalloc(1, sizeof *s);
    size_t id_bytes = (size_t)n_tokens * sizeof *ids, document_bytes = (size_t)n_documents * sizeof *first;
    s->n = 1;
    s->shards = xcalloc(1, sizeof *s->shards);
    s->own_ids = memcpy(xmalloc(id_bytes), ids, id_bytes);
    s->first = memcpy(xmalloc(document_bytes + sizeof *first), first, document_bytes + sizeof *first);
    if (bytes) s->bytes = memcpy(xmalloc(document_bytes), bytes, document_bytes);
    *s->shards = (SlmShard){
        .ids = s->own_ids, .width = 4, .n_ids = n_tokens, .vocabulary = vocabulary, .end_of_text = end_of_text};
    SlmStream *stream = stream_of_state(s);
    stream->n_documents = n_documents;
    stream->first = s->first;
    stream->bytes = s->bytes;
    return stream;
}

void slm_stream_close(SlmStream *stream) {
    if (!stream) return;
    State *s = stream->state;
    for (int i = 0; i < s->n; i++) slm_shard_close(&s->shards[i]);
    void *const owned[] = {s->shards, s->begin, s->own_ids, s->first, s->bytes, s, stream};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) free(owned[i]);
}

/* ---- reading ---- */

void slm_stream_read(const SlmStream *stream, int64_t position, int64_t n, int32_t *ids) {
    const State *s = stream->state;
    if (position < 0 || n < 0 || position > stream->n_tokens - n)
        die("ids %lld to %lld of a stream of %lld were asked for", (long long)position, (long long)(position + n),
            (long long)stream->n_tokens);
    for (int64_t i = last_at_most(s->begin, s->n, position); n > 0; i++) {
        const SlmShard *shard = &s->shards[i];
        int64_t at = position - s->begin[i], some = shard->n_ids - at < n ? shard->n_ids - at : n;
        for (int64_t k = 0; k < some; k++) ids[k] = slm_shard_id(shard, at + k);
        ids += some;
        position += some;
        n -= some;
    }
}
