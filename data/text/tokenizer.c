/* Opens a tokenizer and hands each call on to its kind. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "data/text/bpe.h"
#include "data/text/bpe_open.h"
#include "data/text/sentencepiece.h"
#include "data/text/tokenizer.h"

struct Tokenizer {
    char *file;
    uint64_t hash;
    SentencePiece *pieces; /* or */
    Bpe *bpe;
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
    if (bytes[0] == '{' || ends_with(tokenizer->file, ".json"))
        tokenizer->bpe = bpe_open(bytes, size, error);
    else
        tokenizer->pieces = sentencepiece_open(tokenizer->file, error);
    tokenizer->hash = tokenizer->bpe ? tokenizer->bpe->hash : checksum(0, bytes, size);
    free(bytes);
    return tokenizer->bpe || tokenizer->pieces;
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
    bpe_close(tokenizer->bpe);
    free(tokenizer->file);
    free(tokenizer);
}

int tokenizer_vocabulary(const Tokenizer *tokenizer) {
    return tokenizer->bpe ? tokenizer->bpe->vocabulary : sentencepiece_vocabulary(tokenizer->pieces);
}

int32_t tokenizer_unknown_id(const Tokenizer *tokenizer) {
    return tokenizer->bpe ? tokenizer->bpe->settings.unknown : sentencepiece_unknown_id(tokenizer->pieces);
}

int32_t tokenizer_end_of_text(const Tokenizer *tokenizer) {
    static const char *const names[] = {"<|endoftext|>", "<|end_of_text|>", "</s>"};
    int32_t id = -1;
    if (!tokenizer->bpe) return sentencepiece_end_of_text(tokenizer->pieces);
    for (int i = 0; i < 3 && id < 0; i++) id = tokenizer_id(tokenizer, names[i]);
    return id;
}

int32_t tokenizer_id(const Tokenizer *tokenizer, const char *piece) {
    if (!tokenizer->bpe) return sentencepiece_id(tokenizer->pieces, piece);
    const int64_t number = strings_find(&tokenizer->bpe->pieces, piece, strlen(piece));
    return number < 0 ? -1 : tokenizer->bpe->ids[number];
}

/* Ids come from files, so they are checked. */
static void check_id(const Tokenizer *tokenizer, int32_t id) {
    if (id < 0 || id >= tokenizer->bpe->vocabulary)
        die("text id %d is not in 0 .. %d, the pieces of %s", (int)id, tokenizer->bpe->vocabulary - 1, tokenizer->file);
}

const char *tokenizer_piece(const Tokenizer *tokenizer, int32_t id) {
    if (!tokenizer->bpe) return sentencepiece_piece(tokenizer->pieces, id);
    check_id(tokenizer, id);
    const uint32_t piece = tokenizer->bpe->piece_of[id];
    return piece ? strings_text(&tokenizer->bpe->pieces, piece - 1) : "";
}

void tokenizer_encode(const Tokenizer *tokenizer, const char *text, size_t size, bool specials, TokenIds *ids) {
    if (tokenizer->bpe)
        bpe_encode(tokenizer->bpe, text, size, specials, ids);
    else
        sentencepiece_encode(tokenizer->pieces, text, size, specials, ids);
}

char *tokenizer_decode(const Tokenizer *tokenizer, const int32_t *ids, int64_t n, size_t *size) {
    if (!tokenizer->bpe) return sentencepiece_decode(tokenizer->pieces, ids, n, size);
    for (int64_t i = 0; i < n; i++) check_id(tokenizer, ids[i]);
    return bpe_decode(tokenizer->bpe, ids, n, size);
}

uint64_t tokenizer_hash(const Tokenizer *tokenizer) { return tokenizer->hash; }

const char *tokenizer_file(const Tokenizer *tokenizer) { return tokenizer->file; }
