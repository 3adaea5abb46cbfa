/* Counts words with a table for each thread and merges pairs, both as bpe_train.c. Then the words are encoded as any
 * text would be, which can differ from what the merging left: a pair that comes back is merged at once. */
#include <stdlib.h>
#include <string.h>
#include <unistr.h>

#include "base/file.h"
#include "data/text/bpe_open.h"
#include "data/text/bpe_word.h"
#include "data/text/fastbpe_open.h"
#include "data/text/fastbpe_train.h"
#include "data/text/pairs.h"

struct FastBpeTrainer {
    FastBpeTraining options;
    WordCounts *counts;    /* [n_threads] */
    Bpe *bpe;              /* the symbols and merges */
    uint32_t n_characters; /* of the symbols */
    Strings codes;         /* lines of bpe.codes */
    WordCounts pieces;
};

FastBpeTrainer *fastbpe_trainer_open(const FastBpeTraining *options) {
    FastBpeTrainer *trainer = xcalloc(1, sizeof *trainer);
    trainer->options = *options;
    trainer->counts = xcalloc((size_t)options->n_threads, sizeof *trainer->counts);
    trainer->bpe = xcalloc(1, sizeof *trainer->bpe);
    bpe_merges_open(trainer->bpe, (size_t)options->merges);
    return trainer;
}

void fastbpe_trainer_add(FastBpeTrainer *trainer, int thread, const char *text, size_t size) {
    const char *end = text + size;
    for (const char *stop; (stop = words_next(WORDS_BLANKS, &text, end)); text = stop)
        word_counts_add(&trainer->counts[thread], text, (size_t)(stop - text) - (stop[-1] == '\n'), 1);
}

/* ---- merges ---- */

/* Makes symbols of the characters of all words, in order. */
static bool take_characters(FastBpeTrainer *trainer, Error *error) {
    const Strings *words = &trainer->counts[0].words;
    OWNED_BY(strings_free) Strings characters = {0};
    char symbol[FASTBPE_CHARACTER];
    for (uint32_t w = 0; w < words->n; w++) {
        size_t size = words->entries[w].size;
        const char *at = strings_text(words, w), *end = at + size;
        if (u8_check((const uint8_t *)at, size) || memchr(at, 0, size))
            return error_set(error, "a word holds a zero byte or is not UTF-8: \"%.100s\"", at);
        while (at < end) {
            at += fastbpe_symbol_at(at, end, symbol, &size);
            strings_add(&characters, symbol, size);
        }
    }
    OWNED const char **texts = xmalloc((characters.n + (size_t)1) * sizeof *texts);
    for (uint32_t i = 0; i < characters.n; i++) texts[i] = strings_text(&characters, i);
    qsort(texts, characters.n, sizeof *texts, compare_texts);
    for (uint32_t i = 0; i < characters.n; i++) strings_add(&trainer->bpe->symbols, texts[i], strlen(texts[i]));
    trainer->n_characters = characters.n;
    return true;
}

/* FirstPieces: the characters. */
static uint32_t symbols_of_word(const void *context, const char *word, size_t size, int32_t *ids) {
    const Bpe *bpe = context;
    char symbol[FASTBPE_CHARACTER];
    uint32_t n = 0;
    for (const char *const end = word + size; word < end; n++) {
        word += fastbpe_symbol_at(word, end, symbol, &size);
        ids[n] = (int32_t)strings_find(&bpe->symbols, symbol, size);
    }
    return n;
}

/* Merges a pair, unless it would make a special token. As with bytes, a symbol may come from two pairs, and a pair that
 * comes back has its line already. */
static void merge(FastBpeTrainer *trainer, Pairs *pairs, const Pair *pair) {
    Bpe *bpe = trainer->bpe;
    const char *left = strings_text(&bpe->symbols, (uint32_t)pair->left);
    const char *right = strings_text(&bpe->symbols, (uint32_t)pair->right);
    OWNED char *line = xformat("%s %s %lld\n", left, right, (long long)pair->count);
    OWNED char *made = xformat("%s%s", left, right);
    if (!fastbpe_makes_special(made, strlen(made))) {
        const int32_t id = (int32_t)strings_add(&bpe->symbols, made, strlen(made));
        if (!pair->merged)
            bpe_merge_add(bpe, pair->left, pair->right, strings_add(&trainer->codes, line, strlen(line)), id);
        pairs_merge(pairs, id);
    }
}

/* Merges as often as asked for, or until no pair is frequent enough. */
static bool merge_pairs(FastBpeTrainer *trainer, Error *error) {
    const FastBpeTraining *options = &trainer->options;
    const int64_t least = options->min_frequency > 1 ? options->min_frequency : 1;
    Pairs *pairs = pairs_open(&trainer->counts[0], symbols_of_word, trainer->bpe);
    Pair pair;
    while (trainer->codes.n < (uint32_t)options->merges && pairs_next(pairs, &pair) && pair.count >= least)
        merge(trainer, pairs, &pair);
    pairs_close(pairs);
    return trainer->codes.n ||
           error_set(error, "no pair of symbols occurs %lld times in the texts: give more text", (long long)least);
}

/* ---- pieces ---- */

static void count_piece(FastBpeTrainer *trainer, uint32_t symbol, bool marked, bool last, int64_t times) {
    const Strings *symbols = &trainer->bpe->symbols;
    const size_t size = symbols->entries[symbol].size - (marked ? strlen(FASTBPE_END) : 0);
    OWNED char *piece = xformat("%.*s%s", (int)size, strings_text(symbols, symbol), last ? "" : FASTBPE_CONTINUES);
    word_counts_add(&trainer->pieces, piece, strlen(piece), times);
}

/* Counts the pieces of the words. The ids of the symbols are chosen so that they say which one it is, and where. */
static void count_words(FastBpeTrainer *trainer, FastBpeLearned *learned) {
    Bpe *bpe = trainer->bpe;
    const WordCounts *words = &trainer->counts[0];
    OWNED_BY(token_ids_free) TokenIds ids = {0};
    bpe->symbol_ids = xcalloc(bpe->symbols.n + (size_t)1, sizeof *bpe->symbol_ids);
    bpe->settings.unknown = -1;
    for (uint32_t i = 0; i < bpe->symbols.n; i++)
        for (int last = 0; last < 2; last++) bpe->symbol_ids[i][last] = 2 * (int32_t)i + last;
    for (uint32_t w = 0; w < words->words.n; w++) {
        ids.n = 0;
        bpe_encode_word(bpe, strings_text(&words->words, w), words->words.entries[w].size, &ids);
        for (int64_t i = 0; i < ids.n; i++) {
            const bool last = ids.ids[i] % 2;
            count_piece(trainer, (uint32_t)ids.ids[i] / 2, last, last, words->counts[w]);
        }
        learned->words += words->counts[w];
        learned->tokens += ids.n * words->counts[w];
    }
}

/* Adds the pieces that other texts may need: characters inside a word and at its end, and what merges make. */
static void add_unseen(FastBpeTrainer *trainer) {
    const Strings *symbols = &trainer->bpe->symbols;
    for (uint32_t i = 0; i < symbols->n; i++) {
        const bool marked = fastbpe_ends_word(strings_text(symbols, i), symbols->entries[i].size);
        for (int last = 0; last < 2; last++)
            if (i < trainer->n_characters || last == marked) count_piece(trainer, i, marked, last, 0);
    }
}

typedef struct {
    const char *piece;
    int64_t count;
} CountedPiece;

static int by_count(const void *a, const void *b) {
    const CountedPiece *x = a, *y = b;
    return x->count != y->count ? (x->count < y->count) - (x->count > y->count) : strcmp(x->piece, y->piece);
}

/* ---- files ---- */

static bool write_codes(const FastBpeTrainer *trainer, const char *path, Error *error) {
    FileWriter writer;
    if (!file_begin(&writer, path, 0, error)) return false;
    for (uint32_t i = 0; i < trainer->codes.n; i++)
        file_put(&writer, strings_text(&trainer->codes, i), trainer->codes.entries[i].size);
    return file_end(&writer, error);
}

static bool write_pieces(const FastBpeTrainer *trainer, const char *path, Error *error) {
    const Strings *pieces = &trainer->pieces.words;
    FileWriter writer;
    if (!file_begin(&writer, path, 0, error)) return false;
    OWNED CountedPiece *sorted = xmalloc((pieces->n + (size_t)1) * sizeof *sorted);
    for (uint32_t i = 0; i < pieces->n; i++)
        sorted[i] = (CountedPiece){strings_text(pieces, i), trainer->pieces.counts[i]};
    qsort(sorted, pieces->n, sizeof *sorted, by_count);
    for (uint32_t i = 0; i < pieces->n; i++) {
        OWNED char *line = xformat("%s %lld\n", sorted[i].piece, (long long)sorted[i].count);
        file_put(&writer, line, strlen(line));
    }
    return file_end(&writer, error);
}

bool fastbpe_trainer_learn(FastBpeTrainer *trainer, FastBpeLearned *learned, Error *error) {
    for (int i = 1; i < trainer->options.n_threads; i++) word_counts_move(&trainer->counts[0], &trainer->counts[i]);
    if (!take_characters(trainer, error) || !merge_pairs(trainer, error)) return false;
    *learned = (FastBpeLearned){.merges = (int)trainer->codes.n, .distinct = trainer->counts[0].words.n};
    count_words(trainer, learned);
    add_unseen(trainer);
    learned->pieces = (int)trainer->pieces.words.n;
    for (uint32_t i = 0; i < trainer->pieces.words.n; i++) learned->unseen += !trainer->pieces.counts[i];
    return true;
}

bool fastbpe_trainer_write(const FastBpeTrainer *trainer, const char *directory, Error *error) {
    OWNED char *vocab = path_join(directory, "vocab.txt");
    OWNED char *codes = path_join(directory, "bpe.codes");
    return write_codes(trainer, codes, error) && write_pieces(trainer, vocab, error);
}

void fastbpe_trainer_close(FastBpeTrainer *trainer) {
    if (!trainer) return;
    for (int i = 0; i < trainer->options.n_threads; i++) word_counts_free(&trainer->counts[i]);
    free(trainer->counts);
    bpe_close(trainer->bpe);
    strings_free(&trainer->codes);
    word_counts_free(&trainer->pieces);
    free(trainer);
}
