/* Reads the files into a Bpe: pieces with their ids, and merges of symbols, which are numbered as they come. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "data/text/added_tokens.h"
#include "data/text/bpe_open.h"
#include "data/text/bpe_word.h"
#include "data/text/characters.h"
#include "data/text/fastbpe_open.h"

enum { BEGIN, PAD, END, UNKNOWN, FIRST_PIECE, MASK = FIRST_PIECE, SPECIALS };
enum { MAX_LINES = 1 << 22 };

static const char *const specials[SPECIALS] = {"<s>", "<pad>", "</s>", "<unk>", "<mask>"};

static bool is_special(const char *text, size_t size) {
    for (int i = 0; i < SPECIALS; i++)
        if (strlen(specials[i]) == size && !memcmp(specials[i], text, size)) return true;
    return false;
}

bool fastbpe_ends_word(const char *symbol, size_t size) {
    const size_t end = strlen(FASTBPE_END);
    return size > end && !memcmp(symbol + size - end, FASTBPE_END, end);
}

bool fastbpe_makes_special(const char *symbol, size_t size) {
    return fastbpe_ends_word(symbol, size) && is_special(symbol, size - strlen(FASTBPE_END));
}

/* ---- lines ---- */

typedef struct {
    const char *name, *format; /* of the file, for messages */
    char *bytes;
    const char *at, *end;
    int64_t number; /* of the line that was taken last, from 1 */
    int64_t count;  /* of all lines */
} Lines;

static bool lines_open(Lines *lines, const char *path, Error *error) {
    size_t size;
    if (!read_file(path, &lines->bytes, &size, error)) return error_before(error, "%s: ", lines->name);
    lines->at = lines->bytes;
    lines->end = lines->bytes + size;
    for (size_t i = 0; i < size; i++) lines->count += lines->bytes[i] == '\n';
    if (!size) return error_set(error, "%s is empty", lines->name);
    if (lines->end[-1] != '\n')
        return error_set(error, "%s, line %lld: has no end of line, so the file is cut short", lines->name,
                         (long long)lines->count + 1);
    if (lines->count <= MAX_LINES) return true;
    return error_set(error, "%s has %lld lines, and at most %d are supported", lines->name, (long long)lines->count,
                     MAX_LINES);
}

static bool is_text(const char *line, size_t size) {
    const char *end = line + size;
    uint32_t c = 1;
    for (size_t step; (step = character_at(line, end, &c)); line += step)
        if (!c || c == '\r' || c == CHARACTER_NONE) return false;
    return true;
}

static bool line_error(const Lines *lines, const char *line, size_t size, Error *error) {
    if (!is_text(line, size))
        return error_set(error, "%s, line %lld: holds a zero byte, a carriage return, or a byte that is not UTF-8",
                         lines->name, (long long)lines->number);
    return error_set(error, "%s, line %lld: expected \"%s\", found \"%.*s\"", lines->name, (long long)lines->number,
                     lines->format, size > 100 ? 100 : (int)size, line);
}

/* Takes the next line, of which *size bytes are in front of the count. */
static bool take_line(Lines *lines, const char **line, size_t *size, Error *error) {
    const char *at = *line = lines->at, *stop = memchr(at, '\n', (size_t)(lines->end - at)), *digits;
    lines->at = stop + 1;
    lines->number++;
    stop -= stop > at && stop[-1] == '\r';
    for (digits = stop; digits > at && digits[-1] >= '0' && digits[-1] <= '9';) digits--;
    *size = digits - 1 > at ? (size_t)(digits - 1 - at) : 0;
    if (digits < stop && *size && digits[-1] == ' ' && is_text(at, *size)) return true;
    return line_error(lines, at, (size_t)(stop - at), error);
}

/* ---- vocab.txt ---- */

static void add_special(Bpe *bpe, int special) {
    const char *text = specials[special];
    const uint32_t size = (uint32_t)strlen(text), number = strings_add(&bpe->pieces, text, size);
    bpe->added[bpe->n_added++] = (BpeAdded){.id = (int32_t)number, .size = size, .piece = number, .special = true};
}

static bool take_pieces(Bpe *bpe, Lines *lines, Error *error) {
    const char *line;
    size_t size;
    for (uint32_t number = FIRST_PIECE; lines->at < lines->end; number++) {
        if (!take_line(lines, &line, &size, error)) return false;
        const char *word = line, *end = line + size;
        if (words_next(WORDS_BLANKS, &word, end) != end || word != line) return line_error(lines, line, size, error);
        if (is_special(line, size))
            return error_set(error, "%s, line %lld: %.*s is a special token, which is not in the file", lines->name,
                             (long long)lines->number, (int)size, line);
        if (strings_add(&bpe->pieces, line, size) != number)
            return error_set(error, "%s, line %lld: \"%.*s\" is there twice", lines->name, (long long)lines->number,
                             size > 100 ? 100 : (int)size, line);
    }
    return true;
}

static bool take_vocabulary(Bpe *bpe, Lines *lines, Error *error) {
    static const int by_size[SPECIALS] = {MASK, PAD, UNKNOWN, END, BEGIN};
    bpe->added = xcalloc(SPECIALS, sizeof *bpe->added);
    for (int i = 0; i < FIRST_PIECE; i++) strings_add(&bpe->pieces, specials[i], strlen(specials[i]));
    if (!take_pieces(bpe, lines, error)) return false;
    bpe->n_model = bpe->pieces.n;
    for (int i = 0; i < SPECIALS; i++) add_special(bpe, by_size[i]);
    bpe->starts[0]['<'] = bpe->any[0] = true;
    bpe->vocabulary = (int)bpe->pieces.n;
    bpe->ids = xcalloc(bpe->pieces.n, sizeof *bpe->ids);
    bpe->piece_of = xcalloc(bpe->pieces.n, sizeof *bpe->piece_of);
    for (uint32_t i = 0; i < bpe->pieces.n; i++) {
        bpe->ids[i] = (int32_t)i;
        bpe->piece_of[i] = i + 1;
    }
    return true;
}

/* ---- added_tokens.json ---- */

/* Adds a token. If its text is a piece, its id must be that of the piece; otherwise it is the next one. */
static bool take_added_token(Bpe *bpe, const AddedToken *token, Error *error) {
    const size_t size = strlen(token->text);
    int64_t number = strings_find(&bpe->pieces, token->text, size);
    const int32_t expected = number < 0 ? bpe->vocabulary : bpe->ids[number];
    if (token->id != expected)
        return error_set(error, "added_tokens.json: \"%.100s\" has the id %d, and %s %d: it is of another vocab.txt",
                         token->text, (int)token->id, number < 0 ? "the next one behind the pieces is" : "as a piece",
                         (int)expected);
    if (number < 0) {
        number = strings_add(&bpe->pieces, token->text, size);
        bpe->vocabulary++;
        bpe->ids = xrealloc(bpe->ids, bpe->pieces.n * sizeof *bpe->ids);
        bpe->piece_of = xrealloc(bpe->piece_of, (size_t)bpe->vocabulary * sizeof *bpe->piece_of);
        bpe->ids[number] = token->id;
        bpe->piece_of[token->id] = (uint32_t)number + 1;
    }
    if (is_special(token->text, size)) return true; /* is added already */
    bpe->added[bpe->n_added++] = (BpeAdded){.id = token->id, .size = (uint32_t)size, .piece = (uint32_t)number};
    bpe->starts[0][(unsigned char)*token->text] = true;
    return true;
}

static bool take_added(Bpe *bpe, const char *path, Error *error) {
    OWNED_BY(added_tokens_free) AddedTokens tokens = {0};
    if (!path) return true;
    if (!added_tokens_read(path, &tokens, error)) return false;
    const size_t before = bpe->n_added;
    bpe->added = xrealloc(bpe->added, (before + (size_t)tokens.n) * sizeof *bpe->added);
    for (int i = 0; i < tokens.n; i++)
        if (!take_added_token(bpe, &tokens.items[i], error)) return false;
    if (bpe->n_added > before) bpe_sort_added(bpe); /* otherwise all is as without the file, the hash, too */
    return true;
}

/* ---- bpe.codes ---- */

/* Returns whether the symbol is one character, with or without the mark of the end. */
static bool is_character(const char *symbol, size_t size) {
    uint32_t c;
    if (fastbpe_ends_word(symbol, size)) size -= strlen(FASTBPE_END);
    return character_at(symbol, symbol + size, &c) == size;
}

/* Finds the number of a part of a merge: a character, or what an earlier merge makes. */
static bool take_part(Bpe *bpe, const Lines *lines, const char *part, size_t size, int32_t *symbol, Error *error) {
    int64_t number = strings_find(&bpe->symbols, part, size);
    if (number < 0 && is_character(part, size)) number = strings_add(&bpe->symbols, part, size);
    *symbol = (int32_t)number;
    if (number >= 0) return true;
    return error_set(error, "%s, line %lld: \"%.*s\" is made by no earlier line, so lines are missing or out of order",
                     lines->name, (long long)lines->number, size > 100 ? 100 : (int)size, part);
}

static bool take_merge(Bpe *bpe, const Lines *lines, const char *line, size_t size, Error *error) {
    const char *parts[2], *end = line + size, *at = line, *blank = memchr(line, ' ', size);
    size_t sizes[2];
    int32_t symbols[2];
    int n = 0;
    if (!blank || blank == line || blank + 1 == end || memchr(blank + 1, ' ', (size_t)(end - blank - 1)))
        return line_error(lines, line, size, error);
    for (const char *stop; (stop = words_next(WORDS_BLANKS, &at, end)); at = stop, n++)
        if (n < 2) parts[n] = at, sizes[n] = (size_t)(stop - at);
    if (n != 2) return true;
    for (int i = 0; i < 2; i++)
        if (!take_part(bpe, lines, parts[i], sizes[i], &symbols[i], error)) return false;
    OWNED char *both = xformat("%.*s%.*s", (int)sizes[0], parts[0], (int)sizes[1], parts[1]);
    const uint32_t made = strings_add(&bpe->symbols, both, sizes[0] + sizes[1]);
    bpe_merge_add(bpe, symbols[0], symbols[1], (uint32_t)lines->number - 1, (int32_t)made);
    return true;
}

static bool take_merges(Bpe *bpe, Lines *lines, Error *error) {
    const char *line;
    size_t size;
    bpe_merges_open(bpe, (size_t)lines->count);
    while (lines->at < lines->end)
        if (!take_line(lines, &line, &size, error) || !take_merge(bpe, lines, line, size, error)) return false;
    return true;
}

/* ---- both ---- */

/* Returns the number of the symbol that becomes a piece, inside a word or at its end. If it is a character it may be
 * new. -1: there is none. */
static int64_t symbol_of(Bpe *bpe, uint32_t piece, bool inside) {
    const size_t size = bpe->pieces.entries[piece].size, mark = strlen(FASTBPE_CONTINUES);
    const char *text = strings_text(&bpe->pieces, piece);
    if (inside && (size <= mark || !ends_with(text, FASTBPE_CONTINUES))) return -1;
    OWNED char *symbol = inside ? xformat("%.*s", (int)(size - mark), text) : xformat("%s" FASTBPE_END, text);
    const size_t n = strlen(symbol);
    return is_character(symbol, n) ? strings_add(&bpe->symbols, symbol, n) : strings_find(&bpe->symbols, symbol, n);
}

/* Makes symbols of the characters among the pieces; all other pieces must have one. */
static bool check_pieces(Bpe *bpe, Error *error) {
    for (uint32_t i = FIRST_PIECE; i < bpe->n_model; i++) {
        const bool inside = symbol_of(bpe, i, true) >= 0, last = symbol_of(bpe, i, false) >= 0;
        if (inside || last || !strcmp(strings_text(&bpe->pieces, i), FASTBPE_CONTINUES)) continue;
        return error_set(error,
                         "vocab.txt, line %u: no line of bpe.codes makes \"%.100s\", so the two files do not belong "
                         "together, or bpe.codes is cut short",
                         i - FIRST_PIECE + 1, strings_text(&bpe->pieces, i));
    }
    return true;
}

static int32_t piece_id(const Bpe *bpe, const char *text, size_t size) {
    const int64_t piece = strings_find(&bpe->pieces, text, size);
    return piece < FIRST_PIECE || piece >= bpe->n_model ? UNKNOWN : (int32_t)piece;
}

static void find_ids(Bpe *bpe) {
    bpe->symbol_ids = xcalloc(bpe->symbols.n + (size_t)1, sizeof *bpe->symbol_ids);
    for (uint32_t i = 0; i < bpe->symbols.n; i++) {
        const char *symbol = strings_text(&bpe->symbols, i);
        const size_t size = bpe->symbols.entries[i].size;
        OWNED char *inside = xformat("%s" FASTBPE_CONTINUES, symbol);
        bpe->symbol_ids[i][0] = piece_id(bpe, inside, strlen(inside));
        bpe->symbol_ids[i][1] =
            fastbpe_ends_word(symbol, size) ? piece_id(bpe, symbol, size - strlen(FASTBPE_END)) : UNKNOWN;
    }
}

/* Checks that what a merge makes is a piece, or a part of another merge. A special token that is written out in the
 * texts may have been learned; there is no piece for it. */
static bool check_merges(const Bpe *bpe, Error *error) {
    OWNED bool *used = xcalloc(bpe->symbols.n + (size_t)1, sizeof *used);
    const BpeMerge *first = NULL;
    for (const BpeMerge *merge = bpe->merges; merge < bpe->merges + bpe->n_slots; merge++)
        if (merge->rank) used[merge->pair >> 32] = used[(uint32_t)merge->pair] = true;
    for (const BpeMerge *merge = bpe->merges; merge < bpe->merges + bpe->n_slots; merge++) {
        if (!merge->rank || used[merge->id] || (first && first->rank < merge->rank)) continue;
        const char *made = strings_text(&bpe->symbols, (uint32_t)merge->id);
        const size_t size = bpe->symbols.entries[merge->id].size;
        if (bpe->symbol_ids[merge->id][fastbpe_ends_word(made, size)] == UNKNOWN && !fastbpe_makes_special(made, size))
            first = merge;
    }
    if (!first) return true;
    return error_set(error,
                     "bpe.codes, line %u: makes \"%.100s\", which is no piece of vocab.txt and no part of another "
                     "line, so the two files do not belong together, or vocab.txt is cut short",
                     first->rank, strings_text(&bpe->symbols, (uint32_t)first->id));
}

Bpe *fastbpe_open(const char *vocab_path, const char *codes_path, const char *added_path, Error *error) {
    Lines vocab = {.name = "vocab.txt", .format = "PIECE COUNT"},
          codes = {.name = "bpe.codes", .format = "LEFT RIGHT COUNT"};
    Bpe *bpe = xcalloc(1, sizeof *bpe);
    bpe->settings.split = WORDS_BLANKS;
    bpe->settings.unknown = UNKNOWN;
    bool ok = lines_open(&vocab, vocab_path, error) && lines_open(&codes, codes_path, error) &&
              take_vocabulary(bpe, &vocab, error) && take_added(bpe, added_path, error) &&
              take_merges(bpe, &codes, error) && check_pieces(bpe, error);
    if (ok) find_ids(bpe);
    ok = ok && check_merges(bpe, error);
    FREE(vocab.bytes, codes.bytes);
    if (ok) bpe_make_hash(bpe);
    if (ok) return bpe;
    bpe_close(bpe);
    return NULL;
}
