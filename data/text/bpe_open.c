/* Refuses every part of a tokenizer.json that is not supported: wrong ids would be worse than an error. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "data/text/added_tokens.h"
#include "data/text/bpe_open.h"
#include "data/text/bpe_word.h"
#include "data/text/byte_alphabet.h"

static const char *type_of(const json_t *component) {
    const char *type = json_string_value(json_object_get(component, "type"));
    return type ? type : json_is_null(component) || !component ? "null" : "a component without a type";
}

static bool is_type(const json_t *component, const char *type) { return !strcmp(type_of(component), type); }

/* Returns the number of components: those of a Sequence, one, or none; more than two count as three. */
static int components(const json_t *component, const char *list, const json_t *found[2]) {
    const json_t *many = json_object_get(component, list);
    if (!component || json_is_null(component)) return 0;
    if (!is_type(component, "Sequence")) return found[0] = component, 1;
    const size_t n = json_array_size(many);
    for (size_t i = 0; i < n && i < 2; i++) found[i] = json_array_get(many, i);
    return n < 3 ? (int)n : 3;
}

/* ---- how texts are split ---- */

static bool take_normalizer(BpeSettings *settings, const json_t *normalizer, Error *error) {
    const json_t *steps[2];
    const int n = components(normalizer, "normalizers", steps);
    bool known = n < 3;
    for (int i = 0; i < n && known; i++) {
        const bool nfc = is_type(steps[i], "NFC"), nfd = is_type(steps[i], "NFD");
        known = (i == 0 && (nfc || nfd)) || (is_type(steps[i], "StripAccents") && !settings->strip_marks);
        if (nfc || nfd)
            settings->form = nfc ? NORMAL_NFC : NORMAL_NFD;
        else
            settings->strip_marks = 1;
        if (!known)
            return error_set(error, "normalizer: %s is not supported here, only NFC, NFD and StripAccents",
                             type_of(steps[i]));
    }
    return known || error_set(error, "normalizer: a Sequence of more than two is not supported");
}

/* A flag that must be there. */
static bool take_flag(const json_t *component, const char *name, int32_t *flag, Error *error) {
    const json_t *value = json_object_get(component, name);
    if (!json_is_boolean(value)) return error_set(error, "%s: %s is not true or false", type_of(component), name);
    *flag = json_is_true(value);
    return true;
}

static bool take_byte_level(BpeSettings *settings, const json_t *component, Error *error) {
    const json_t *regex = json_object_get(component, "use_regex"); /* older files have none and mean true */
    settings->byte_level = 1;
    settings->split = json_is_false(regex) ? WORDS_WHOLE : WORDS_GPT2;
    return take_flag(component, "add_prefix_space", &settings->prefix_space, error);
}

/* The expressions cover every character, so that "removed" of what does not match is the same as "isolated". */
static bool take_pattern(BpeSettings *settings, const json_t *split, Error *error) {
    const char *pattern = json_string_value(json_object_get(json_object_get(split, "pattern"), "Regex"));
    const char *behavior = json_string_value(json_object_get(split, "behavior"));
    const bool invert = json_is_true(json_object_get(split, "invert"));
    if (!pattern || !behavior || strcmp(behavior, invert ? "Removed" : "Isolated") != 0)
        return error_set(error, "pre_tokenizer: Split is only supported with a Regex whose matches are Isolated");
    for (int i = WORDS_GPT2; i <= WORDS_CL100K_DIGITS; i++) {
        settings->split = i;
        if (!strcmp(pattern, words_pattern((WordSplit)i))) return true;
    }
    return error_set(error, "pre_tokenizer: the Split by \"%.200s\" is not supported, only GPT-2's and cl100k_base's",
                     pattern);
}

static bool is_isolating(const json_t *component) {
    const char *behavior = json_string_value(json_object_get(component, "behavior"));
    return is_type(component, "Punctuation") && behavior && !strcmp(behavior, "Isolated");
}

static bool take_split(BpeSettings *settings, const json_t *pre_tokenizer, Error *error) {
    const json_t *steps[2] = {NULL, NULL};
    const int n = components(pre_tokenizer, "pretokenizers", steps);
    const char *second = n > 1 ? type_of(steps[1]) : "nothing";
    if (n == 1 && is_type(steps[0], "ByteLevel")) return take_byte_level(settings, steps[0], error);
    if (n == 2 && is_type(steps[0], "Split") && is_type(steps[1], "ByteLevel")) {
        if (!take_byte_level(settings, steps[1], error)) return false;
        if (settings->split == WORDS_WHOLE && !settings->prefix_space) return take_pattern(settings, steps[0], error);
        return error_set(error, "pre_tokenizer: ByteLevel behind Split is only supported without use_regex and "
                                "add_prefix_space");
    }
    settings->split = n == 1 && is_type(steps[0], "WhitespaceSplit") ? WORDS_SPACES : WORDS_PUNCTUATION;
    if (n == 1 && (settings->split == WORDS_SPACES || is_type(steps[0], "BertPreTokenizer"))) return true;
    if (n == 2 && is_type(steps[0], "WhitespaceSplit") && is_isolating(steps[1])) return true;
    return error_set(error,
                     "pre_tokenizer: %s followed by %s%s is not supported, only ByteLevel, Split and ByteLevel, "
                     "BertPreTokenizer, WhitespaceSplit, WhitespaceSplit and Punctuation (Isolated)",
                     n ? type_of(steps[0]) : "nothing", second, n > 2 ? " and more" : "");
}

static bool check_decoder(const BpeSettings *settings, const json_t *decoder, Error *error) {
    const char *fitting = settings->byte_level ? "ByteLevel" : "WordPiece";
    if (is_type(decoder, "null") || is_type(decoder, fitting)) return true;
    return error_set(error, "decoder: %s is not supported here, only %s or null", type_of(decoder), fitting);
}

/* ---- the model ---- */

/* Adds a piece that has an id of its own. */
static bool add_piece(Bpe *bpe, const char *text, json_int_t id, Error *error) {
    const uint32_t number = bpe->pieces.n;
    if (strings_add(&bpe->pieces, text, strlen(text)) != number)
        return error_set(error, "the piece \"%.100s\" is there twice", text);
    bpe->piece_of[id] = number + 1;
    bpe->ids[number] = (int32_t)id;
    return true;
}

static bool check_id(const json_t *id, const char *text, Error *error) {
    if (json_is_integer(id) && json_integer_value(id) >= 0 && json_integer_value(id) < VOCABULARY_MAX) return true;
    return error_set(error, "the id of \"%.100s\" is not in 0 .. %d", text, VOCABULARY_MAX - 1);
}

/* Finds the size of the vocabulary, of the model and the added tokens. */
static bool take_size(Bpe *bpe, json_t *vocab, const json_t *added, Error *error) {
    const char *text;
    json_t *value;
    size_t i;
    json_int_t largest = -1;
    json_object_foreach(vocab, text, value) {
        if (!check_id(value, text, error)) return false;
        if (json_integer_value(value) > largest) largest = json_integer_value(value);
    }
    json_array_foreach(added, i, value) {
        const json_t *id = json_object_get(value, "id");
        text = json_string_value(json_object_get(value, "content"));
        if (!text || !*text) return error_set(error, "added_tokens: entry %zu has no content", i + 1);
        if (!check_id(id, text, error)) return false;
        if (json_integer_value(id) > largest) largest = json_integer_value(id);
    }
    if (!json_object_size(vocab)) return error_set(error, "model: the vocab is empty");
    bpe->vocabulary = (int)largest + 1;
    bpe->piece_of = xcalloc((size_t)bpe->vocabulary, sizeof *bpe->piece_of);
    bpe->ids = xcalloc(json_object_size(vocab) + json_array_size(added), sizeof *bpe->ids);
    return true;
}

/* Takes the pieces by id, so that their order in the file does not count. */
static bool take_vocab(Bpe *bpe, json_t *vocab, Error *error) {
    OWNED const char **texts = xcalloc((size_t)bpe->vocabulary, sizeof *texts);
    const char *text;
    json_t *value;
    bool ok = true;
    json_object_foreach(vocab, text, value) {
        const char **place = &texts[json_integer_value(value)];
        if (*place) ok = error_set(error, "\"%.100s\" and \"%.100s\" have the same id", *place, text);
        *place = text;
    }
    for (int id = 0; id < bpe->vocabulary && ok; id++)
        if (texts[id]) ok = add_piece(bpe, texts[id], id, error);
    bpe->n_model = bpe->pieces.n;
    return ok;
}

static int32_t model_id(const Bpe *bpe, const char *text, size_t size) {
    const int64_t piece = strings_find(&bpe->pieces, text, size);
    return piece < 0 || piece >= bpe->n_model ? -1 : bpe->ids[piece];
}

/* Finds the two pieces of a merge: "a b", or ["a", "b"]. */
static bool merge_parts(const json_t *merge, const char *parts[2], size_t sizes[2]) {
    const char *text = json_string_value(merge), *space = text ? strchr(text, ' ') : NULL;
    if (space) {
        parts[0] = text, sizes[0] = (size_t)(space - text);
        parts[1] = space + 1, sizes[1] = strlen(space + 1);
        return !strchr(space + 1, ' ');
    }
    for (size_t i = 0; i < 2; i++) {
        parts[i] = json_string_value(json_array_get(merge, i));
        if (!parts[i]) return false;
        sizes[i] = strlen(parts[i]);
    }
    return json_array_size(merge) == 2;
}

/* Adds merge number `rank`: left + right without its prefix must be a piece. */
static bool take_merge(Bpe *bpe, const json_t *merge, size_t rank, Error *error) {
    const char *parts[2];
    size_t sizes[2], prefix = strlen(bpe->settings.prefix);
    if (!merge_parts(merge, parts, sizes)) return error_set(error, "model: merge %zu is not two pieces", rank + 1);
    const int32_t left = model_id(bpe, parts[0], sizes[0]), right = model_id(bpe, parts[1], sizes[1]);
    if (left < 0 || right < 0 || sizes[1] < prefix)
        return error_set(error, "model: merge %zu: \"%.*s\" is not a piece that can be merged", rank + 1,
                         (int)sizes[left >= 0], parts[left >= 0]);
    OWNED char *both = xformat("%.*s%.*s", (int)sizes[0], parts[0], (int)(sizes[1] - prefix), parts[1] + prefix);
    const int32_t id = model_id(bpe, both, strlen(both));
    if (id >= 0)
        bpe_merge_add(bpe, left, right, (uint32_t)rank, id);
    else
        error_set(error, "model: merge %zu makes \"%.100s\", which is not a piece", rank + 1, both);
    return id >= 0;
}

static bool take_merges(Bpe *bpe, const json_t *merges, Error *error) {
    json_t *merge;
    size_t i;
    if (!json_is_array(merges)) return error_set(error, "model: there are no merges");
    bpe_merges_open(bpe, json_array_size(merges));
    json_array_foreach(merges, i, merge) if (!take_merge(bpe, merge, i, error)) return false;
    return true;
}

/* Checks the settings of the model that are not supported, and refuses those that are not known. */
static bool check_model(const json_t *model, Error *error) {
    static const char *const known[] = {"type",
                                        "vocab",
                                        "merges",
                                        "unk_token",
                                        "ignore_merges",
                                        "fuse_unk",
                                        "continuing_subword_prefix",
                                        "dropout",
                                        "byte_fallback",
                                        "end_of_word_suffix"};
    const char *name;
    json_t *value;
    const json_t *type = json_object_get(model, "type");
    if (!json_is_object(model) || (type && !is_type(model, "BPE")))
        return error_set(error, "model: its type is not BPE but %s", type_of(model));
    json_object_foreach((json_t *)(uintptr_t)model, name, value) {
        size_t i = 0;
        while (i < sizeof known / sizeof *known && strcmp(name, known[i]) != 0) i++;
        if (i == sizeof known / sizeof *known) return error_set(error, "model: the setting %.100s is not known", name);
        const bool off = json_is_null(value) || json_is_false(value) ||
                         (json_is_string(value) && !json_string_length(value)) ||
                         (json_is_number(value) && json_number_value(value) == 0);
        if (i >= 7 && !off) return error_set(error, "model: %s is not supported", name);
    }
    return true;
}

static bool take_model_settings(Bpe *bpe, const json_t *model, Error *error) {
    BpeSettings *settings = &bpe->settings;
    const char *prefix = json_string_value(json_object_get(model, "continuing_subword_prefix"));
    const char *unknown = json_string_value(json_object_get(model, "unk_token"));
    settings->ignore_merges = json_is_true(json_object_get(model, "ignore_merges"));
    settings->fuse_unknown = json_is_true(json_object_get(model, "fuse_unk"));
    settings->unknown = unknown ? model_id(bpe, unknown, strlen(unknown)) : -1;
    if (unknown && settings->unknown < 0)
        return error_set(error, "model: the unk_token \"%.100s\" is not in the vocab", unknown);
    if (!prefix || !*prefix) return true;
    if (settings->byte_level || strlen(prefix) >= sizeof settings->prefix)
        return error_set(error, "model: continuing_subword_prefix \"%.100s\" is not supported%s", prefix,
                         settings->byte_level ? " together with ByteLevel" : ", it is too long");
    memcpy(settings->prefix, prefix, strlen(prefix));
    return true;
}

/* ---- added tokens ---- */

/* Returns whether a piece of a byte-level vocabulary is written as the bytes that it stands for. */
static bool means_itself(const char *text) {
    const size_t size = strlen(text);
    OWNED char *bytes = xmalloc(size + 1);
    const int64_t n = byte_alphabet_decode(text, size, bytes);
    return n < 0 || ((size_t)n == size && !memcmp(bytes, text, size));
}

static bool take_added_token(Bpe *bpe, const json_t *token, Error *error) {
    const char *text = json_string_value(json_object_get(token, "content"));
    const json_int_t id = json_integer_value(json_object_get(token, "id"));
    const bool late = json_is_true(json_object_get(token, "normalized"));
    if (late && (bpe->settings.form != NORMAL_NONE || bpe->settings.strip_marks))
        return error_set(error, "added_tokens: normalized of \"%.100s\" is not supported together with a normalizer",
                         text);
    const int64_t piece = strings_find(&bpe->pieces, text, strlen(text));
    if (piece >= 0 ? bpe->ids[piece] != id : bpe->piece_of[id] != 0)
        return error_set(error, "added_tokens: the id %lld of \"%.100s\" is that of another piece, or it has two",
                         (long long)id, text);
    if (piece < 0 && !add_piece(bpe, text, id, error)) return false;
    if (bpe->settings.byte_level && piece >= 0 && !means_itself(text))
        return error_set(
            error, "added_tokens: \"%.100s\" is also the piece of other bytes, so that its id is two texts", text);
    bpe->added[bpe->n_added++] = (BpeAdded){.id = (int32_t)id,
                                            .size = (uint32_t)strlen(text),
                                            .piece = bpe->piece_of[id] - 1,
                                            .special = json_is_true(json_object_get(token, "special")),
                                            .late = late,
                                            .single_word = json_is_true(json_object_get(token, "single_word")),
                                            .lstrip = json_is_true(json_object_get(token, "lstrip")),
                                            .rstrip = json_is_true(json_object_get(token, "rstrip"))};
    bpe->starts[late][(unsigned char)*text] = bpe->any[late] = true;
    return true;
}

static int by_size(const void *a, const void *b) {
    const BpeAdded *x = a, *y = b;
    return x->size != y->size ? (x->size < y->size) - (x->size > y->size) : (x->id > y->id) - (x->id < y->id);
}

void bpe_sort_added(Bpe *bpe) { qsort(bpe->added, bpe->n_added, sizeof *bpe->added, by_size); }

static bool take_added(Bpe *bpe, const json_t *tokens, Error *error) {
    const json_t *token;
    size_t i;
    bpe->added = xcalloc(json_array_size(tokens) + 1, sizeof *bpe->added);
    json_array_foreach(tokens, i, token) if (!take_added_token(bpe, token, error)) return false;
    bpe_sort_added(bpe);
    return true;
}

/* ---- the whole ---- */

/* Makes the bytes of all ids. Added tokens, and pieces with other characters than those of bytes, are their text. */
static void make_bytes(Bpe *bpe) {
    OWNED bool *added = xcalloc((size_t)bpe->vocabulary, sizeof *added);
    size_t n = 0;
    for (size_t i = 0; i < bpe->n_added; i++) added[bpe->added[i].id] = true;
    bpe->bytes = xmalloc(bpe->pieces.n_bytes);
    bpe->bytes_at = xcalloc((size_t)bpe->vocabulary + 1, sizeof *bpe->bytes_at);
    for (int id = 0; id < bpe->vocabulary; bpe->bytes_at[++id] = n) {
        if (!bpe->piece_of[id]) continue;
        const uint32_t number = bpe->piece_of[id] - 1;
        const char *text = strings_text(&bpe->pieces, number);
        const size_t size = bpe->pieces.entries[number].size;
        const int64_t decoded = added[id] ? -1 : byte_alphabet_decode(text, size, bpe->bytes + n);
        if (decoded < 0) memcpy(bpe->bytes + n, text, size);
        n += decoded < 0 ? size : (size_t)decoded;
    }
    for (int byte = 0; byte < 256; byte++) {
        const char *text = byte_alphabet((unsigned char)byte);
        bpe->byte_ids[byte] = model_id(bpe, text, strlen(text));
    }
}

void bpe_make_hash(Bpe *bpe) {
    uint64_t hash = checksum(0, &bpe->settings, sizeof bpe->settings);
    hash = checksum(hash, bpe->pieces.bytes, bpe->pieces.n_bytes);
    hash = checksum(hash, bpe->ids, bpe->pieces.n * sizeof *bpe->ids);
    hash = checksum(hash, bpe->merges, bpe->n_slots * sizeof *bpe->merges);
    for (size_t i = 0; i < bpe->n_added; i++) {
        const BpeAdded *a = &bpe->added[i];
        const uint32_t strips = (uint32_t)a->single_word | (uint32_t)a->lstrip << 1 | (uint32_t)a->rstrip << 2;
        const uint32_t facts[] = {a->piece, a->special, a->late | strips << 1};
        hash = checksum(hash, facts, sizeof facts);
    }
    if (bpe->symbol_ids) {
        hash = checksum(hash, bpe->symbols.bytes, bpe->symbols.n_bytes);
        hash = checksum(hash, bpe->symbol_ids, bpe->symbols.n * sizeof *bpe->symbol_ids);
    }
    bpe->hash = hash;
}

static bool take_file(Bpe *bpe, const json_t *root, Error *error) {
    const json_t *model = json_object_get(root, "model"), *added = json_object_get(root, "added_tokens");
    json_t *vocab = json_object_get(model, "vocab");
    if (!json_is_object(root)) return error_set(error, "not a tokenizer.json: it is no JSON object");
    if (!check_model(model, error) || !take_normalizer(&bpe->settings, json_object_get(root, "normalizer"), error) ||
        !take_split(&bpe->settings, json_object_get(root, "pre_tokenizer"), error) ||
        !check_decoder(&bpe->settings, json_object_get(root, "decoder"), error) ||
        !take_size(bpe, vocab, added, error) || !take_vocab(bpe, vocab, error) ||
        !take_model_settings(bpe, model, error) || !take_merges(bpe, json_object_get(model, "merges"), error) ||
        !take_added(bpe, added, error))
        return false;
    if (bpe->settings.byte_level) make_bytes(bpe);
    bpe_make_hash(bpe);
    return true;
}

Bpe *bpe_open(const char *bytes, size_t size, Error *error) {
    json_auto_t *root = json_parse(bytes, size, JSON_REJECT_DUPLICATES, error);
    if (!root) return NULL;
    Bpe *bpe = xcalloc(1, sizeof *bpe);
    if (take_file(bpe, root, error)) return bpe;
    bpe_close(bpe);
    return NULL;
}

void bpe_close(Bpe *bpe) {
    if (!bpe) return;
    strings_free(&bpe->pieces);
    strings_free(&bpe->symbols);
    FREE(bpe->ids, bpe->piece_of, bpe->merges, bpe->added, bpe->bytes, bpe->bytes_at, bpe->symbol_ids, bpe);
}
