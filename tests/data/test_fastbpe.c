/* vocab.txt and bpe.codes: ids as PhobertTokenizer of transformers gives them, words, threads, what is refused. */
#include <jansson.h>
#include <unistd.h>

#include "data/text/tokenizer.h"
#include "tests/test.h"

/* The files and ids of tests/reference/make_fastbpe.py. */
static const json_t *golden(const char *key) {
    static json_t *file;
    json_error_t error;
    if (!file) file = json_load_file("tests/reference/golden/fastbpe.json", 0, &error);
    if (!file) fail_msg("line %d: %s", error.line, error.text);
    return json_object_get(file, key);
}

static const char *text_of(const json_t *object, const char *key) {
    return json_string_value(json_object_get(object, key));
}

/* Writes both files, or removes one that is NULL; returns their folder, always the same. */
static const char *write_files(const char *vocab, const char *codes) {
    static const char *folder;
    const char *const names[] = {"vocab.txt", "bpe.codes"}, *const texts[] = {vocab, codes};
    if (!folder) folder = run_directory();
    for (int i = 0; i < 2; i++) {
        char *path = kept_path(folder, names[i]);
        unlink(path);
        if (texts[i]) write_text(path, "%s", texts[i]);
    }
    return folder;
}

static Tokenizer *open_checked(const char *path) {
    Error error = {""};
    Tokenizer *tokenizer = tokenizer_open(path, &error);
    if (!tokenizer) fail_msg("%s", error.text);
    return tokenizer;
}

/* Returns the entry whose files were learned from the corpus. */
static const json_t *learned(void) { return json_array_get(golden("entries"), 0); }

static Tokenizer *open_entry(const json_t *entry) {
    return open_checked(write_files(text_of(entry, "vocab"), text_of(entry, "codes")));
}

static void encode(const Tokenizer *tokenizer, const char *text, bool specials, TokenIds *ids) {
    ids->n = 0;
    tokenizer_encode(tokenizer, text, strlen(text), specials, ids);
}

static bool ids_are(const TokenIds *got, const json_t *want) {
    bool same = got->n == (int64_t)json_array_size(want);
    for (int64_t i = 0; same && i < got->n; i++)
        same = got->ids[i] == json_integer_value(json_array_get(want, (size_t)i));
    return same;
}

/* Every text is encoded twice, the second time with words that are known. */
TEST(ids_and_texts_are_those_of_transformers) {
    const json_t *entry, *text;
    size_t i, k, size;
    json_array_foreach(golden("entries"), i, entry) {
        Tokenizer *tokenizer = open_entry(entry);
        TokenIds ids = {0};
        for (int again = 0; again < 2; again++) json_array_foreach(json_object_get(entry, "texts"), k, text) {
                encode(tokenizer, json_string_value(text), true, &ids);
                if (!ids_are(&ids, json_array_get(json_object_get(entry, "ids"), k)))
                    fail_msg("files %zu: other ids for \"%s\"", i, json_string_value(text));
                char *back = keep(tokenizer_decode(tokenizer, ids.ids, ids.n, &size));
                assert_string_equal(back, json_string_value(json_array_get(json_object_get(entry, "decoded"), k)));
                assert_int_equal(size, strlen(back));
            }
        token_ids_free(&ids);
        tokenizer_close(tokenizer);
    }
    assert_int_equal(i, 4);
}

/* "abc" can be made of "ab" and "c", and of "a" and "bc". The last merge allows the one before it; first it is done
 * everywhere in the word. */
TEST(a_merge_is_done_everywhere_before_the_next) {
    Tokenizer *tokenizer =
        open_checked(write_files("abca@@ 1\nabc@@ 1\nx 1\n", "b c 1\na b 1\nab c 1\nabc a 1\na bc 1\n"));
    TokenIds ids = {0};
    encode(tokenizer, "abcabcx", false, &ids);
    assert_int_equal(ids.n, 3);
    assert_string_equal(tokenizer_piece(tokenizer, ids.ids[0]), "abc@@");
    assert_string_equal(tokenizer_piece(tokenizer, ids.ids[1]), "abc@@");
    token_ids_free(&ids);
    tokenizer_close(tokenizer);
}

static const char good_vocab[] = ", 9\na@@ 8\nab 7\nb 6\n", good_codes[] = "a b</w> 7\n";

TEST(special_tokens_have_the_first_ids_and_the_last) {
    static const char *const pieces[] = {"<s>", "<pad>", "</s>", "<unk>", ",", "a@@", "ab", "b", "<mask>"};
    Tokenizer *tokenizer = open_checked(write_files(good_vocab, good_codes));
    assert_int_equal(tokenizer_vocabulary(tokenizer), 9);
    for (int i = 0; i < 9; i++) {
        assert_string_equal(tokenizer_piece(tokenizer, i), pieces[i]);
        assert_int_equal(tokenizer_id(tokenizer, pieces[i]), i);
        assert_int_equal(tokenizer_continues(tokenizer, i), i == 5);
    }
    assert_int_equal(tokenizer_id(tokenizer, "a"), -1);
    assert_int_equal(tokenizer_unknown_id(tokenizer), 3);
    assert_int_equal(tokenizer_end_of_text(tokenizer), 2);
    tokenizer_close(tokenizer);
}

static void note(void *context, const char *text, size_t size) {
    char *missing = context;
    snprintf(missing + strlen(missing), 64 - strlen(missing), "%.*s|", (int)size, text);
}

/* Codes that were learned from a text with "<s>" make it a piece; that is no special token either. */
TEST(special_tokens_are_text_unless_asked_for) {
    Tokenizer *tokenizer = open_checked(write_files(good_vocab, "a b</w> 7\n< s 2\n<s ></w> 2\n"));
    TokenIds ids = {0};
    encode(tokenizer, "b<s> <s>\nab", true, &ids);
    const int32_t with[] = {7, 0, 0, 6}, without[] = {3, 3, 3, 3, 3, 3, 6};
    assert_int_equal(ids.n, 4);
    assert_memory_equal(ids.ids, with, sizeof with);
    assert_int_equal(ids.unknown, 0);
    encode(tokenizer, "b<s> <s> <s>\nab", false, &ids);
    assert_int_equal(ids.n, 7);
    assert_memory_equal(ids.ids, without, sizeof without);
    assert_int_equal(ids.unknown, 6);
    char missing[64] = "";
    ids.missing = note;
    ids.context = missing;
    encode(tokenizer, "b<s> <s> <s>\nab", false, &ids); /* the words are remembered */
    assert_string_equal(missing, "b|<s>|<s>|<s|>|\n|");
    token_ids_free(&ids);
    tokenizer_close(tokenizer);
}

TEST(a_newline_belongs_to_the_word_before_it) {
    Tokenizer *tokenizer = open_checked(write_files(good_vocab, good_codes));
    static const struct {
        const char *text;
        int32_t ids[4];
        int n;
    } cases[] = {
        {"ab", {6}, 1},       {"ab\n", {5, 3, 3}, 3}, {"\nab", {6}, 1},           {"ab \n b", {6, 7}, 2},
        {"b\n\n", {3, 3}, 2}, {"ab\r\n", {6}, 1},     {"ab\034\037b", {6, 7}, 2}, {"ab\377b", {5, 3, 3, 7}, 4}};
    TokenIds ids = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        encode(tokenizer, cases[i].text, true, &ids);
        assert_int_equal(ids.n, cases[i].n);
        assert_memory_equal(ids.ids, cases[i].ids, (size_t)cases[i].n * sizeof *ids.ids);
    }
    token_ids_free(&ids);
    tokenizer_close(tokenizer);
}

TEST(threads_share_an_open_tokenizer) {
    enum { THREADS = 4 };
    const json_t *entry = learned(), *texts = json_object_get(entry, "texts");
    Tokenizer *tokenizer = open_entry(entry);
    int wrong = 0;
#pragma omp parallel for num_threads(THREADS) schedule(static) reduction(+ : wrong)
    for (int thread = 0; thread < THREADS; thread++) {
        TokenIds ids = {0};
        for (size_t i = 0; i < 20 * json_array_size(texts); i++) {
            const size_t k = (i + (size_t)thread) % json_array_size(texts);
            encode(tokenizer, json_string_value(json_array_get(texts, k)), true, &ids);
            wrong += !ids_are(&ids, json_array_get(json_object_get(entry, "ids"), k));
        }
        token_ids_free(&ids);
    }
    assert_int_equal(wrong, 0);
    tokenizer_close(tokenizer);
}

/* A quadratic algorithm would need minutes. */
TEST(a_very_long_word_is_encoded) {
    enum { PAIRS = 300000 };
    Tokenizer *tokenizer = open_checked(write_files("ab@@ 2\nab 1\n", "a b 2\na b</w> 1\n"));
    char *text = xmalloc(2 * PAIRS + 1);
    for (int i = 0; i < PAIRS; i++) memcpy(text + 2 * i, "ab", 3);
    TokenIds ids = {0};
    encode(tokenizer, text, false, &ids);
    assert_int_equal(ids.n, PAIRS);
    assert_int_equal(ids.ids[0], 4);
    assert_int_equal(ids.ids[PAIRS - 1], 5);
    token_ids_free(&ids);
    free(text);
    tokenizer_close(tokenizer);
}

TEST(both_files_are_found_by_either_and_by_their_folder) {
    const char *folder = write_files(good_vocab, good_codes);
    char *vocab = kept_path(folder, "vocab.txt"), *codes = kept_path(folder, "bpe.codes"),
         *other = kept_path(folder, "tokenizer.json");
    const char *const paths[] = {folder, vocab, codes}, *files[3];
    write_text(other, "of another library");
    uint64_t hash = 0;
    for (int i = 0; i < 3; i++) {
        Tokenizer *tokenizer = open_checked(paths[i]);
        assert_int_equal(tokenizer_files(tokenizer, files), 2);
        assert_string_equal(files[0], vocab);
        assert_string_equal(files[1], codes);
        assert_string_equal(tokenizer_file(tokenizer), vocab);
        if (i) assert_true(tokenizer_hash(tokenizer) == hash);
        hash = tokenizer_hash(tokenizer);
        tokenizer_close(tokenizer);
    }
    Error error = {""};
    assert_null(tokenizer_open(write_files(NULL, good_codes), &error));
    assert_contains(error.text, "vocab.txt: ");
    write_files(good_vocab, NULL);
    assert_null(tokenizer_open(vocab, &error));
    assert_contains(error.text, "bpe.codes: ");
}

TEST(the_hash_is_of_what_decides_the_ids) {
    static const char *const files[][2] = {{good_vocab, good_codes},
                                           {", 5\na@@ 8\nab 7\nb 1\n", "a b</w> 4\n"}, /* other counts: the same ids */
                                           {"a@@ 9\n, 8\nab 7\nb 6\n", good_codes},
                                           {", 9\na@@ 8\nab 7\nb 6\nc 5\n", good_codes},
                                           {", 9\na@@ 8\nab 7\nab@@ 6\n", "a b</w> 7\na b 1\n"},
                                           {", 9\na@@ 8\nab 7\nab@@ 6\n", "a b 1\na b</w> 7\n"}};
    uint64_t hashes[6];
    for (int i = 0; i < 6; i++) {
        Tokenizer *tokenizer = open_checked(write_files(files[i][0], files[i][1]));
        hashes[i] = tokenizer_hash(tokenizer);
        tokenizer_close(tokenizer);
        for (int k = 0; k < i; k++) assert_int_equal(hashes[i] == hashes[k], i == 1);
    }
}

TEST(wrong_lines_are_named) {
    static const struct {
        const char *vocab, *codes, *message;
    } cases[] = {
        {"", good_codes, "vocab.txt is empty"},
        {good_vocab, "", "bpe.codes is empty"},
        {", 9\na@@ 8", good_codes, "vocab.txt, line 2: has no end of line, so the file is cut short"},
        {good_vocab, "a b</w>", "bpe.codes, line 1: has no end of line"},
        {", 9\na@@\n", good_codes, "vocab.txt, line 2: expected \"PIECE COUNT\", found \"a@@\""},
        {", 9\n\n", good_codes, "vocab.txt, line 2: expected"},
        {", 9\n 8\n", good_codes, "vocab.txt, line 2: expected"},
        {", 9\na 8.5\n", good_codes, "vocab.txt, line 2: expected"},
        {", 9\na 8 \n", good_codes, "vocab.txt, line 2: expected"},
        {", 9\na  8\n", good_codes, "vocab.txt, line 2: expected"},
        {", 9\na b 8\n", good_codes, "vocab.txt, line 2: expected"},
        {", 9\n\u00a0a 8\n", good_codes, "vocab.txt, line 2: expected"},
        {", 9\n\xff 8\n", good_codes, "vocab.txt, line 2: holds a zero byte, a carriage return, or a byte that is not"},
        {", 9\n\r, 8\n", good_codes, "vocab.txt, line 2: holds a zero byte, a carriage return"},
        {", 9\na 8\n, 7\n", good_codes, "vocab.txt, line 3: \",\" is there twice"},
        {", 9\n<mask> 8\n", good_codes, "vocab.txt, line 2: <mask> is a special token"},
        {good_vocab, "#version: 0.2\na b</w>\n", "bpe.codes, line 1: expected \"LEFT RIGHT COUNT\""},
        {good_vocab, "a b</w> 7\na b\n", "bpe.codes, line 2: expected \"LEFT RIGHT COUNT\", found \"a b\""},
        {good_vocab, "a b</w> 7\na b c 7\n", "bpe.codes, line 2: expected"},
        {good_vocab, "a b</w> 7\n b 7\n", "bpe.codes, line 2: expected"},
        {good_vocab, "a b</w> 7\na  7\n", "bpe.codes, line 2: expected"},
        {good_vocab, "a b</w> 7\nbb b 7\n", "bpe.codes, line 2: \"bb\" is made by no earlier line"},
        {good_vocab, "a b</w> 7\nb </w> 7\n", "bpe.codes, line 2: \"</w>\" is made by no earlier line"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Error error = {""};
        assert_null(tokenizer_open(write_files(cases[i].vocab, cases[i].codes), &error));
        assert_contains(error.text, cases[i].message);
    }
}

TEST(files_that_do_not_belong_together_are_refused) {
    static const struct {
        const char *vocab, *codes, *message;
    } cases[] = {
        {", 9\na@@ 8\nab 7\nbc 6\n", good_codes, "vocab.txt, line 4: no line of bpe.codes makes \"bc\""},
        {", 9\na@@ 8\nab 7\nab@@ 6\n", good_codes, "vocab.txt, line 4: no line of bpe.codes makes \"ab@@\""},
        {", 9\na@@ 8\n", good_codes, "bpe.codes, line 1: makes \"ab</w>\", which is no piece of vocab.txt"},
        {good_vocab, "a b</w> 7\nb b 3\na a 2\n", "bpe.codes, line 2: makes \"bb\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Error error = {""};
        assert_null(tokenizer_open(write_files(cases[i].vocab, cases[i].codes), &error));
        assert_contains(error.text, cases[i].message);
    }
}

/* Learned files, cut at the end of any line, are refused, but for lines that nothing depends on. */
TEST(files_that_are_cut_short_are_refused) {
    const char *const texts[2] = {text_of(learned(), "vocab"), text_of(learned(), "codes")};
    for (int file = 0; file < 2; file++) {
        int opened = 0, cuts = 0;
        for (const char *at = texts[file]; at[1]; at++) {
            if (*at != '\n') continue;
            char *cut = kept_format("%.*s", (int)(at - texts[file]) + 1, texts[file]);
            Tokenizer *tokenizer = tokenizer_open(write_files(file ? texts[0] : cut, file ? cut : texts[1]), NULL);
            opened += tokenizer != NULL;
            cuts++;
            tokenizer_close(tokenizer);
        }
        assert_true(cuts > 50);
        assert_true(opened * 10 < cuts);
    }
}

TEST(lines_may_end_as_on_windows) {
    Tokenizer *a = open_checked(write_files(good_vocab, good_codes)),
              *b = open_checked(write_files(", 9\r\na@@ 8\r\nab 7\r\nb 6\r\n", "a b</w> 7\r\n"));
    assert_true(tokenizer_hash(a) == tokenizer_hash(b));
    tokenizer_close(a);
    tokenizer_close(b);
}
