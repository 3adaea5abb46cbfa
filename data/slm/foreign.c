#include "data/slm/foreign.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mapping.h"
#include "data/formats/pickle.h"

enum { HEADER_BYTES = 1024 };

static const struct {
    int32_t magic, version;
    int width, vocabulary, end_of_text;
} layouts[] = {{20240520, 1, 2, 50257, 50256}, {20240801, 7, 4, 128256, 128000}};

/* Sets what the header of llm.c says; leaves a file without one alone. */
static bool take_header(SlmShard *s, Error *error) {
    const char *bytes = s->file.owner;
    size_t size = s->file.owner_bytes;
    int32_t header[3] = {0};
    if (size >= sizeof header) memcpy(header, bytes, sizeof header);
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        if (header[0] != layouts[i].magic) continue;
        if (header[1] != layouts[i].version)
            return error_set(error, "a file of llm.c with version %d; expected version %d", header[1],
                             layouts[i].version);
        s->width = layouts[i].width;
        s->vocabulary = layouts[i].vocabulary;
        s->end_of_text = layouts[i].end_of_text;
        s->n_ids = header[2];
        if (header[2] < 0 || size != HEADER_BYTES + (size_t)s->n_ids * (size_t)s->width)
            return error_set(error,
                             "its header announces %d ids of %d bytes behind %d bytes, and the file has %zu bytes: it "
                             "is cut off or damaged",
                             header[2], s->width, HEADER_BYTES, size);
        s->ids = bytes + HEADER_BYTES;
    }
    return true;
}

/* Reads "vocab_size" of a pickled dictionary. */
static bool read_meta(const char *path, int64_t *vocabulary, Error *error) {
    char *bytes;
    size_t size;
    Pickle pickle;
    if (!read_file(path, &bytes, &size, error)) return false;
    bool ok = pickle_parse(bytes, size, &pickle, error);
    const PickleNode *root = ok ? &pickle.nodes[pickle.root] : NULL;
    for (int i = 0; ok && root->kind == PICKLE_DICT && i + 1 < root->count; i += 2) {
        const PickleNode *key = &pickle.nodes[root->as.items[i]], *value = &pickle.nodes[root->as.items[i + 1]];
        if (key->kind == PICKLE_TEXT && key->count == 10 && !memcmp(key->as.text, "vocab_size", 10) &&
            value->kind == PICKLE_INTEGER)
            *vocabulary = value->as.integer;
    }
    if (ok && *vocabulary < 1) ok = error_set(error, "has no number \"vocab_size\" above 0");
    if (pickle.nodes) pickle_free(&pickle);
    free(bytes);
    return ok;
}

/* Takes the vocabulary of a headerless file from meta.pkl, unless it is known. */
static bool take_meta(const char *path, SlmShard *s, Error *error) {
    char *directory = path_directory(path), *meta = path_join(directory, "meta.pkl");
    Error why;
    bool ok = s->vocabulary ||
              (access(meta, F_OK)
                   ? error_set(error,
                               "%s: its vocabulary is unknown: the file has no header, and there is no %s; give its "
                               "tokenizer, or prepare it with train_slm prepare if it is text",
                               path, meta)
                   : read_meta(meta, &s->vocabulary, &why) || error_set(error, "%s: %s", meta, why.text));
    free(directory);
    free(meta);
    return ok;
}

static bool take_headerless(SlmShard *s, Error *error) {
    s->width = 2;
    s->n_ids = (int64_t)s->file.owner_bytes / 2;
    s->ids = s->file.owner;
    return !(s->file.owner_bytes % 2) ||
           error_set(error,
                     "has %zu bytes, an odd number, and no header: no file of uint16 ids, or cut off (texts become ids "
                     "with train_slm prepare)",
                     s->file.owner_bytes);
}

static bool check(const SlmShard *s, Error *error) {
    if (s->vocabulary > INT32_MAX) return error_set(error, "vocabulary %lld is too large", (long long)s->vocabulary);
    if (s->end_of_text >= s->vocabulary)
        return error_set(error, "the end-of-text id %lld is not below the vocabulary, %lld", (long long)s->end_of_text,
                         (long long)s->vocabulary);
    return slm_shard_check_ids(s, error);
}

bool slm_foreign_open(const char *path, const SlmForeign *foreign, SlmShard *s, Error *error) {
    Error why = {.text = ""};
    *s = (SlmShard){.end_of_text = -1};
    bool ok = file_map(path, &s->file.owner, &s->file.owner_bytes, &why) && take_header(s, &why);
    if (ok && !s->ids) ok = take_headerless(s, &why);
    if (foreign && foreign->vocabulary) s->vocabulary = foreign->vocabulary;
    if (foreign && foreign->end_of_text >= 0) s->end_of_text = foreign->end_of_text;
    if (!ok)
        error_set(error, "%s: %s", path, why.text);
    else
        ok = take_meta(path, s, error) && (check(s, &why) || error_set(error, "%s: %s", path, why.text));
    if (!ok) slm_shard_close(s);
    return ok;
}
