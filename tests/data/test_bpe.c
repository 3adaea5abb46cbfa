/* tokenizer.json of BPE kind: ids as the package `tokenizers` gives them, bytes back, what is refused. */
#include <jansson.h>

#include "data/text/tokenizer.h"
#include "tests/test.h"

/* ---- the tokenizers of tests/reference/make_tokenizers.py ---- */

static json_t *golden(void) {
    static json_t *file;
    json_error_t error;
    if (!file) file = json_load_file("tests/reference/golden/tokenizers.json", 0, &error);
    if (!file) fail_msg("line %d: %s", error.line, error.text);
    return file;
}

/* Returns a copy of a base with changes, NULL for none. */
static json_t *describe(const char *base, json_t *change) {
    json_t *root = json_deep_copy(json_object_get(golden(), base));
    assert_non_null(root);
    if (change) assert_int_equal(json_object_update_recursive(root, change), 0);
    return root;
}

/* Opens a description, written with the flags of json_dumps; NULL with an error. Takes the description. */
static Tokenizer *open_json(json_t *root, size_t flags, Error *error) {
    char *folder = kept_folder(), *path = kept_path(folder, "tokenizer.json"), *text = keep(json_dumps(root, flags));
    write_text(path, "%s", text);
    Tokenizer *tokenizer = tokenizer_open(folder, error);
    json_decref(root);
    return tokenizer;
}

static Tokenizer *open_checked(json_t *root) {
    Error error = {""};
    Tokenizer *tokenizer = open_json(root, 0, &error);
    if (!tokenizer) fail_msg("%s", error.text);
    return tokenizer;
}

/* Opens a base with a change that is written as JSON. */
static Tokenizer *open_changed(const char *base, const char *change) {
    json_t *value = json_loads(change, 0, NULL);
    assert_non_null(value);
    Tokenizer *tokenizer = open_checked(describe(base, value));
    json_decref(value);
    return tokenizer;
}

static void encode(const Tokenizer *tokenizer, const char *text, bool specials, TokenIds *ids) {
    ids->n = 0;
    tokenizer_encode(tokenizer, text, strlen(text), specials, ids);
}

static void check_ids(const char *name, const char *text, const TokenIds *got, const json_t *want) {
    bool same = got->n == (int64_t)json_array_size(want);
    for (int64_t i = 0; same && i < got->n; i++)
        same = got->ids[i] == json_integer_value(json_array_get(want, (size_t)i));
    if (!same) fail_msg("%s: other ids than those of tokenizers for \"%s\"", name, text);
}

static void check_text(const Tokenizer *tokenizer, const TokenIds *ids, const char *want, size_t want_size) {
    size_t size;
    char *text = keep(tokenizer_decode(tokenizer, ids->ids, ids->n, &size));
    assert_int_equal(size, want_size);
    assert_memory_equal(text, want, size + 1);
}

/* Every text is encoded twice, the second time with words that are known. */
TEST(ids_are_those_of_the_package_tokenizers) {
    json_t *variant, *text;
    size_t i, k;
    json_array_foreach(json_object_get(golden(), "variants"), i, variant) {
        const char *name = json_string_value(json_object_get(variant, "name"));
        const char *base = json_string_value(json_object_get(variant, "base"));
        const json_t *change = json_object_get(variant, "change");
        const bool inverse = !strcmp(base, "byte_level") && strcmp(name, "prefix_space") != 0 &&
                             strcmp(name, "stripped") != 0 && !json_object_get(change, "normalizer");
        Tokenizer *tokenizer = open_checked(describe(base, json_object_get(variant, "change")));
        const json_t *own = json_object_get(variant, "texts"), *texts = own ? own : json_object_get(golden(), "texts");
        TokenIds ids = {0};
        for (int again = 0; again < 2; again++) json_array_foreach(texts, k, text) {
                encode(tokenizer, json_string_value(text), true, &ids);
                check_ids(name, json_string_value(text), &ids, json_array_get(json_object_get(variant, "ids"), k));
                if (inverse) check_text(tokenizer, &ids, json_string_value(text), json_string_length(text));
            }
        token_ids_free(&ids);
        tokenizer_close(tokenizer);
    }
    assert_int_equal(i, 14);
}

/* ---- byte-level ---- */

TEST(byte_level_gives_any_bytes_back) {
    static const char *const pieces[] = {"a",  " ",    "\xc3", "\xa9",     "\xf0\x9f", "\x98\x80", "\n",
                                         "'s", "\xff", "1",    "\xe2\x80", "\0",       "the"};
    Tokenizer *tokenizer = open_checked(describe("byte_level", NULL));
    TokenIds ids = {0};
    uint32_t random = 1;
    for (int i = 0; i < 2000; i++) {
        char text[256];
        size_t size = 0;
        for (int k = 0; k < 1 + i % 40; k++) {
            random = random * 1664525u + 1013904223u;
            const char *piece = pieces[(random >> 16) % 13];
            const size_t n = *piece ? strlen(piece) : 1;
            memcpy(text + size, piece, n);
            size += n;
        }
        text[size] = 0;
        ids.n = 0;
        tokenizer_encode(tokenizer, text, size, false, &ids);
        check_text(tokenizer, &ids, text, size);
    }
    assert_int_equal(ids.dropped, 0);
    token_ids_free(&ids);
    tokenizer_close(tokenizer);
}

/* A quadratic algorithm would need minutes. */
TEST(a_very_long_word_is_encoded) {
    const size_t size = 1000000;
    char *text = xmalloc(size + 1);
    for (size_t i = 0; i < size; i++) text[i] = "the"[i % 3];
    text[size] = 0;
    Tokenizer *tokenizer = open_checked(describe("byte_level", NULL));
    TokenIds ids = {0};
    encode(tokenizer, text, false, &ids);
    assert_true(ids.n < (int64_t)size / 2);
    check_text(tokenizer, &ids, text, size);
    token_ids_free(&ids);
    tokenizer_close(tokenizer);
    free(text);
}

TEST(special_tokens_are_text_unless_asked_for) {
    static const char more[] = "{\"added_tokens\": [{\"id\": 0, \"content\": \"<|endoftext|>\", \"special\": true},"
                               "{\"id\": 500, \"content\": \"<|always|>\", \"special\": false}]}";
    Tokenizer *tokenizer = open_changed("byte_level", more);
    TokenIds ids = {0};
    assert_int_equal(tokenizer_vocabulary(tokenizer), 501);
    assert_int_equal(tokenizer_end_of_text(tokenizer), 0);
    assert_int_equal(tokenizer_id(tokenizer, "<|always|>"), 500);
    assert_string_equal(tokenizer_piece(tokenizer, 500), "<|always|>");
    assert_string_equal(tokenizer_piece(tokenizer, 499), ""); /* no piece has this id */
    assert_int_equal(tokenizer_unknown_id(tokenizer), -1);
    for (int specials = 0; specials < 2; specials++) {
        encode(tokenizer, "<|endoftext|><|always|>", specials, &ids);
        assert_int_equal(ids.ids[ids.n - 1], 500);
        assert_int_equal(ids.ids[0] == 0, specials);
        assert_int_equal(ids.n == 2, specials);
        check_text(tokenizer, &ids, "<|endoftext|><|always|>", 23);
    }
    token_ids_free(&ids);
    tokenizer_close(tokenizer);
}

/* Describes the token as RoBERTa describes <mask>. */
TEST(a_token_that_swallows_blanks_is_text_like_others_unless_it_is_parsed) {
    static const char change[] = "{\"added_tokens\": [{\"id\": 0, \"content\": \"<|endoftext|>\", \"special\": true, "
                                 "\"lstrip\": true}]}";
    static const char text[] = "a  <|endoftext|> a";
    Tokenizer *plain = open_checked(describe("byte_level", NULL)), *tokenizer = open_changed("byte_level", change);
    TokenIds ids = {0}, want = {0};
    encode(plain, text, false, &want);
    encode(tokenizer, text, false, &ids);
    assert_int_equal(ids.n, want.n);
    assert_memory_equal(ids.ids, want.ids, (size_t)ids.n * sizeof *ids.ids);
    encode(tokenizer, text, true, &ids);
    check_text(tokenizer, &ids, "a<|endoftext|> a", 16);
    token_ids_free(&ids);
    token_ids_free(&want);
    tokenizer_close(plain);
    tokenizer_close(tokenizer);
}

/* ---- character-level ---- */

TEST(continuations_are_joined_and_words_are_not) {
    Tokenizer *tokenizer = open_checked(describe("character_level", NULL));
    TokenIds ids = {0};
    encode(tokenizer, "the  thing's \xc3\xa9nd,\nthey<|endoftext|> see", true, &ids);
    check_text(tokenizer, &ids, "the thing ' s end , they <|endoftext|> see", 42);
    token_ids_free(&ids);
    tokenizer_close(tokenizer);
}

static void note(void *context, const char *text, size_t size) {
    char *missing = context;
    snprintf(missing + strlen(missing), 64 - strlen(missing), "%.*s|", (int)size, text);
}

/* U+2603 has no piece; the bytes behind it belong to no character. */
TEST(characters_without_a_piece_are_counted) {
    static const char text[] = "a\xe2\x98\x83z \xe2\x98\x83\xff\xfe c";
    static const struct {
        const char *change;
        int64_t n, unknown, dropped;
        const char *missing;
    } cases[] = {{"{}", 3, 0, 4, "\xe2\x98\x83|\xe2\x98\x83|\xff|\xfe|"},
                 {"{\"model\": {\"unk_token\": \"<|unk|>\"}}", 7, 4, 0, "\xe2\x98\x83|\xe2\x98\x83|\xff|\xfe|"},
                 {"{\"model\": {\"unk_token\": \"<|unk|>\", \"fuse_unk\": true}}", 5, 2, 0,
                  "\xe2\x98\x83|\xe2\x98\x83\xff\xfe|"}};
    for (int i = 0; i < 3; i++) {
        Tokenizer *tokenizer = open_changed("character_level", cases[i].change);
        TokenIds ids = {0};
        for (int again = 1; again < 3; again++) {
            encode(tokenizer, text, true, &ids);
            assert_int_equal(ids.n, cases[i].n);
            assert_int_equal(ids.unknown, again * cases[i].unknown);
            assert_int_equal(ids.dropped, again * cases[i].dropped);
        }
        char missing[64] = "";
        ids.missing = note;
        ids.context = missing;
        encode(tokenizer, text, true, &ids); /* although the words are remembered */
        assert_string_equal(missing, cases[i].missing);
        assert_int_equal(tokenizer_unknown_id(tokenizer), i ? 1 : -1);
        token_ids_free(&ids);
        tokenizer_close(tokenizer);
    }
}

/* ---- both ---- */

TEST(bytes_without_a_piece_are_told_as_characters) {
    json_t *root = describe("byte_level", NULL), *vocab = json_object_get(json_object_get(root, "model"), "vocab");
    json_object_del(vocab, "\u013a"); /* the last two bytes of U+2603 */
    json_object_del(vocab, "\u0125");
    Tokenizer *tokenizer = open_checked(root);
    char missing[64] = "";
    TokenIds ids = {.missing = note, .context = missing};
    encode(tokenizer, "a\xe2\x98\x83\xe2\x98\x83 \x83 b", true, &ids);
    assert_int_equal(ids.dropped, 5);
    assert_string_equal(missing, "\xe2\x98\x83|\xe2\x98\x83|\x83|");
    token_ids_free(&ids);
    tokenizer_close(tokenizer);
}

TEST(known_words_belong_to_one_tokenizer) {
    Tokenizer *tokenizers[] = {open_checked(describe("byte_level", NULL)),
                               open_checked(describe("character_level", NULL))};
    TokenIds shared = {0}, own = {0};
    for (int i = 0; i < 4; i++) {
        encode(tokenizers[i % 2], "the word was with them", true, &shared);
        encode(tokenizers[i % 2], "the word was with them", true, &own);
        assert_int_equal(shared.n, own.n);
        assert_memory_equal(shared.ids, own.ids, (size_t)own.n * sizeof *own.ids);
        token_ids_free(&own);
    }
    token_ids_free(&shared);
    for (int i = 0; i < 2; i++) tokenizer_close(tokenizers[i]);
}

static uint64_t hash_of(json_t *root, size_t flags) {
    Error error = {""};
    Tokenizer *tokenizer = open_json(root, flags, &error);
    if (!tokenizer) fail_msg("%s", error.text);
    const uint64_t hash = tokenizer_hash(tokenizer);
    tokenizer_close(tokenizer);
    return hash;
}

TEST(the_hash_is_of_what_decides_the_ids) {
    const uint64_t hash = hash_of(describe("byte_level", NULL), 0);
    assert_true(hash_of(describe("byte_level", NULL), JSON_INDENT(2) | JSON_SORT_KEYS) == hash);
    json_t *other = describe("byte_level", NULL), *merges = json_object_get(json_object_get(other, "model"), "merges");
    json_object_set_new(other, "decoder", json_null());
    for (size_t i = 0; i < json_array_size(merges); i++) { /* pairs or texts: both are in use */
        const json_t *pair = json_array_get(merges, i);
        assert_int_equal(json_array_size(pair), 2);
        json_array_set_new(merges, i,
                           json_sprintf("%s %s", json_string_value(json_array_get(pair, 0)),
                                        json_string_value(json_array_get(pair, 1))));
    }
    assert_true(hash_of(json_deep_copy(other), 0) == hash);
    json_array_set_new(merges, 3, json_incref(json_array_get(merges, 4)));
    assert_true(hash_of(other, 0) != hash);
    static const char *const changes[] = {
        "{\"model\": {\"ignore_merges\": true}}", "{\"added_tokens\": []}", "{\"normalizer\": {\"type\": \"NFC\"}}",
        "{\"pre_tokenizer\": {\"add_prefix_space\": true}}",
        "{\"added_tokens\": [{\"id\": 0, \"content\": \"<|endoftext|>\", \"special\": true, \"lstrip\": true}]}"};
    for (int i = 0; i < 5; i++) {
        Tokenizer *tokenizer = open_changed("byte_level", changes[i]);
        assert_true(tokenizer_hash(tokenizer) != hash);
        tokenizer_close(tokenizer);
    }
}

TEST(what_is_not_supported_is_named) {
    static const struct {
        const char *base, *change, *message;
    } cases[] = {
        {"byte_level", "{\"model\": {\"type\": \"WordPiece\"}}", "its type is not BPE but WordPiece"},
        {"byte_level", "{\"model\": {\"byte_fallback\": true}}", "byte_fallback is not supported"},
        {"byte_level", "{\"model\": {\"dropout\": 0.1}}", "dropout is not supported"},
        {"byte_level", "{\"model\": {\"end_of_word_suffix\": \"</w>\"}}", "end_of_word_suffix is not supported"},
        {"byte_level", "{\"model\": {\"novelty\": 1}}", "the setting novelty is not known"},
        {"byte_level", "{\"model\": {\"continuing_subword_prefix\": \"##\"}}",
         "\"##\" is not supported together with ByteLevel"},
        {"byte_level", "{\"model\": {\"unk_token\": \"<nothing>\"}}", "unk_token \"<nothing>\" is not in the vocab"},
        {"byte_level", "{\"model\": {\"merges\": [\"a\"]}}", "merge 1 is not two pieces"},
        {"byte_level", "{\"model\": {\"merges\": [[\"a\", \"qqq\"]]}}", "\"qqq\" is not a piece"},
        {"byte_level", "{\"model\": {\"merges\": [\"q q\"]}}", "makes \"qq\", which is not a piece"},
        {"byte_level", "{\"model\": {\"merges\": null}}", "there are no merges"},
        {"byte_level", "{\"model\": {\"vocab\": {\"x\": 1}}}", "\"x\" have the same id"},
        {"byte_level", "{\"model\": {\"vocab\": {\"x\": 4194304}}}", "the id of \"x\" is not in 0 .. 4194303"},
        {"byte_level", "{\"model\": {\"vocab\": {\"x\": -1}}}", "the id of \"x\" is not in"},
        {"byte_level", "{\"model\": null}", "its type is not BPE but null"},
        {"byte_level", "{\"normalizer\": {\"type\": \"Lowercase\"}}", "Lowercase is not supported"},
        {"byte_level", "{\"pre_tokenizer\": {\"type\": \"Metaspace\"}}",
         "Metaspace followed by nothing is not supported"},
        {"byte_level", "{\"pre_tokenizer\": {\"add_prefix_space\": null}}", "add_prefix_space is not true or false"},
        {"byte_level", "{\"decoder\": {\"type\": \"Metaspace\"}}", "Metaspace is not supported here, only ByteLevel"},
        {"byte_level", "{\"added_tokens\": [{\"id\": 5, \"content\": \"<|endoftext|>\"}]}",
         "the id 5 of \"<|endoftext|>\" is that of another"},
        {"byte_level", "{\"added_tokens\": [{\"id\": 5}]}", "entry 1 has no content"},
        {"character_level", "{\"added_tokens\": [{\"id\": 0, \"content\": \"<|endoftext|>\", \"normalized\": true}]}",
         "normalized of \"<|endoftext|>\""},
        {"character_level", "{\"pre_tokenizer\": null}", "nothing followed by nothing is not supported"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *change = json_loads(cases[i].change, 0, NULL);
        Error error = {""};
        assert_non_null(change);
        assert_null(open_json(describe(cases[i].base, change), 0, &error));
        assert_contains(error.text, cases[i].message);
        json_decref(change);
    }
}

/* The id of such a token would be two texts. */
TEST(an_added_token_that_is_written_like_other_bytes_is_refused) {
    json_t *root = describe("byte_level", NULL);
    const json_t *id = json_object_get(json_object_get(json_object_get(root, "model"), "vocab"), "\u00e9");
    json_array_append_new(json_object_get(root, "added_tokens"),
                          json_pack("{s:O, s:s}", "id", id, "content", "\u00e9"));
    Error error = {""};
    assert_null(open_json(root, 0, &error));
    assert_contains(error.text, "is also the piece of other bytes");
}

TEST(other_splits_are_refused) {
    static const char *const patterns[] = {"\\s+", "\\p{N}{1,3}"};
    for (int i = 0; i < 2; i++) {
        json_t *root = describe("byte_level", NULL);
        json_t *bytes = json_deep_copy(json_object_get(root, "pre_tokenizer"));
        json_object_set_new(bytes, "use_regex", json_false());
        json_t *split = json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", "Regex", patterns[i],
                                  "behavior", "Isolated", "invert", 0);
        json_object_set_new(root, "pre_tokenizer",
                            json_pack("{s:s, s:[o, o]}", "type", "Sequence", "pretokenizers", split, bytes));
        Error error = {""};
        assert_null(open_json(root, 0, &error));
        assert_contains(error.text, patterns[i]);
    }
}

TEST(damaged_files_say_where) {
    char *folder = kept_folder(), *path = kept_path(folder, "tokenizer.json");
    static const struct {
        const char *text, *message;
    } cases[] = {{"", "line 1"},
                 {"{\"model\":\n {\"vocab\": }", "line 2"},
                 {"[]", "no JSON object"},
                 {"{\"a\": 1, \"a\": 2}", "duplicate"}};
    for (int i = 0; i < 4; i++) {
        Error error = {""};
        write_text(path, "%s", cases[i].text);
        assert_null(tokenizer_open(path, &error));
        assert_contains(error.text, cases[i].message);
    }
}

static void decode_outside(void *argument) { free(tokenizer_decode(argument, &(int32_t){420}, 1, &(size_t){0})); }

TEST(an_id_outside_the_vocabulary_is_named) {
    char output[512];
    Tokenizer *tokenizer = open_checked(describe("byte_level", NULL));
    assert_int_equal(run_function(output, sizeof output, decode_outside, tokenizer), 1);
    assert_contains(output, "text id 420 is not in 0 .. 419");
    tokenizer_close(tokenizer);
}
