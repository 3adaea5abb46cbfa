/* Hashes, JSON, words for a shell, error messages. */
#include "base/json.h"
#include "tests/test.h"

/* Compares with the test vectors that the authors of FNV publish. */
TEST(hashes_are_fnv1a) {
    assert_true(hash_bytes(HASH_START, "", 0) == 0xcbf29ce484222325u);
    assert_true(hash_bytes(HASH_START, "a", 1) == 0xaf63dc4c8601ec8cu);
    assert_true(hash_bytes(HASH_START, "foobar", 6) == 0x85944171f73967e8u);
    assert_true(hash_bytes(hash_bytes(HASH_START, "foo", 3), "bar", 3) == 0x85944171f73967e8u);
}

static void build_infinity(void *unused) {
    (void)unused;
    json_build("the note", "{s:f}", "power", INFINITY);
}

static void build_latin(void *unused) {
    (void)unused;
    json_build("the note", "{s:s}", "name", "caf\xe9");
}

static void text_of_nothing(void *unused) {
    (void)unused;
    json_text("note.json", NULL, 0);
}

TEST(json_that_cannot_be_written_ends_the_program_and_is_named) {
    char said[400];
    assert_int_equal(run_function(said, sizeof said, build_infinity, NULL), 1);
    assert_contains(said, "the note cannot be written as JSON: ");
    assert_int_equal(run_function(said, sizeof said, build_latin, NULL), 1);
    assert_contains(said, "the note cannot be written as JSON: ");
    assert_int_equal(run_function(said, sizeof said, text_of_nothing, NULL), 1);
    assert_contains(said, "note.json cannot be written as JSON: ");
    json_t *none = real_or_null(NAN), *some = real_or_null(2);
    assert_true(json_is_null(none) && json_number_value(some) == 2);
    json_decref(none);
    json_decref(some);
}

TEST(json_errors_name_line_and_column) {
    char *directory = kept_folder(), *path = kept_path(directory, "a.json");
    Error error;
    write_text(path, "{\n \"a\": 1,\n \"b\" 2}");
    assert_null(json_read(path, 0, &error));
    assert_contains(error.text, "line 3, column ");
    assert_null(json_read("/nowhere/a.json", 0, &error));
    assert_contains(error.text, "cannot open: No such file");
}

TEST(a_shell_reads_quoted_words_unchanged) {
    static const char *const words[] = {"plain", "two words", "it's",        "a\\b \"$HOME\" `x`; #&*?[~",
                                        "",      "-x",        "\xe1\x88\xb0"};
    char got[256];
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        assert_int_equal(run_command(got, sizeof got, "printf %%s %s", keep(shell_word(words[i]))), 0);
        assert_string_equal(got, words[i]);
    }
    char *nasty = keep(shell_word("a\n\x1b[31m'\\")), *option = keep(shell_path("-rf it")),
         *plain = keep(shell_word("a/b-c_1.jsonl"));
    assert_string_equal(nasty, "$'a\\x0a\\x1b[31m\\'\\\\'");
    assert_string_equal(option, "'./-rf it'");
    assert_string_equal(plain, "a/b-c_1.jsonl");
}

TEST(a_long_path_does_not_cut_off_the_reason) {
    char path[4096];
    Error error;
    for (size_t i = 0; i + 3 < sizeof path; i += 3) memcpy(path + i, "\xe1\x88\xb0", 4);
    memcpy(path, "/begin", 6);
    assert_false(error_set(&error, "%s: line %d: %s", path, 12, "cannot be understood"));
    assert_memory_equal(error.text, "/begin", 6);
    assert_contains(error.text, "\xe1\x88\xb0 ... \xe1\x88\xb0"); /* whole characters */
    assert_true(ends_with(error.text, "\xb0: line 12: cannot be understood"));
    assert_true(strlen(error.text) > sizeof error.text - 10);
}

TEST(the_last_number_at_most_a_value_is_found) {
    const int64_t sorted[] = {0, 3, 3, 7, 7, 12};
    for (int64_t value = 0; value < 15; value++) {
        int64_t want = 5;
        while (sorted[want] > value) want--;
        assert_int_equal(last_at_most(sorted, 6, value), want);
    }
    assert_int_equal(last_at_most(sorted, 1, 9), 0);
}

static void warn_in_child(void *unused) {
    (void)unused;
    for (int i = 0; i < 6; i++) warn_once("sensor %d is odd", i % 2);
    exit(0);
}

TEST(a_warning_may_be_told_once) {
    char output[1024];
    assert_int_equal(run_function(output, sizeof output, warn_in_child, NULL), 0);
    assert_string_equal(output, "test_base: warning: sensor 0 is odd\ntest_base: warning: sensor 1 is odd\n");
}
