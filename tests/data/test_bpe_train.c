/* Training of byte-level BPE: the merges of the package `tokenizers`, whatever the threads; vocabularies that do not
 * fit. */
#include <jansson.h>
#include <unistd.h>

#include "data/text/bpe_train.h"
#include "data/text/tokenizer.h"
#include "tests/test.h"

static Error error;

static const char *const end_of_text[] = {"<|endoftext|>"};

/* Trains on texts[0 .. n - 1], by one thread after the other. */
static bool train(const char *const *texts, int n, const BpeTraining *options, bool reverse, const char *path,
                  Error *error) {
    int vocabulary = 0;
    BpeTrainer *trainer = bpe_trainer_open(options);
    for (int i = 0; i < n; i++) {
        const char *text = texts[reverse ? n - 1 - i : i];
        bpe_trainer_add(trainer, i % options->n_threads, text, strlen(text));
    }
    const bool ok = bpe_trainer_write(trainer, path, &vocabulary, error);
    bpe_trainer_close(trainer);
    if (!ok) return false;
    Tokenizer *tokenizer = tokenizer_open(path, error);
    if (!tokenizer) fail_msg("%s", error->text);
    assert_int_equal(vocabulary, tokenizer_vocabulary(tokenizer));
    tokenizer_close(tokenizer);
    return ok;
}

static const char *output(void) {
    static char *path;
    if (!path) path = kept_path(run_directory(), "tokenizer.json");
    return path;
}

/* The training of tests/reference/make_tokenizers.py. */
TEST(merges_are_those_of_the_package_tokenizers) {
    json_t *golden = json_load_file("tests/reference/golden/tokenizers.json", 0, NULL),
           *texts = json_object_get(golden, "texts");
    const json_t *want = json_object_get(json_object_get(golden, "byte_level"), "model");
    const char *all[1000];
    int n = 0;
    for (size_t i = 0; i < json_array_size(texts); i++)
        for (int k = 0; k < 2; k++) all[n++] = json_string_value(json_array_get(texts, i));
    for (int k = 0; k < 9; k++) all[n++] = json_string_value(json_object_get(golden, "sentence"));
    const BpeTraining options = {420, 0, end_of_text, 1, 3};
    if (!train(all, n, &options, false, output(), &error)) fail_msg("%s", error.text);
    json_t *got = json_load_file(output(), 0, NULL), *model = json_object_get(got, "model");
    assert_true(json_equal(json_object_get(model, "vocab"), json_object_get(want, "vocab")));
    const json_t *merges = json_object_get(want, "merges"), *ours = json_object_get(model, "merges");
    assert_int_equal(json_array_size(ours), json_array_size(merges));
    for (size_t i = 0; i < json_array_size(merges); i++) {
        const json_t *pair = json_array_get(merges, i);
        char *line =
            xformat("%s %s", json_string_value(json_array_get(pair, 0)), json_string_value(json_array_get(pair, 1)));
        assert_string_equal(json_string_value(json_array_get(ours, i)), line);
        free(line);
    }
    json_decref(golden);
    json_decref(got);
}

TEST(threads_and_order_do_not_count) {
    char *sentences = kept_text("demo/sentences.txt"), *readme = kept_text("README.md"), *want = NULL;
    const char *texts[] = {sentences, readme, "a text of its own"};
    for (int i = 0; i < 4; i++) {
        const BpeTraining options = {700, 2, end_of_text, 1, 1 + i};
        if (!train(texts, 3, &options, i % 2, output(), &error)) fail_msg("%s", error.text);
        char *got = kept_text(output());
        if (want)
            assert_string_equal(got, want);
        else
            want = xstrdup(got);
    }
    Tokenizer *tokenizer = tokenizer_open(output(), &error);
    assert_non_null(tokenizer);
    assert_int_equal(tokenizer_vocabulary(tokenizer), 700);
    assert_int_equal(tokenizer_end_of_text(tokenizer), 0);
    TokenIds ids = {0};
    size_t size;
    tokenizer_encode(tokenizer, sentences, strlen(sentences), true, &ids);
    assert_string_equal(keep(tokenizer_decode(tokenizer, ids.ids, ids.n, &size)), sentences);
    assert_true((size_t)ids.n < size / 2);
    tokenizer_close(tokenizer);
    token_ids_free(&ids);
    free(want);
}

static const char *const few[] = {"abab abab", "aaaa"}; /* ab, abab, aa, " abab", aaaa */

TEST(a_vocabulary_is_at_most_what_was_asked_for) {
    static const struct {
        int n; /* texts */
        BpeTraining options;
        int want;
    } cases[] = {{2, {263, 0, end_of_text, 1, 1}, 262},   {2, {262, 0, end_of_text, 1, 1}, 262},
                 {2, {261, 0, end_of_text, 1, 1}, 261},   {2, {263, 2, end_of_text, 1, 2}, 260},
                 {2, {30016, 2, end_of_text, 1, 1}, 260}, {2, {30016, 100, end_of_text, 1, 1}, 257},
                 {0, {300, 0, end_of_text, 1, 1}, 257}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Error error = {""};
        if (!train(few, cases[i].n, &cases[i].options, false, output(), &error)) fail_msg("%s", error.text);
        Tokenizer *tokenizer = tokenizer_open(output(), &error);
        if (!tokenizer) fail_msg("%s", error.text);
        assert_int_equal(tokenizer_vocabulary(tokenizer), cases[i].want);
        tokenizer_close(tokenizer);
    }
}

TEST(a_vocabulary_that_does_not_fit_is_refused) {
    static const char *const twice[] = {"<x>", "<x>"}, *const byte[] = {"\u0120"}, *const bad[] = {"\xff"},
                             *const empty[] = {""};
    static const struct {
        BpeTraining options;
        const char *message;
    } cases[] = {
        {{256, 0, end_of_text, 1, 1}, "256 bytes and 1 special tokens need 257"},
        {{300, 0, twice, 2, 1}, "<x> is there twice"},
        {{300, 0, byte, 1, 1}, "is what is written for the byte 0x20"},
        {{300, 0, bad, 1, 1}, "special token 1 is empty or not UTF-8"},
        {{300, 0, empty, 1, 1}, "special token 1 is empty or not UTF-8"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Error error = {""};
        unlink(output());
        assert_false(train(few, 2, &cases[i].options, false, output(), &error));
        assert_contains(error.text, cases[i].message);
        assert_false(read_file(output(), &(char *){NULL}, &(size_t){0}, &error)); /* nothing was written */
    }
    assert_false(train(few, 2, &(BpeTraining){262, 0, end_of_text, 1, 1}, false, "/nowhere/tokenizer.json", &error));
    assert_contains(error.text, "/nowhere/tokenizer.json");
}
