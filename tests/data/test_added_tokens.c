/* added_tokens.json: ids as PhobertTokenizer of transformers gives them (tests/reference/make_added_tokens.py), and
 * what is refused. */
#include <jansson.h>
#include <unistd.h>

#include "data/text/sentencepiece.h"
#include "data/text/tokenizer.h"
#include "tests/test.h"

static const json_t *golden(const char *key) {
    static json_t *file;
    if (!file) file = json_load_file("tests/reference/golden/added_tokens.json", 0, NULL);
    assert_non_null(file);
    return json_object_get(file, key);
}

/* Writes the golden vocab.txt and bpe.codes, and this added_tokens.json; NULL: none. Returns their folder. */
static const char *write_files(const char *added) {
    static const char *const names[] = {"vocab.txt", "bpe.codes"};
    const char *folder = kept_folder();
    for (int i = 0; i < 2; i++)
        write_text(kept_path(folder, names[i]), "%s", json_string_value(json_object_get(golden("files"), names[i])));
    if (added) write_text(kept_path(folder, "added_tokens.json"), "%s", added);
    return folder;
}

static const char *golden_added(void) {
    return json_string_value(json_object_get(golden("files"), "added_tokens.json"));
}

static Tokenizer *open_checked(const char *path) {
    Error error = {""};
    Tokenizer *tokenizer = tokenizer_open(path, &error);
    if (!tokenizer) fail_msg("%s", error.text);
    return tokenizer;
}

static void assert_refused(const char *path, const char *message) {
    Error error = {""};
    Tokenizer *tokenizer = tokenizer_open(path, &error);
    tokenizer_close(tokenizer);
    if (tokenizer) fail_msg("opened, not refused with: %s", message);
    assert_contains(error.text, message);
}

TEST(ids_are_those_of_transformers) {
    Tokenizer *tokenizer = open_checked(write_files(golden_added()));
    const json_t *texts = golden("texts"), *ids = golden("ids");
    TokenIds got = {0};
    assert_int_equal(tokenizer_vocabulary(tokenizer), 30);
    assert_true(json_array_size(texts) >= 16);
    for (size_t i = 0; i < 2 * json_array_size(texts); i++) { /* special tokens are none of these */
        const char *text = json_string_value(json_array_get(texts, i / 2));
        const json_t *want = json_array_get(ids, i / 2);
        got.n = 0;
        tokenizer_encode(tokenizer, text, strlen(text), i % 2, &got);
        bool same = got.n == (int64_t)json_array_size(want);
        for (int64_t k = 0; same && k < got.n; k++)
            same = got.ids[k] == json_integer_value(json_array_get(want, (size_t)k));
        if (!same) fail_msg("\"%s\"", text);
    }
    token_ids_free(&got);
    tokenizer_close(tokenizer);
}

TEST(a_file_without_new_tokens_changes_nothing) {
    static const char *const files[] = {NULL, "{}", "{\"<mask>\": 24, \"<s>\": 0}"};
    Tokenizer *full = open_checked(write_files(golden_added()));
    const char *paths[3];
    for (int i = 0; i < 3; i++) {
        Tokenizer *tokenizer = open_checked(write_files(files[i])), *plain = open_checked(write_files(NULL));
        assert_true(tokenizer_hash(tokenizer) == tokenizer_hash(plain));
        assert_true(tokenizer_hash(tokenizer) != tokenizer_hash(full));
        assert_int_equal(tokenizer_vocabulary(tokenizer), 25);
        assert_int_equal(tokenizer_files(tokenizer, paths), i ? 3 : 2);
        tokenizer_close(tokenizer);
        tokenizer_close(plain);
    }
    tokenizer_close(full);
}

TEST(tokens_that_do_not_fit_are_named) {
    static const struct {
        const char *added, *message;
    } cases[] = {
        {"{\"<e>\": 26}",
         "added_tokens.json: \"<e>\" has the id 26, and the next one behind the pieces is 25: it is of"},
        {"{\"<e>\": 25, \"<f>\": 27}", "\"<f>\" has the id 27, and the next one behind the pieces is 26"},
        {"{\"<e>\": 7}", "\"<e>\" has the id 7, and the next one behind the pieces is 25"},
        {"{\"xin\": 25}", "added_tokens.json: \"xin\" has the id 25, and as a piece 4: it is of another vocab.txt"},
        {"{\"<mask>\": 25}", "\"<mask>\" has the id 25, and as a piece 24"},
        {"{\"<e>\": 25, \"<f>\": 25}", "\"<e>\" and \"<f>\" have one id, 25"},
        {"{\"<e>\": \"25\"}", "expected \"<e>\": id, a number from 0 to 4194303"},
        {"{\"<e>\": -1}", "expected \"<e>\": id, a number"},
        {"{\"\": 25}", "expected \"\": id, a number"},
        {"[\"<e>\"]", "expected an object of TOKEN: id"},
        {"{\"<e>\": 25, \"<e>\": 25}", "added_tokens.json: line 1, column "},
        {"", "added_tokens.json: "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_refused(write_files(cases[i].added), cases[i].message);
}

/* Other tokenizers have their added tokens in their own file. */
TEST(other_tokenizers_must_have_the_tokens_themselves) {
    static const char text[] = "the cat sat\non the mat\n";
    const char *folder = kept_folder(), *model = kept_path(folder, "tokenizer.model"),
               *added = kept_path(folder, "added_tokens.json");
    Error error;
    if (!sentencepiece_train_bpe(text, strlen(text), model, 24, &error)) fail_msg("%s", error.text);
    write_text(added, "{\"</s>\": 1}");
    tokenizer_close(open_checked(folder));
    write_text(added, "{\"</s>\": 1, \"<pad>\": 24}");
    assert_refused(model, "added_tokens.json gives \"<pad>\" the id 24, and the tokenizer does not: save it as "
                          "tokenizer.json, which has all its tokens, or remove added_tokens.json if no text has them");
    unlink(model);
    assert_int_equal(run_command((char[256]){""}, 256, "cp tests/reference/golden/slm_gpt2/tokenizer.json %s", folder),
                     0);
    assert_refused(folder, "added_tokens.json gives \"</s>\" the id 1");
    write_text(added, "{\"<|endoftext|>\": 0}");
    tokenizer_close(open_checked(folder));
}
