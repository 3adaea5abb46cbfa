/* From texts to ids: normalisation, cut, counts, and the report on them. */
#include <jansson.h>

#include "data/bert/data_report.h"
#include "tests/bert/texts_rig.h"
#include "tests/documented.h"

static TokenizedTexts tokenized(const char *const *texts, int64_t n, const TextRules *rules) {
    TokenizedTexts t;
    Error error = {""};
    if (!texts_tokenize(texts, n, rules, &t, &error)) fail_msg("%s", error.text);
    return t;
}

static TextRules rules_of(const Tokenizer *tokenizer) {
    return (TextRules){.tokenizer = tokenizer, .nfc = true, .max_len = 6, .n_threads = 1};
}

static void check_ids(const TokenizedTexts *t, int64_t i, const int32_t *want, int n) {
    assert_int_equal(t->first[i + 1] - t->first[i], n);
    assert_memory_equal(t->ids + t->first[i], want, (size_t)n * sizeof *want);
}
#define CHECK_IDS(t, i, ...)                                                                                           \
    check_ids(t, i, (const int32_t[]){__VA_ARGS__}, sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

TEST(texts_are_cut_and_what_was_lost_is_counted) {
    Tokenizer *tokenizer = letters_open();
    TextRules rules = rules_of(tokenizer);
    const char *texts[] = {"abc", "a b\nc d", "abcde!f", "", " \n", "!?\xE1\xBB\x87", "zzzzzzz"};
    TokenizedTexts t = tokenized(texts, 7, &rules);
    assert_int_equal(t.n, 7);
    CHECK_IDS(&t, 0, ID_BEGIN, ID_A, ID_A + 1, ID_A + 2, ID_END);
    CHECK_IDS(&t, 1, ID_BEGIN, ID_A, ID_A + 1, ID_A + 2, ID_A + 3, ID_END);
    CHECK_IDS(&t, 2, ID_BEGIN, ID_A, ID_A + 1, ID_A + 2, ID_A + 3, ID_END);
    CHECK_IDS(&t, 3, ID_BEGIN, ID_END);
    CHECK_IDS(&t, 4, ID_BEGIN, ID_END);
    CHECK_IDS(&t, 5, ID_BEGIN, ID_UNKNOWN, ID_UNKNOWN, ID_E_HAT_DOT, ID_END);
    CHECK_IDS(&t, 6, ID_BEGIN, ID_Z, ID_Z, ID_Z, ID_Z, ID_END);
    assert_int_equal(t.truncated, 2);
    assert_int_equal(t.cut, 3 + 3);
    assert_int_equal(t.unknown, 2); /* the third was cut */
    assert_int_equal(t.empty, 2);
    uint8_t used[ID_VOCABULARY] = {0};
    texts_mark_used(&t, used);
    static const int unused[] = {ID_PAD, ID_A + 4, ID_A + 24, ID_MASK};
    for (int i = 0; i < 4; i++) assert_int_equal(used[unused[i]], 0);
    for (int64_t i = 0; i < t.first[t.n]; i++) assert_int_equal(used[t.ids[i]], 1);
    TokenizedTexts some = texts_select(&t, (const int32_t[]){5, 0, 3}, 3, ID_UNKNOWN);
    assert_int_equal(some.n, 3);
    CHECK_IDS(&some, 0, ID_BEGIN, ID_UNKNOWN, ID_UNKNOWN, ID_E_HAT_DOT, ID_END);
    CHECK_IDS(&some, 2, ID_BEGIN, ID_END);
    assert_int_equal(some.unknown, 2);
    assert_int_equal(some.empty, 1);
    Error error = {""};
    rules.max_len = 2;
    TokenizedTexts none;
    assert_false(texts_tokenize(texts, 7, &rules, &none, &error));
    texts_free(&some);
    texts_free(&t);
    tokenizer_close(tokenizer);
}

/* Opens a tokenizer of the fastBPE kind, whose only syllable is "ba". */
static Tokenizer *syllables_open(void) {
    char *folder = kept_folder(), *vocabulary = kept_path(folder, "vocab.txt"), *codes = kept_path(folder, "bpe.codes");
    write_text(vocabulary, "ba 9\nba@@ 8\n");
    write_text(codes, "b a</w> 9\nb a 8\n");
    Error error = {""};
    Tokenizer *tokenizer = tokenizer_open(folder, &error);
    if (!tokenizer) fail_msg("%s", error.text);
    return tokenizer;
}

TEST(long_texts_are_divided_between_words) {
    enum { WORD = 4, PART };
    Tokenizer *tokenizer = syllables_open();
    TextRules rules = {.tokenizer = tokenizer, .nfc = true, .max_len = 5, .divide = true, .n_threads = 1};
    const char *texts[] = {"ba bababa ba", "bababababa", "", "ba ba ba", "ba ba x ba"};
    TokenizedTexts t = tokenized(texts, 5, &rules);
    assert_int_equal(t.n, 3 + 2 + 1 + 1 + 2);
    CHECK_IDS(&t, 0, ID_BEGIN, WORD, ID_END); /* the next word does not fit */
    CHECK_IDS(&t, 1, ID_BEGIN, PART, PART, WORD, ID_END);
    CHECK_IDS(&t, 2, ID_BEGIN, WORD, ID_END);
    CHECK_IDS(&t, 3, ID_BEGIN, PART, PART, PART, ID_END); /* longer than any text may be */
    CHECK_IDS(&t, 4, ID_BEGIN, PART, WORD, ID_END);
    CHECK_IDS(&t, 5, ID_BEGIN, ID_END);
    CHECK_IDS(&t, 6, ID_BEGIN, WORD, WORD, WORD, ID_END);
    CHECK_IDS(&t, 7, ID_BEGIN, WORD, WORD, ID_UNKNOWN, ID_END);
    CHECK_IDS(&t, 8, ID_BEGIN, WORD, ID_END);
    assert_int_equal(t.divided, 3);
    assert_int_equal(t.truncated, 0);
    assert_int_equal(t.cut, 0);
    assert_int_equal(t.unknown, 1);
    assert_int_equal(t.empty, 1);
    json_t *json = json_object();
    bert_data_report(json, &(BertReportSplit){"train", 5, texts, &t, NULL}, 1, &(Classes){0}, 4, 1);
    const json_t *split = json_object_get(json_object_get(json, "splits"), "train");
    assert_int_equal(json_integer_value(json_object_get(split, "divided")), 3);
    assert_int_equal(json_integer_value(json_object_get(split, "texts")), 9);
    assert_keys_documented(split, "## Texts with labels");
    json_decref(json);
    texts_free(&t);
    tokenizer_close(tokenizer);
}

TEST(normal_form_and_special_tokens_follow_the_rules) {
    Tokenizer *tokenizer = letters_open();
    const char *texts[] = {"e\xCC\xA3\xCC\x82", "a<mask>"};
    TextRules rules = rules_of(tokenizer);
    rules.max_len = 20;
    TokenizedTexts t = tokenized(texts, 2, &rules);
    CHECK_IDS(&t, 0, ID_BEGIN, ID_E_HAT_DOT, ID_END);
    CHECK_IDS(&t, 1, ID_BEGIN, ID_A, ID_UNKNOWN, ID_A + 12, ID_A, ID_A + 18, ID_A + 10, ID_UNKNOWN, ID_END);
    texts_free(&t);
    rules.nfc = false;
    rules.compat = true;
    t = tokenized(texts, 2, &rules);
    CHECK_IDS(&t, 0, ID_BEGIN, ID_A + 4, ID_UNKNOWN, ID_UNKNOWN, ID_END);
    CHECK_IDS(&t, 1, ID_BEGIN, ID_A, ID_MASK, ID_END);
    texts_free(&t);
    SpecialIds s;
    Error error;
    assert_true(texts_specials(tokenizer, &s, &error));
    assert_memory_equal(&s, (&(SpecialIds){ID_BEGIN, ID_END, ID_PAD, ID_MASK, ID_UNKNOWN}), sizeof s);
    tokenizer_close(tokenizer);
}

TEST(words_are_segmented_sentence_by_sentence) {
    Error error = {""};
    char *folder = segmenter_folder("ab cd");
    Segmenter *segmenter = segmenter_open(folder, &error);
    if (!segmenter) fail_msg("%s", error.text);
    TextRules rules = {.segmenter = segmenter, .nfc = true};
    static const char *const texts[][2] = {{"  ab\ncd ", "ab_cd"}, {"x ab cd. Ab ab", "x ab_cd . Ab ab"}, {"", ""}};
    for (int compat = 0; compat < 2; compat++)
        for (int i = 0; i < 3; i++) {
            size_t size;
            rules.compat = compat;
            char *prepared = keep(texts_prepare(&rules, texts[i][0], &size));
            assert_string_equal(prepared, texts[i][1]);
            assert_int_equal(size, strlen(prepared));
        }
    segmenter_close(segmenter);
}

/* Tokenizes with one thread and with more. */
static void check_threads(const char *const *texts, int64_t n, TextRules *rules) {
    rules->n_threads = 1;
    TokenizedTexts one = tokenized(texts, n, rules);
    for (rules->n_threads = 2; rules->n_threads < 6; rules->n_threads++) {
        TokenizedTexts more = tokenized(texts, n, rules);
        assert_int_equal(one.n, more.n);
        assert_memory_equal(one.first, more.first, (size_t)(one.n + 1) * sizeof *one.first);
        assert_memory_equal(one.ids, more.ids, (size_t)one.first[one.n] * sizeof *one.ids);
        assert_int_equal(one.divided, more.divided);
        assert_int_equal(one.cut, more.cut);
        assert_int_equal(one.truncated, more.truncated);
        assert_int_equal(one.unknown, more.unknown);
        assert_int_equal(one.empty, more.empty);
        texts_free(&more);
    }
    assert_true(one.empty == n / 20 && one.unknown > 0 && one.cut + one.divided > 0);
    texts_free(&one);
}

TEST(threads_do_not_change_the_ids) {
    enum { N = 1500 };
    Tokenizer *tokenizer = letters_open();
    TextRules rules = rules_of(tokenizer);
    char texts[N][24];
    const char *list[N];
    for (int i = 0; i < N; i++) {
        snprintf(texts[i], sizeof texts[i], "%.*s", i * 7 % 20, "a! cdefg!hij klm? nopq rst");
        list[i] = texts[i];
    }
    check_threads(list, N, &rules);
    rules.divide = true;
    check_threads(list, N, &rules);
    tokenizer_close(tokenizer);
}

TEST(white_space_is_that_of_python) {
    static const char *const pairs[][2] = {{" a  b\t\nc\x1c", "a b c"},
                                           {"\xC2\xA0\xE3\x80\x80x\xE2\x80\x89y", "x y"},
                                           {"a\xE2\x80\x8B z", "a\xE2\x80\x8B z"}, /* U+200B is none */
                                           {"A\xCC\x8A", "\xC3\x85"},
                                           {"\n", ""},
                                           {"", ""}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        size_t size;
        char *normal = keep(texts_normal(pairs[i][0], &size));
        assert_string_equal(normal, pairs[i][1]);
        assert_int_equal(size, strlen(normal));
    }
    const char *texts[] = {"a b", "x", "a\n b ", "\xC3\x85", "A\xCC\x8A", "X"};
    int32_t groups[6];
    texts_groups(texts, 6, groups);
    assert_memory_equal(groups, ((int32_t[]){0, 1, 0, 3, 3, 5}), sizeof groups);
}

/* Writes a segmenter that knows two words and has a rule that joins nothing; returns its folder. */
static const char *write_segmenter(void) {
    static const char vocabulary[] =
        "\xAC\xED\0\5\x73\x72\0\x11java.util.HashSet\xBA\x44\x85\x95\x96\xB8\xB7\x34\3\0\0\x78\x70\x77\x0C"
        "\0\0\0\x10\x3F\x40\0\0\0\0\0\2\x74\0\4xa b\x74\0\3c d\x78";
    char *folder = kept_folder(), *words = kept_path(folder, "VnVocab"), *rules = kept_path(folder, "Model.RDR");
    write_bytes(words, vocabulary, sizeof vocabulary - 1);
    write_text(rules, "True : object.conclusion = \"NN\"\n\tobject.tag == \"I\" : object.conclusion = \"I\"\n"
                      "\tobject.tag == \"B\" : object.conclusion = \"B\"\n");
    return folder;
}

TEST(words_are_joined_before_they_are_tokenized) {
    Error error = {""};
    Tokenizer *tokenizer = letters_open();
    Segmenter *segmenter = segmenter_open(write_segmenter(), &error);
    if (!segmenter) fail_msg("%s", error.text);
    TextRules rules = rules_of(tokenizer);
    rules.max_len = 20;
    rules.segmenter = segmenter;
    for (int compat = 0; compat < 2; compat++) { /* a line end does not reach the segmenter */
        rules.nfc = !(rules.compat = compat);
        const char *texts[] = {"c\nd e", " ", "e . c d"};
        TokenizedTexts t = tokenized(texts, 3, &rules);
        CHECK_IDS(&t, 0, ID_BEGIN, ID_A + 2, ID_UNKNOWN, ID_A + 3, ID_A + 4, ID_END); /* c_d e */
        CHECK_IDS(&t, 1, ID_BEGIN, ID_END);
        CHECK_IDS(&t, 2, ID_BEGIN, ID_A + 4, ID_UNKNOWN, ID_A + 2, ID_UNKNOWN, ID_A + 3, ID_END);
        texts_free(&t);
    }
    segmenter_close(segmenter);
    tokenizer_close(tokenizer);
}

/* ---- the report ---- */

static int64_t number(const json_t *json, const char *path) {
    char *parts = keep(xstrdup(path));
    for (char *key = strtok(parts, "/"); key; key = strtok(NULL, "/")) {
        json = json_is_array(json) ? json_array_get(json, (size_t)atoi(key)) : json_object_get(json, key);
        if (!json) fail_msg("%s: no %s", path, key);
    }
    return json_integer_value(json);
}

TEST(the_report_counts_copies_leaks_and_padding) {
    Tokenizer *tokenizer = letters_open();
    TextRules rules = rules_of(tokenizer);
    rules.max_len = 20;
    /* With begin and end, 3, 12, 3, 10, 3 and 3 tokens. */
    const char *train[] = {"a", "abcdefghij", " a\n", "abcdefgh", "b", "b"};
    const char *test[] = {"b", "c!", "abcdefgh", "c!", "c!"};
    const int32_t train_labels[] = {0, 1, 1, 0, 1, 1}, test_labels[] = {1, 1, 1, 1, 0};
    TokenizedTexts a = tokenized(train, 6, &rules), b = tokenized(test, 5, &rules);
    Classes classes = classes_of((const char *const[]){"clean", "rude"}, 2);
    const BertReportSplit splits[] = {{"train", 6, train, &a, train_labels}, {"test", 5, test, &b, test_labels}};
    json_t *json = json_object();
    assert_int_equal(bert_data_report(json, splits, 2, &classes, 100, 1), 4);
    assert_int_equal(number(json, "splits/train/texts"), 6);
    assert_int_equal(number(json, "splits/train/tokens"), 34);
    assert_int_equal(number(json, "splits/train/longest"), 12);
    assert_int_equal(number(json, "splits/train/histogram/0/1"), 4); /* up to 4 tokens */
    assert_int_equal(number(json, "splits/train/histogram/1/1"), 0);
    assert_int_equal(number(json, "splits/train/histogram/2/1"), 2);
    assert_int_equal(number(json, "splits/train/labels/clean"), 2);
    assert_int_equal(number(json, "splits/train/labels/rude"), 4);
    assert_int_equal(number(json, "splits/train/padding/rows"), 6 * 16);
    assert_near(json_real_value(json_object_get(
                    json_object_get(json_object_get(json_object_get(json, "splits"), "train"), "padding"), "avoided")),
                1 - 34.0 / 96, 1e-12);
    assert_int_equal(number(json, "splits/train/duplicates/texts"), 2);
    assert_int_equal(number(json, "splits/train/duplicates/other_label"), 1);
    assert_int_equal(number(json, "splits/test/duplicates/texts"), 2);
    assert_int_equal(number(json, "splits/test/duplicates/other_label"), 1);
    assert_int_equal(number(json, "splits/test/unknown"), 3);
    assert_int_equal(number(json, "splits/test/pieces"), 1 + 2 + 8 + 2 + 2);
    assert_int_equal(number(json, "leaks/test in train/texts"), 2);
    assert_int_equal(number(json, "leaks/test in train/other_label"), 1);
    const json_t *of_train = json_object_get(json_object_get(json, "splits"), "train");
    assert_keys_documented(of_train, "## Texts with labels");
    assert_keys_documented(json_object_get(of_train, "padding"), "## Texts with labels");
    assert_keys_documented(json_object_get(of_train, "duplicates"), "## Texts with labels");
    json_decref(json);
    json = json_object();
    bert_data_report(json, splits, 1, &classes, 1, 1); /* a batch for each text */
    assert_int_equal(number(json, "splits/train/padding/rows"), 4 * 8 + 2 * 16);
    json_decref(json);
    classes_free(&classes);
    texts_free(&a);
    texts_free(&b);
    tokenizer_close(tokenizer);
}
