/* Opens a tokenizer and hands each call on to its kind. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "data/text/added_tokens.h"
#include "data/text/bpe.h"
#include "data/text/bpe_open.h"
#include "data/text/character_table.h"
#include "data/text/fastbpe_open.h"
#include "data/text/sentencepiece.h"
#include "data/text/tokenizer.h"
#include "data/text/tokenizer_kind.h"

static const char CHARACTERS_NAME[] = "meta.pkl";

struct Tokenizer {
    char *file;
    char *codes;      /* bpe.codes, whose vocab.txt is `file`; NULL: another kind */
    char *added;      /* added_tokens.json beside them; NULL: none */
    const char *name; /* that a file of this kind has in a folder; of several, that of vocab.txt */
    uint64_t hash;
    SentencePiece *pieces; /* or */
    Bpe *bpe;
};

char *tokenizer_in(const char *folder) {
    static const char *const names[] = {"bpe.codes", "tokenizer.json", "tokenizer.model"};
    for (int i = 0; i < 3; i++)
        if (path_holds(folder, names[i])) return path_join(folder, names[i]);
    return tokenizer_characters_in(folder);
}

/* Sets the paths of the files that `path` means. */
static bool find_files(Tokenizer *tokenizer, const char *path, Error *error) {
    OWNED char *file = path_is_folder(path) ? tokenizer_in(path) : xstrdup(path);
    if (!file) return error_set(error, "the folder holds none of " TOKENIZER_FILES);
    const char *name = path_name(file);
    OWNED char *folder = path_directory(file);
    bool pair = !strcmp(name, "bpe.codes") || !strcmp(name, "vocab.txt");
    if (path_holds(folder, "added_tokens.json")) tokenizer->added = path_join(folder, "added_tokens.json");
    tokenizer->file = pair ? path_join(folder, "vocab.txt") : xstrdup(file);
    if (pair) tokenizer->codes = path_join(folder, "bpe.codes");
    return true;
}

static bool open_one(Tokenizer *tokenizer, Error *error) {
    OWNED char *bytes = NULL;
    size_t size;
    if (!read_file(tokenizer->file, &bytes, &size, error)) return false;
    if (tokenizer_is_vocab_json(bytes, size)) {
        error_set(error, TOKENIZER_VOCAB_JSON ": give the tokenizer.json of the same model");
    } else if (bytes[0] == '{' || path_ending(tokenizer->file, ".json")) {
        tokenizer->name = "tokenizer.json";
        tokenizer->bpe = bpe_open(bytes, size, error);
    } else if (bytes[0] == '\x80') { /* as pickles begin */
        tokenizer->name = CHARACTERS_NAME;
        tokenizer->bpe = character_table_open(bytes, size, error);
    } else {
        tokenizer->name = "tokenizer.model";
        tokenizer->pieces = sentencepiece_open(tokenizer->file, error);
    }
    tokenizer->hash = checksum(0, bytes, size);
    return tokenizer->bpe || tokenizer->pieces;
}

/* Checks that all tokens of added_tokens.json are in the tokenizer's own file, which is all that is read of this kind.
 */
static bool check_added(const Tokenizer *tokenizer, Error *error) {
    OWNED_BY(added_tokens_free) AddedTokens tokens = {0};
    if (!added_tokens_read(tokenizer->added, &tokens, error)) return false;
    for (int i = 0; i < tokens.n; i++)
        if (tokenizer_id(tokenizer, tokens.items[i].text) != tokens.items[i].id)
            return error_set(
                error,
                "added_tokens.json gives \"%.100s\" the id %d, and the tokenizer does not: save it as "
                "tokenizer.json, which has all its tokens, or remove added_tokens.json if no text has them",
                tokens.items[i].text, (int)tokens.items[i].id);
    return true;
}

static bool open_files(Tokenizer *tokenizer, Error *error) {
    tokenizer->name = "vocab.txt";
    if (tokenizer->codes)
        tokenizer->bpe = fastbpe_open(tokenizer->file, tokenizer->codes, tokenizer->added, error);
    else if (!open_one(tokenizer, error) || (tokenizer->added && !check_added(tokenizer, error)))
        return false;
    if (tokenizer->bpe) tokenizer->hash = tokenizer->bpe->hash;
    return tokenizer->bpe || tokenizer->pieces;
}

Tokenizer *tokenizer_open(const char *path, Error *error) {
    Tokenizer *tokenizer = xcalloc(1, sizeof *tokenizer);
    if (find_files(tokenizer, path, error) && open_files(tokenizer, error)) return tokenizer;
    tokenizer_close(tokenizer);
    return NULL;
}

char *tokenizer_characters_in(const char *folder) {
    OWNED char *file = path_join(folder, CHARACTERS_NAME);
    Error error;
    Tokenizer *tokenizer = access(file, F_OK) ? NULL : tokenizer_open(file, &error);
    bool there = tokenizer && tokenizer->name == CHARACTERS_NAME;
    tokenizer_close(tokenizer);
    return there ? xstrdup(file) : NULL;
}

void tokenizer_close(Tokenizer *tokenizer) {
    if (!tokenizer) return;
    sentencepiece_close(tokenizer->pieces);
    bpe_close(tokenizer->bpe);
    FREE(tokenizer->file, tokenizer->codes, tokenizer->added, tokenizer);
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
    for (int i = tokenizer->codes ? 2 : 0; i < 3 && id < 0; i++) id = tokenizer_id(tokenizer, names[i]);
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

void tokenizer_encode_plain(const void *tokenizer, const char *text, size_t size, TokenIds *ids) {
    tokenizer_encode(tokenizer, text, size, false, ids);
}

bool tokenizer_continues(const Tokenizer *tokenizer, int32_t id) {
    if (!tokenizer->bpe) return false;
    check_id(tokenizer, id);
    return bpe_continues(tokenizer->bpe, id);
}

char *tokenizer_decode(const Tokenizer *tokenizer, const int32_t *ids, int64_t n, size_t *size) {
    if (!tokenizer->bpe) return sentencepiece_decode(tokenizer->pieces, ids, n, size);
    for (int64_t i = 0; i < n; i++) check_id(tokenizer, ids[i]);
    return bpe_decode(tokenizer->bpe, ids, n, size);
}

uint64_t tokenizer_hash(const Tokenizer *tokenizer) { return tokenizer->hash; }

const char *tokenizer_file(const Tokenizer *tokenizer) { return tokenizer->file; }

const char *tokenizer_name(const Tokenizer *tokenizer) { return tokenizer->name; }

bool tokenizer_is_of_characters(const Tokenizer *tokenizer) { return tokenizer->name == CHARACTERS_NAME; }

int tokenizer_files(const Tokenizer *tokenizer, const char *paths[3]) {
    paths[0] = tokenizer->file;
    paths[1] = tokenizer->codes;
    paths[2] = tokenizer->added;
    return !tokenizer->codes ? 1 : tokenizer->added ? 3 : 2;
}
