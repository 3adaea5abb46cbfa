/* The Vietnamese word segmenter: what the program in Java makes of lines with a small model, tokens without end, and
 * damaged files of a model. */
#include <jansson.h>

#include "data/segment/segmenter.h"
#include "tests/segmenter_files.h"
#include "tests/test.h"

/* ---- the model of tests/reference/make_segmenter.py ---- */

static json_t *golden;
static const char *folder;
static char *rules, *vocabulary;
static size_t vocabulary_size;
static Segmenter *segmenter;

static Segmenter *open_files(const char *rules_text, size_t rules_size, const char *words, size_t words_size,
                             Error *error) {
    char *path = kept_path(folder, "Model.RDR");
    write_bytes(path, rules_text, rules_size);
    path = kept_path(folder, "VnVocab");
    write_bytes(path, words, words_size);
    return segmenter_open(folder, error);
}

static int open_model(void **state) {
    (void)state;
    json_error_t error;
    Error why;
    const char *words[64];
    golden = json_load_file("tests/reference/golden/segmenter.json", JSON_ALLOW_NUL, &error);
    if (!golden) fail_msg("line %d: %s", error.line, error.text);
    const json_t *list = json_object_get(golden, "vocabulary");
    const int n = (int)json_array_size(list);
    for (int i = 0; i < n; i++) words[i] = json_string_value(json_array_get(list, (size_t)i));
    vocabulary = segmenter_vocabulary(words, n, &vocabulary_size);
    rules = xstrdup(json_string_value(json_object_get(golden, "rules")));
    folder = run_directory();
    segmenter = open_files(rules, strlen(rules), vocabulary, vocabulary_size, &why);
    if (!segmenter) fail_msg("%s", why.text);
    return 0;
}

static int close_model(void **state) {
    (void)state;
    segmenter_close(segmenter);
    free(vocabulary);
    free(rules);
    json_decref(golden);
    return 0;
}

/* ---- texts ---- */

static void check(const json_t *text, const char *mode, char *got, size_t size, const json_t *want) {
    if (size != json_string_length(want) || memcmp(got, json_string_value(want), size + 1) != 0)
        fail_msg("%s of \"%s\": \"%s\", expected \"%s\"", mode, json_string_value(text), got, json_string_value(want));
    free(got);
}

TEST(every_mode_gives_what_the_program_in_java_gives) {
    static const char *const modes[] = {"line", "sentences", "tokenized"};
    size_t i, size;
    json_t *one;
    assert_true(json_array_size(json_object_get(golden, "cases")) > 200);
    json_array_foreach(json_object_get(golden, "cases"), i, one) {
        const json_t *text = json_object_get(one, "text");
        const char *line = json_string_value(text);
        const size_t n = json_string_length(text);
        for (int m = 0; m < 3; m++) {
            char *got = segmenter_run(segmenter, (SegmentMode)m, line, n, &size);
            check(text, modes[m], got, size, json_object_get(one, modes[m]));
        }
        char *got = segmenter_tokens(segmenter, line, n, &size);
        check(text, "tokens", got, size, json_object_get(one, "tokens"));
    }
}

static void assert_segments(const char *line, const char *want) {
    size_t size;
    assert_string_equal(keep(segmenter_run(segmenter, SEGMENT_LINE, line, strlen(line), &size)), want);
    assert_int_equal(size, strlen(want));
}

TEST(a_url_that_was_found_is_not_cut_again) {
    assert_segments("(34.org.)", "( 34.org. )"); /* the program in Java that made the golden lines is newer in this */
}

TEST(bytes_that_are_no_characters_stay) {
    assert_segments("h\xE1\xBB \xFF học sinh", "h\xE1\xBB \xFF học_sinh");
    assert_segments("\xED\xA0\x80,", "\xED\xA0\x80 ,");
}

TEST(spaces_of_a_line_end_separate_tokens) { assert_segments("học\r\nsinh\n", "học_sinh"); }

/* Returns how many bytes are no blank. */
static size_t count_signs(const char *text, size_t size) {
    size_t n = 0;
    for (size_t i = 0; i < size; i++) n += text[i] != ' ';
    return n;
}

/* A backtracking engine overflows its stack on some of these tokens, and needs minutes for others. */
TEST(tokens_without_end_are_cut) {
    enum { TIMES = 20000 };
    static const struct {
        const char *begin, *again, *end;
    } cases[] = {{"1", ".1", ""},       {"1", "+1", ""},     {"x@", "a.", "b"},  {"a", ".a", ""},
                 {"(", "a", ""},        {"a", "_", "a"},     {"", "(", ""},      {"a", ",", ""},
                 {"", "(", "\u0103"},   {"", "(", "A.com"},  {"", "-", "a.bcx"}, {"", "m2", "(@a"},
                 {"", "1/1/2000/", ""}, {"", "http://", ""}, {"", "www.", "("},  {"", "5g-A.", ""},
                 {"", "(", ".A.1b.vn"}, {"", "a@", ""},      {"", "12-", "1"},   {"", "-.", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const size_t begin = strlen(cases[i].begin), again = strlen(cases[i].again), end = strlen(cases[i].end);
        size_t n = begin + TIMES * again + end, size;
        char *text = xmalloc(n + 1), *at = stpcpy(text, cases[i].begin);
        for (int k = 0; k < TIMES; k++, at += again) memcpy(at, cases[i].again, again);
        memcpy(at, cases[i].end, end + 1);
        char *got = keep(segmenter_tokens(segmenter, text, n, &size));
        if (count_signs(got, size) != n) fail_msg("%s%s...%s", cases[i].begin, cases[i].again, cases[i].end);
        free(text);
    }
}

/* ---- files ---- */

static void assert_refused(const char *rules_text, size_t rules_size, const char *words, size_t words_size,
                           const char *file, const char *reason) {
    Error error = {""};
    Segmenter *opened = open_files(rules_text, rules_size, words, words_size, &error);
    if (opened) fail_msg("opened; expected: %s: %s", file, reason);
    assert_contains(error.text, file);
    assert_contains(error.text, reason);
}

static void assert_vocabulary_refused(const char *bytes, size_t size, const char *reason) {
    assert_refused(rules, strlen(rules), bytes, size, "/VnVocab: ", reason);
}

static void assert_rules_refused(const char *text, const char *reason) {
    assert_refused(text, strlen(text), vocabulary, vocabulary_size, "/Model.RDR: ", reason);
}

TEST(a_vocabulary_cut_short_anywhere_is_refused) {
    for (size_t size = 0; size < vocabulary_size; size++)
        assert_vocabulary_refused(vocabulary, size, size < SEGMENTER_WORDS_AT ? "cut short in its head" : "offset ");
    assert_vocabulary_refused(vocabulary, vocabulary_size - 1, "cut short behind its last string");
}

/* Refuses the vocabulary with other bytes at an offset. */
static void assert_change_refused(size_t at, const char *bytes, size_t n, const char *reason) {
    char *changed = memcpy(xmalloc(vocabulary_size), vocabulary, vocabulary_size);
    memcpy(changed + at, bytes, n);
    assert_vocabulary_refused(changed, vocabulary_size, reason);
    free(changed);
}

TEST(a_vocabulary_of_another_kind_is_refused) {
    char reason[32];
    for (size_t i = 0; i < 40; i++) {
        snprintf(reason, sizeof reason, "offset %zu: byte", i);
        assert_change_refused(i, (char[]){(char)(vocabulary[i] ^ 1)}, 1, reason);
    }
    assert_change_refused(40, "\xFF", 1, "offset 40: the capacity of the table is negative");
    assert_change_refused(44, "\0\0\0\0", 4, "offset 44: the load factor");
    assert_change_refused(44, "\x7F\xC0\0\0", 4, "offset 44: the load factor");
    assert_change_refused(48, "\xFF\xFF\xFF\xFF", 4, "offset 48: -1 strings");
    assert_change_refused(48, "\x7F\xFF\xFF\xFF", 4, "offset 48: 2147483647 strings do not fit");
    assert_change_refused(51, "\x0F", 1, "there are more than the 15 strings");
    assert_change_refused(51, "\x11", 1, "instead of 0x74, which begins a string");
    assert_change_refused(52, "\x71", 1, "offset 52: byte 0x71 instead of 0x74");
    assert_change_refused(53, "\xFF\xFF", 2, "offset 52: the file is cut short in string 1");
    assert_change_refused(55, "\0", 1, "offset 55: byte 0x00 in string 1");
    assert_change_refused(55, "\xF0\x9F\x98\x80", 4, "offset 55: byte 0xf0 in string 1");
    assert_change_refused(56, "\xED\xA0\x80", 3, "offset 56: byte 0xed in string 1");
}

TEST(a_vocabulary_with_a_word_twice_or_more_behind_it_is_refused) {
    size_t size;
    char *twice = keep(segmenter_vocabulary((const char *[]){"a b", "c d", "a b"}, 3, &size));
    assert_vocabulary_refused(twice, size, "offset 64: \"a b\" is there twice");
    char *longer = memcpy(xmalloc(vocabulary_size + 2), vocabulary, vocabulary_size);
    longer[vocabulary_size] = longer[vocabulary_size + 1] = 'x';
    assert_vocabulary_refused(longer, vocabulary_size + 2, "2 more bytes behind the end");
    free(longer);
}

/* Where a line ends, the rest of the rules is missing, which their format does not show. */
TEST(rules_cut_short_anywhere_but_at_a_line_end_are_refused) {
    int words;
    for (size_t size = 0, lines = 0; size < strlen(rules); size++) {
        lines += size && rules[size - 1] == '\n';
        if (size && rules[size - 1] == '\n' && lines > 1) {
            Error error;
            Segmenter *opened = open_files(rules, size, vocabulary, vocabulary_size, &error);
            if (!opened) fail_msg("%s", error.text);
            assert_int_equal(segmenter_size(opened, &words), lines - 1);
            segmenter_close(opened);
        } else {
            char line[32];
            snprintf(line, sizeof line, "line %zu: ", lines + 1);
            assert_refused(rules, size, vocabulary, vocabulary_size, line, "the file ends");
        }
    }
}

#define ROOT "True : object.conclusion = \"NN\"\n"

TEST(rules_of_another_form_are_refused) {
    static const char *const cases[][2] = {
        {"\tobject.tag == \"B\" : object.conclusion = \"B\"\n", "line 1: expected the root"},
        {ROOT "object.tag == \"B\" : object.conclusion = \"B\"\n", "line 2: 0 tabs; expected 1 to 1"},
        {ROOT "\n", "line 2: 0 tabs"},
        {ROOT
         "\tobject.tag == \"B\" : object.conclusion = \"B\"\n\t\t\tobject.tag == \"B\" : object.conclusion = \"B\"\n",
         "line 3: 3 tabs; expected 1 to 2"},
        {ROOT "\tobject.pos == \"B\" : object.conclusion = \"B\"\n", "line 2: unknown key \"pos\""},
        {ROOT "\tobject.tag\n", "line 2: unknown key \"tag\""},
        {ROOT "\ttag == \"B\" : object.conclusion = \"B\"\n", "line 2: expected object.KEY"},
        {ROOT "\tobject.tag != \"B\" : object.conclusion = \"B\"\n",
         "line 2: expected == \"VALUE\" behind the key tag"},
        {ROOT "\tobject.tag == \"C\" : object.conclusion = \"B\"\n", "line 2: tag \"C\"; expected B, I or nothing"},
        {ROOT "\tobject.word == \"a : object.conclusion = B\n",
         "line 2: the value of word has no closing quotation mark"},
        {ROOT "\tobject.word == \"a\" and object.word == \"b\" : object.conclusion = \"B\"\n",
         "line 2: the key word is there twice"},
        {ROOT "\tobject.tag == \"B\" or object.word == \"b\" : object.conclusion = \"B\"\n",
         "line 2: expected ` : object.conclusion"},
        {ROOT "\tobject.tag == \"B\" : object.conclusion = \"NN\"\n", "line 2: expected ` : object.conclusion"},
        {ROOT "\tobject.tag == \"B\" : object.conclusion = \"B\" \n", "line 2: expected ` : object.conclusion"},
        {ROOT "\tobject.word == \"\xFF\" : object.conclusion = \"B\"\n", "line 2: it is not UTF-8"},
        {ROOT, "line 2: the file ends without a rule"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) assert_rules_refused(cases[i][0], cases[i][1]);
}

TEST(a_missing_file_is_named) {
    Error error = {""};
    char *empty = kept_folder();
    assert_null(segmenter_open(empty, &error));
    assert_contains(error.text, "/Model.RDR: cannot open");
    write_text(kept_path(empty, "Model.RDR"), "%s", rules);
    assert_null(segmenter_open(empty, &error));
    assert_contains(error.text, "/VnVocab: cannot open");
}

TEST(the_hash_is_of_both_files) {
    Error error;
    size_t size;
    Segmenter *same = open_files(rules, strlen(rules), vocabulary, vocabulary_size, &error);
    assert_int_equal(segmenter_hash(same), segmenter_hash(segmenter));
    assert_false(segmenter_is_published(same));
    char *other = keep(segmenter_vocabulary((const char *[]){"a b"}, 1, &size));
    const char *last = memrchr(rules, '\n', strlen(rules) - 1);
    Segmenter *words = open_files(rules, strlen(rules), other, size, &error),
              *fewer = open_files(rules, (size_t)(last + 1 - rules), vocabulary, vocabulary_size, &error);
    assert_true(words && fewer);
    assert_true(segmenter_hash(words) != segmenter_hash(segmenter));
    assert_true(segmenter_hash(fewer) != segmenter_hash(segmenter));
    segmenter_close(same);
    segmenter_close(words);
    segmenter_close(fewer);
}

int main(void) { return tests_run(open_model, close_model); }
