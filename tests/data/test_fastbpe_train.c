/* Learning codes: the merges and pieces of the plain definition in Python, whatever the threads; no unknown tokens. */
#include <jansson.h>
#include <unistd.h>

#include "data/text/fastbpe_train.h"
#include "data/text/tokenizer.h"
#include "tests/test.h"

static Error error;

static const char *folder(void) {
    static const char *path;
    if (!path) path = run_directory();
    return path;
}

/* Learns from texts[0 .. n - 1], by one thread after the other. */
static bool learn(const char *const *texts, size_t n, const FastBpeTraining *options, bool reverse,
                  FastBpeLearned *learned, Error *error) {
    FastBpeTrainer *trainer = fastbpe_trainer_open(options);
    for (size_t i = 0; i < n; i++) {
        const char *text = texts[reverse ? n - 1 - i : i];
        fastbpe_trainer_add(trainer, (int)i % options->n_threads, text, strlen(text));
    }
    const bool ok = fastbpe_trainer_learn(trainer, learned, error) && fastbpe_trainer_write(trainer, folder(), error);
    fastbpe_trainer_close(trainer);
    return ok;
}

static char *file_text(const char *name) {
    char *path = kept_path(folder(), name), *text = kept_text(path);
    return text;
}

static void assert_lines(const char *name, const json_t *want) {
    char *text = file_text(name), *at = text;
    const json_t *line;
    size_t i;
    json_array_foreach(want, i, line) {
        char *end = strchr(at, '\n');
        if (!end) fail_msg("%s has no line %zu", name, i + 1);
        *end = 0;
        assert_string_equal(at, json_string_value(line));
        at = end + 1;
    }
    assert_string_equal(at, "");
}

TEST(merges_and_pieces_are_those_of_the_definition) {
    json_t *golden = json_load_file("tests/reference/golden/fastbpe.json", 0, NULL), *text;
    const json_t *learned = json_object_get(golden, "learned");
    const char *texts[100];
    size_t n;
    json_array_foreach(json_object_get(golden, "corpus"), n, text) texts[n] = json_string_value(text);
    for (int threads = 1; threads <= 4; threads++) {
        FastBpeLearned facts;
        const FastBpeTraining options = {(int)json_integer_value(json_object_get(golden, "merges")), 2, threads};
        if (!learn(texts, n, &options, threads % 2, &facts, &error)) fail_msg("%s", error.text);
        assert_lines("bpe.codes", json_object_get(learned, "codes"));
        assert_lines("vocab.txt", json_object_get(learned, "vocab"));
        assert_int_equal(facts.pieces, json_array_size(json_object_get(learned, "vocab")));
    }
    json_decref(golden);
}

static Tokenizer *open_learned(void) {
    Error error = {""};
    Tokenizer *tokenizer = tokenizer_open(folder(), &error);
    if (!tokenizer) fail_msg("%s", error.text);
    return tokenizer;
}

TEST(texts_of_known_characters_have_no_unknown_token) {
    char *text = kept_text("README.md");
    const char *texts[] = {text, "<s> <mask> @@ a@@ \u00e9\u1ed1"};
    FastBpeLearned learned;
    if (!learn(texts, 2, &(FastBpeTraining){400, 0, 2}, false, &learned, &error)) fail_msg("%s", error.text);
    assert_true(learned.unseen > 0 && learned.unseen < learned.pieces);
    assert_true(learned.distinct < learned.words && learned.words < learned.tokens);
    Tokenizer *tokenizer = open_learned();
    assert_int_equal(tokenizer_vocabulary(tokenizer), learned.pieces + 5);
    TokenIds ids = {0};
    for (char *at = text, *next = text; *at; at = next) { /* the words backwards */
        for (next = at; (unsigned char)*next > ' ' && (unsigned char)*next < 0x80;) next++;
        for (char *a = at, *b = next; a < --b; a++) {
            const char kept = *a;
            *a = *b, *b = kept;
        }
        while (*next && !((unsigned char)*next > ' ' && (unsigned char)*next < 0x80)) next++;
    }
    for (char *at = text; (at = strchr(at, '\n'));) *at = ' ';
    tokenizer_encode(tokenizer, text, strlen(text), false, &ids);
    tokenizer_encode(tokenizer, texts[1], strlen(texts[1]), false, &ids);
    assert_true(ids.n > learned.words);
    assert_int_equal(ids.unknown, 0);
    token_ids_free(&ids);
    tokenizer_close(tokenizer);
}

static const char *const few[] = {"abab abab", "ab\xffzz"}; /* ab, ab</w>, abab</w> */

TEST(merges_are_at_most_what_was_asked_for) {
    static const int asked[] = {2, 3, 4, 400};
    for (int i = 0; i < 4; i++) {
        FastBpeLearned learned;
        if (!learn(few, 1, &(FastBpeTraining){asked[i], 2, 1}, false, &learned, &error)) fail_msg("%s", error.text);
        assert_int_equal(learned.merges, i ? 3 : 2);
        char *codes = file_text("bpe.codes"), *vocab = file_text("vocab.txt");
        assert_string_equal(codes, i ? "a b 2\na b</w> 2\nab ab</w> 2\n" : "a b 2\na b</w> 2\n");
        if (i) assert_string_equal(vocab, "abab 2\na 0\na@@ 0\nab 0\nab@@ 0\nb 0\nb@@ 0\n");
        tokenizer_close(open_learned());
    }
}

TEST(what_is_impossible_is_refused) {
    static const struct {
        FastBpeTraining options;
        int n;
        const char *message;
    } cases[] = {
        {{4, 3, 2}, 1, "no pair of symbols occurs 3 times in the texts: give more text"},
        {{1, 0, 1}, 0, "no pair of symbols occurs 1 times"},
        {{1, 0, 1}, 2, "a word holds a zero byte or is not UTF-8: \"ab\xffzz\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Error error = {""};
        char *path = kept_path(folder(), "bpe.codes");
        unlink(path);
        assert_false(learn(few, (size_t)cases[i].n, &cases[i].options, false, &(FastBpeLearned){0}, &error));
        assert_contains(error.text, cases[i].message);
        assert_int_equal(access(path, F_OK), -1); /* nothing was written */
    }
}
