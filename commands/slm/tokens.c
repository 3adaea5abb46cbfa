#include "commands/slm/tokens.h"

#include <stdlib.h>

#include "base/file.h"
#include "commands/trained_tokenizer.h"
#include "data/slm/prepared.h"
#include "data/text/unknown.h"

/* Returns the path of the tokenizer of the data; free(). NULL: there is none. */
static char *find_tokenizer(const char *data) {
    char *found = tokenizer_in(data);
    if (found) return found;
    OWNED char *folder = path_is_folder(data) ? path_join(data, "tokenized_data") : path_directory(data);
    return tokenizer_characters_in(folder);
}

Tokenizer *slm_tokens_open(const SlmOptions *o) {
    Error error;
    const OptionList *data = &o->train.manifest;
    OWNED char *path = o->tokenizer ? xstrdup(o->tokenizer) : data->count ? find_tokenizer(data->text[0]) : NULL;
    if (!path) return NULL;
    Tokenizer *tokenizer = tokenizer_open(path, &error);
    if (!tokenizer) die("%s: %s", path, error.text);
    return tokenizer;
}

void slm_tokens_keep(const Tokenizer *tokenizer, const char *output_dir) {
    make_directories(output_dir);
    MUST(tokenizer_copy(tokenizer, output_dir, &error));
}

void slm_tokens_check(const Tokenizer *tokenizer, const SlmStream *stream, const char *path) {
    if (!tokenizer) return;
    if (stream->tokenizer_hash && stream->tokenizer_hash != tokenizer_hash(tokenizer))
        die("%s was made with another tokenizer than %s: give the one that it was made with, or prepare it again", path,
            tokenizer_file(tokenizer));
    if (stream->vocabulary > tokenizer_vocabulary(tokenizer))
        die("%s has ids below %d, and %s only %d", path, stream->vocabulary, tokenizer_file(tokenizer),
            tokenizer_vocabulary(tokenizer));
}

/* Returns how often an id is in a stream. */
static int64_t count_id(const SlmStream *stream, int32_t id) {
    enum { BLOCK = 4096 };
    int32_t ids[BLOCK];
    int64_t count = 0;
    for (int64_t at = 0, n; at < stream->n_tokens; at += n) {
        n = stream->n_tokens - at < BLOCK ? stream->n_tokens - at : BLOCK;
        slm_stream_read(stream, at, n, ids);
        for (int64_t i = 0; i < n; i++) count += ids[i] == id;
    }
    return count;
}

void slm_tokens_check_unknown(const SlmOptions *o, const Tokenizer *tokenizer, SlmStream *const streams[2]) {
    int32_t id = tokenizer ? tokenizer_unknown_id(tokenizer) : -1;
    const char *path = streams[0] ? o->train.manifest.text[0] : NULL;
    bool prepared = path && streams[0]->tokenizer_hash && path_is_folder(path);
    Error error;
    json_auto_t *record = prepared ? prepared_read(path, &error) : NULL;
    if (prepared && !record) die("%s", error.text);
    if (record && !prepared_check_unknown(record, o->max_unknown, &error)) die("%s: %s", path, error.text);
    for (int i = 0; i < 2 && !prepared && id >= 0; i++)
        if (streams[i] && !unknown_check(i ? "val" : "train", count_id(streams[i], id), streams[i]->n_tokens, "",
                                         o->max_unknown, &error))
            die("%s: %s", path, error.text);
}
