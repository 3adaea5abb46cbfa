/* Names that look the same: one normal form, one key, one spelling. */
#include "data/text/label.h"
#include "tests/test.h"

static void check(char *(*function)(const char *), const char *name, const char *want) {
    char *got = function(name);
    assert_string_equal(got, want);
    free(got);
}

TEST(what_looks_the_same_has_one_normal_form) {
    check(label_normal, "ha\u0300i lo\u0300ng", "h\u00e0i l\u00f2ng");
    check(label_normal, " \t\u00a0a\u00a0b \u3000\n", "a b");
    check(label_normal, "a  b", "a  b");
    check(label_normal, "0.0", "0.0");
    check(label_normal, "TRUE", "TRUE");
    check(label_normal, " \u00a0", "");
    check(label_normal, "", "");
    check(label_normal, " \xff ", "\xff"); /* the name of a folder may be no UTF-8 */
}

TEST(numbers_and_case_have_one_key) {
    static const char *const same[][2] = {{"0", "0.0"},     {"1", "1.000"},         {"1", "01"},
                                          {"-1", "-1.0"},   {"0", "-0.0"},          {"10", "10."},
                                          {"True", "TRUE"}, {"A\u0110", "a\u0111"}, {"x y", "X Y"}};
    static const char *const others[][2] = {{"0", "0.5"},         {"1", "-1"},  {"1", "10"},     {"1.1", "1.10"},
                                            {"Ma\u00df", "Mass"}, {"1", "1a"},  {"a", "\u00e1"}, {"-", "0"},
                                            {"1e2", "100"},       {"x y", "xy"}};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        char *a = keep(label_key(same[i][0])), *b = keep(label_key(same[i][1]));
        assert_string_equal(a, b);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char *a = keep(label_key(others[i][0])), *b = keep(label_key(others[i][1]));
        if (!strcmp(a, b)) fail_msg("%s and %s have the key %s", others[i][0], others[i][1], a);
    }
    assert_string_equal(label_difference("0", "0.0"), "are the same number");
    assert_string_equal(label_difference("True", "TRUE"), "differ in case only");
}

TEST(names_that_are_alike_are_found) {
    static const char *const names[] = {"b", "a", "b", "A", "c"};
    int64_t earlier, later;
    assert_true(labels_find_alike(names, 5, &earlier, &later));
    assert_int_equal(earlier, 1);
    assert_int_equal(later, 3);
    assert_false(labels_find_alike(names, 3, &earlier, &later)); /* the same name is no other */
    assert_false(labels_find_alike(names, 0, &earlier, &later));
}

TEST(the_first_spelling_counts) {
    static const char *const given[] = {"lo\u0300ng ", "x", "l\u00f2ng", "lo\u0300ng ", "X"};
    static const char *const want[] = {"lo\u0300ng ", "x", "lo\u0300ng ", "lo\u0300ng ", "X"};
    char *names[5], **places[5];
    for (int i = 0; i < 5; i++) {
        names[i] = xstrdup(given[i]);
        places[i] = &names[i];
    }
    assert_int_equal(labels_unify(places, 5), 1);
    for (int i = 0; i < 5; i++) {
        assert_string_equal(names[i], want[i]);
        free(names[i]);
    }
}

TEST(names_that_no_report_can_show_are_refused) {
    Error error;
    char *longest = xmalloc(258);
    memset(longest, 'x', 257);
    longest[256] = 0;
    assert_true(label_check("", &error) && label_check("th\u00f4 t\u1ee5c, \u00a0 \U0001F600", &error));
    assert_true(label_check(longest, &error));
    longest[256] = 'x', longest[257] = 0;
    assert_false(label_check(longest, &error));
    assert_contains(error.text, "has 257 bytes; expected at most 256");
    free(longest);
    static const struct {
        const char *name, *character;
    } refused[] = {{"a\x1b[31m", "U+001B"},
                   {"a\nb", "U+000A"},
                   {"\x7f", "U+007F"},
                   {"\xc2\x9b", "U+009B"},
                   {"a\xe2\x80\xae", "U+202E"}};
    for (int i = 0; i < 4; i++) {
        assert_false(label_check(refused[i].name, &error));
        assert_contains(error.text, refused[i].character);
    }
}
