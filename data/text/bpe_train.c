/* Training of byte-level BPE: counts words with a table for each thread, merges pairs, writes the file. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "data/text/bpe_train.h"
#include "data/text/byte_alphabet.h"
#include "data/text/pairs.h"
#include "data/text/words.h"

struct BpeTrainer {
    BpeTraining options;
    WordCounts *counts; /* [n_threads] */
    Strings pieces;     /* as they are written; id = number */
    int32_t byte_ids[256];
    json_t *merges;
};

BpeTrainer *bpe_trainer_open(const BpeTraining *options) {
    BpeTrainer *trainer = xcalloc(1, sizeof *trainer);
    trainer->options = *options;
    trainer->counts = xcalloc((size_t)options->n_threads, sizeof *trainer->counts);
    trainer->merges = json_array();
    return trainer;
}

void bpe_trainer_add(BpeTrainer *trainer, int thread, const char *text, size_t size) {
    const char *end = text + size;
    for (const char *stop; (stop = words_next(WORDS_GPT2, &text, end)); text = stop)
        word_counts_add(&trainer->counts[thread], text, (size_t)(stop - text), 1);
}

static int by_character(const void *a, const void *b) {
    return strcmp(byte_alphabet(*(const unsigned char *)a), byte_alphabet(*(const unsigned char *)b));
}

/* Begins the vocabulary: special tokens, then the bytes by the characters that are written for them. */
static bool first_pieces(BpeTrainer *trainer, Error *error) {
    const BpeTraining *options = &trainer->options;
    unsigned char bytes[256];
    for (int i = 0; i < options->n_specials; i++) {
        const char *special = options->specials[i];
        json_auto_t *text = json_string(special);
        if (!text || !*special) return error_set(error, "special token %d is empty or not UTF-8", i + 1);
        if (strings_add(&trainer->pieces, special, strlen(special)) != (uint32_t)i)
            return error_set(error, "the special token %s is there twice", special);
    }
    for (int i = 0; i < 256; i++) bytes[i] = (unsigned char)i;
    qsort(bytes, 256, 1, by_character);
    for (int i = 0; i < 256; i++) {
        const char *character = byte_alphabet(bytes[i]);
        const int id = options->n_specials + i;
        if (strings_add(&trainer->pieces, character, strlen(character)) != (uint32_t)id)
            return error_set(error, "the special token %s is what is written for the byte 0x%02x", character, bytes[i]);
        trainer->byte_ids[bytes[i]] = id;
    }
    if (options->vocabulary >= (int)trainer->pieces.n) return true;
    return error_set(error, "a vocabulary of %d is too small: 256 bytes and %d special tokens need %u",
                     options->vocabulary, options->n_specials, trainer->pieces.n);
}

/* Makes a piece of a pair. A piece may come from two pairs ("ab" + "c", "a" + "bc"); that is one piece with two merges.
 * A pair that comes back, made of such pieces, has its merge already. */
static void merge(BpeTrainer *trainer, Pairs *pairs, const Pair *pair) {
    const char *left = strings_text(&trainer->pieces, (uint32_t)pair->left);
    const char *right = strings_text(&trainer->pieces, (uint32_t)pair->right);
    OWNED char *text = xformat("%s%s", left, right);
    json_auto_t *line = json_sprintf("%s %s", left, right);
    const uint32_t id = strings_add(&trainer->pieces, text, strlen(text));
    if (id >= (uint32_t)trainer->options.n_specials) { /* special tokens are never made of pieces */
        if (!pair->merged) json_array_append(trainer->merges, line);
        pairs_merge(pairs, (int32_t)id);
    }
}

/* FirstPieces: the bytes. */
static uint32_t ids_of_bytes(const void *context, const char *word, size_t size, int32_t *ids) {
    const BpeTrainer *trainer = context;
    for (size_t i = 0; i < size; i++) ids[i] = trainer->byte_ids[(unsigned char)word[i]];
    return (uint32_t)size;
}

/* Merges until the vocabulary is full, or no pair is frequent enough. */
static void merge_pairs(BpeTrainer *trainer) {
    const BpeTraining *options = &trainer->options;
    const int64_t least = options->min_frequency > 1 ? options->min_frequency : 1;
    for (int i = 1; i < options->n_threads; i++) word_counts_move(&trainer->counts[0], &trainer->counts[i]);
    Pairs *pairs = pairs_open(&trainer->counts[0], ids_of_bytes, trainer);
    Pair pair;
    while (trainer->pieces.n < (uint32_t)options->vocabulary && pairs_next(pairs, &pair) && pair.count >= least)
        merge(trainer, pairs, &pair);
    pairs_close(pairs);
}

static json_t *describe(const BpeTrainer *trainer) {
    json_t *vocab = json_object(), *added = json_array();
    for (uint32_t id = 0; id < trainer->pieces.n; id++)
        json_object_set_new(vocab, strings_text(&trainer->pieces, id), json_integer(id));
    for (int i = 0; i < trainer->options.n_specials; i++)
        json_array_append_new(added, json_build("a special token", "{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", i,
                                                "content", trainer->options.specials[i], "single_word", 0, "lstrip", 0,
                                                "rstrip", 0, "normalized", 0, "special", 1));
    json_t *model = json_build("the pieces", "{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b, s:o, s:O}", "type", "BPE",
                               "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", 0,
                               "byte_fallback", 0, "ignore_merges", 0, "vocab", vocab, "merges", trainer->merges);
    json_t *bytes = json_build("a component", "{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0,
                               "trim_offsets", 1, "use_regex", 1);
    return json_build("a tokenizer", "{s:s, s:n, s:n, s:o, s:n, s:O, s:n, s:o, s:o}", "version", "1.0", "truncation",
                      "padding", "added_tokens", added, "normalizer", "pre_tokenizer", bytes, "post_processor",
                      "decoder", bytes, "model", model);
}

bool bpe_trainer_write(BpeTrainer *trainer, const char *path, int *vocabulary, Error *error) {
    if (!first_pieces(trainer, error)) return false;
    merge_pairs(trainer);
    json_auto_t *root = describe(trainer);
    const bool ok = json_write_file(path, root, JSON_INDENT(1), error);
    *vocabulary = (int)trainer->pieces.n;
    return ok;
}

void bpe_trainer_close(BpeTrainer *trainer) {
    for (int i = 0; i < trainer->options.n_threads; i++) word_counts_free(&trainer->counts[i]);
    free(trainer->counts);
    strings_free(&trainer->pieces);
    json_decref(trainer->merges);
    free(trainer);
}
