/* Opens a tokenizer and hands each call on to its kind. */
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "data/text/sentencepiece.h"
#include "data/text/tokenizer.h"

struct Tokenizer {
    char *file;
    uint64_t hash;
    SentencePiece *pieces;
};

/* Returns the path of the file that `path` means, NULL with an error; free(). */
static char *find_file(const char *path, Error *error) {
    static const char *const names[] = {"tokenizer.json", "tokenizer.model"};
    if (!path_is_folder(path)) return xstrdup(path);
    for (int i = 0; i < 2; i++) {
        char *file = path_join(path, names[i]);
        if (!access(file, F_OK)) return file;
        free(file);
    }
    error_set(error, "the folder holds neither tokenizer.json nor tokenizer.model");
    return NULL;
}

static bool open_file(Tokenizer *tokenizer, Error *error) {
    char *bytes;
    size_t size;
    if (!read_file(tokenizer->file, &bytes, &size, error)) return false;
    tokenizer->hash = checksum(0, bytes, size);
    free(bytes);
    tokenizer->pieces = sentencepiece_open(tokenizer->file, error);
    return tokenizer->pieces != NULL;
}

Tokenizer *tokenizer_open(const char *path, Error *error) {
    char *file = find_file(path, error);
    if (!file) return NULL;
    Tokenizer *tokenizer = xcalloc(1, sizeof *tokenizer);
    tokenizer->file = file;
    if (open_file(tokenizer, error)) return tokenizer;
    tokenizer_close(tokenizer);
    return NULL;
}

void tokenizer_close(Tokenizer *tokenizer) {
    if (!tokenizer) return;
    sentencepiece_close(tokenizer->pieces);
    free(tokenizer->file);
    free(tokenizer);
}

int tokenizer_vocabulary(const Tokenizer *tokenizer) { return sentencepiece_vocabulary(tokenizer->pieces); }

int32_t tokenizer_unknown_id(const Tokenizer *tokenizer) { return sentencepiece_unknown_id(tokenizer->pieces); }

int32_t tokenizer_end_of_text(const Tokenizer *tokenizer) { return sentencepiece_end_of_text(tokenizer->pieces); }

int32_t tokenizer_id(const Tokenizer *tokenizer, const char *piece) {
    return sentencepiece_id(tokenizer->pieces, piece);
}

const char *tokenizer_piece(const Tokenizer *tokenizer, int32_t id) {
    return sentencepiece_piece(tokenizer->pieces, id);
}

void tokenizer_encode(const Tokenizer *tokenizer, const char *text, size_t size, bool specials, TokenIds *ids) {
    sentencepiece_encode(tokenizer->pieces, text, size, specials, ids);
}

char *tokenizer_decode(const Tokenizer *tokenizer, const int32_t *ids, int64_t n, size_t *size) {
    return sentencepiece_decode(tokenizer->pieces, ids, n, size);
}

uint64_t tokenizer_hash(const Tokenizer *tokenizer) { return tokenizer->hash; }

const char *tokenizer_file(const Tokenizer *tokenizer) { return tokenizer->file; }
