/* Files of texts and labels: what is read from which line, and what is refused with which words. */
#include "data/bert/comments.h"

#include <unistd.h>

#include "tests/bert/texts_rig.h"

static const CommentColumns usual = {0};

static Comments read_checked(const char *path, const CommentColumns *columns, bool labels_needed) {
    Comments c;
    Error error = {""};
    if (!comments_read(path, columns, labels_needed, &c, &error)) fail_msg("%s", error.text);
    return c;
}

static void check_record(const Comments *c, int64_t i, int64_t line, const char *text, const char *label) {
    assert_true(i < c->n);
    assert_int_equal(c->lines[i], line);
    assert_string_equal(c->texts[i], text);
    assert_string_equal(c->labels[i], label);
}

static void a_table_gives_its_texts_as_they_are_written(void **state) {
    (void)state;
    const char *path = text_file("a.csv", "\xEF\xBB\xBFid,text,label\r\n"
                                          "1,\"two\nlines, \"\"quoted\"\"\",0\r\n"
                                          "2,null,1\r\n"
                                          "\r\n"
                                          "3,NA, 1 \r\n"
                                          "4, nan ,0\r\n"
                                          "5,\"\n\n\",x y\r\n"
                                          "6,😀 đẹp,0");
    CommentColumns columns = {.id = "id"};
    Comments c = read_checked(path, &columns, false);
    assert_int_equal(c.n, 6);
    assert_string_equal(c.path, path);
    check_record(&c, 0, 2, "two\nlines, \"quoted\"", "0");
    check_record(&c, 1, 4, "null", "1");
    check_record(&c, 2, 6, "NA", "1");
    check_record(&c, 3, 7, " nan ", "0");
    check_record(&c, 4, 8, "\n\n", "x y");
    check_record(&c, 5, 11, "😀 đẹp", "0");
    assert_string_equal(c.ids[5], "6");
    comments_free(&c);
}

static void tabs_and_objects_give_the_same(void **state) {
    (void)state;
    static const char *const files[][2] = {
        {"a.tsv", "what\tcomment\tnumber\n\n7\t\"a \"\"b\"\", c\"\t-3\nx\t\"d\n\te\"\t9\n"},
        {"a.jsonl", "\n\n{\"number\": -3, \"comment\": \"a \\\"b\\\", c\", \"what\": 7, \"more\": [1.5]}\r\n"
                    "{\"comment\":\"d\\n\\te\",\"what\":\"x\",\"number\":\"9\"}"}};
    const CommentColumns columns = {"comment", "what", "number"};
    for (int i = 0; i < 2; i++) {
        Comments c = read_checked(text_file(files[i][0], files[i][1]), &columns, true);
        assert_int_equal(c.n, 2);
        check_record(&c, 0, 3, "a \"b\", c", "7");
        check_record(&c, 1, 4, "d\n\te", "x");
        assert_string_equal(c.ids[0], "-3");
        assert_string_equal(c.ids[1], "9");
        comments_free(&c);
    }
}

static void every_line_of_a_text_file_is_a_text(void **state) {
    (void)state;
    Comments c = read_checked(text_file("a.txt", "\xEF\xBB\xBFone, \"two\"\n\n{\"text\": 1}\r\nlast"), &usual, false);
    static const char *const want[] = {"one, \"two\"", "", "{\"text\": 1}", "last"};
    assert_int_equal(c.n, 4);
    assert_null(c.labels);
    assert_null(c.ids);
    for (int i = 0; i < 4; i++) {
        assert_string_equal(c.texts[i], want[i]);
        assert_int_equal(c.lines[i], i + 1);
    }
    comments_free(&c);
}

static void predictions_need_no_labels_and_no_words(void **state) {
    (void)state;
    Comments c = read_checked(text_file("a.csv", "text\n\"\"\n\" \"\nx\n"), &usual, false);
    assert_int_equal(c.n, 3);
    assert_null(c.labels);
    assert_string_equal(c.texts[0], "");
    comments_free(&c);
    c = read_checked(text_file("a.jsonl", "{\"text\":\"x\"}\n{\"text\":\"y\",\"label\":\"z\"}\n"), &usual, false);
    check_record(&c, 0, 1, "x", "");
    check_record(&c, 1, 2, "y", "z");
    comments_free(&c);
}

/* Names with a folder in front of them must be in the error; labels are needed. */
static const struct {
    const char *name, *text, *want;
} bad[] = {
    {"a.csv", "", "a.csv:1: the file is empty"},
    {"a.csv", "text,label\n", "a.csv:1: there are no texts"},
    {"a.csv", "text,label\na,0\nb,\"1\nc,0\n", "a.csv:3:3: the quote is not closed; close it"},
    {"a.csv", "text,label\n\"a\nb\",0\nc\n", "a.csv:4: has 1 fields; the line of column names has 2"},
    {"a.csv", "text,label\na,b,c\n",
     "a.csv:2: has 3 fields; the line of column names has 2; a field with separators in it needs quotes"},
    {"a.csv", "text,labels\na,0\n",
     "a.csv:1: there is no column \"label\"; the columns are: text, labels "
     "(--label-column names another)"},
    {"a.csv", "free_text,label\na,0\n", "--text-column"},
    {"a.csv", "text,label,text\na,0,b\n", "a.csv:1: the column \"text\" is there twice"},
    {"a.csv", "text,label\na,0\n \t\xC2\xA0,1\n", "a.csv:3: text is empty"},
    {"a.csv", "text,label\na,0\nb, \n", "a.csv:3: label is empty"},
    {"a.csv", "text,label\na,0\nb\xff,1\n", "a.csv:3: is not UTF-8; it may be Western text"},
    {"a.tsv", "text\tlabel\na,0\n", "a.tsv:2: has 1 fields"},
    {"a.tsv", "text\tlabel\na \"b\"\t0\n",
     "a.tsv:2:3: a quote inside a field that does not begin with one; write such a field in quotes"},
    {"a.jsonl", "", "a.jsonl:1: there are no texts"},
    {"a.jsonl", "{\"text\":\"a\",\"label\":0}\n{\"text\":\"b\",\"la", "a.jsonl:2:"},
    {"a.jsonl", "{\"text\":\"a\",\"label\":0} x\n", "a.jsonl:1:"},
    {"a.jsonl", "[1]\n", "a.jsonl:1: is not an object; expected {\"text\": ...}"},
    {"a.jsonl", "{\"text\":\"a\",\"text\":\"b\",\"label\":0}\n", "a.jsonl:1:"},
    {"a.jsonl", "\n{\"label\":0}\n", "a.jsonl:2: there is no \"text\" (--text-column names another)"},
    {"a.jsonl", "{\"text\":\"a\",\"label\":null}\n", "a.jsonl:1: there is no \"label\""},
    {"a.jsonl", "{\"text\":5,\"label\":0}\n", "a.jsonl:1: \"text\" is not a string"},
    {"a.jsonl", "{\"text\":\"a\",\"label\":1.0}\n", "\"label\" is not a string or a whole number"},
    {"a.jsonl", "{\"text\":\"\",\"label\":1}\n", "a.jsonl:1: text is empty"},
    {"a.jsonl", "{\"text\":\"a\\u0000\",\"label\":1}\n", "a.jsonl:1:"},
    {"a.txt", "a\n", "a.txt:1: lines of text have no column \"label\""},
    {"a.json", "{}", "must end in .csv, .tsv, .jsonl or .txt"},
};

static void bad_files_are_refused_by_name_line_and_column(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        Comments c;
        Error error = {""};
        if (comments_read(text_file(bad[i].name, bad[i].text), &usual, true, &c, &error)) fail_msg("%s", bad[i].want);
        assert_contains(error.text, bad[i].want);
        assert_null(c.texts);
    }
    Comments c;
    Error error = {""};
    const CommentColumns twice = {.id = "text"}, absent = {.id = "number"};
    assert_false(comments_read("none/a.csv", &usual, true, &c, &error));
    assert_contains(error.text, "none/a.csv: cannot open: No such file");
    assert_false(comments_read("none", &usual, true, &c, &error));
    assert_string_equal(error.text, "none: No such file or directory");
    assert_false(comments_read("none/a.csv", &twice, true, &c, &error));
    assert_contains(error.text, "\"text\" cannot be two of text, label and id");
    assert_false(comments_read(text_file("a.csv", "text,label\na,0\n"), &absent, true, &c, &error));
    assert_contains(error.text, "--id-column");
}

static void print_input(void *path) {
    CommentInput input = {0};
    Comments c;
    Error error = {""};
    if (path && !freopen(path, "r", stdin)) exit(2);
    for (bool more = true; more;) {
        if (!comments_next(&input, &usual, &c, &error)) {
            puts(error.text);
            exit(1);
        }
        for (int64_t i = 0; i < c.n; i++) printf("%s:%lld:%s;", c.path, (long long)c.lines[i], c.texts[i]);
        if (c.n) printf("|");
        fflush(stdout);
        more = c.n > 0;
        comments_free(&c);
    }
    comments_input_close(&input);
}

static void standard_input_is_lines_or_objects(void **state) {
    (void)state;
    static const char *const inputs[][2] = {
        {"a\n[b]\n", "standard input:1:a;standard input:2:[b];|"},
        {"{\"text\":\"a\\nb\"}\n\n{\"text\":\"c\"}\n", "standard input:1:a\nb;standard input:3:c;|"},
        {"a\nb", "standard input:1:a;standard input:2:b;|"},
        {"{\"text\":\"a\"}\nb\n", "standard input:2:"},
        {"", "standard input:1: there are no texts"},
        {"a\n\xff\n", "standard input:2: "}};
    for (int i = 0; i < 6; i++) {
        char output[512];
        const char *path = text_file("in", inputs[i][0]);
        int status = run_function(output, sizeof output, print_input, (void *)(uintptr_t)path);
        assert_int_equal(status, i > 2);
        assert_contains(output, inputs[i][1]);
    }
}

/* A line that comes in two parts is one text; lines are taken when no more are ready. */
static void lines_are_taken_as_they_come(void **state) {
    (void)state;
    int ends[2];
    Comments c;
    Error error;
    CommentInput input = {0};
    FILE *old = stdin;
    assert_int_equal(pipe(ends), 0);
    stdin = fdopen(ends[0], "r");
    assert_int_equal(write(ends[1], "one\ntwo\nth", 10), 10);
    assert_true(comments_next(&input, &usual, &c, &error));
    assert_int_equal(c.n, 2);
    assert_string_equal(c.texts[1], "two");
    comments_free(&c);
    assert_int_equal(write(ends[1], "ree\n\xEF\xBB\xBF", 7), 7);
    assert_true(comments_next(&input, &usual, &c, &error));
    assert_int_equal(c.n, 1);
    assert_string_equal(c.texts[0], "three");
    assert_int_equal(c.lines[0], 3);
    comments_free(&c);
    assert_int_equal(write(ends[1], "x\n{", 3), 3);
    assert_true(comments_next(&input, &usual, &c, &error));
    assert_string_equal(c.texts[0], "\xEF\xBB\xBFx"); /* it is a mark in the first line only */
    comments_free(&c);
    close(ends[1]);
    assert_true(comments_next(&input, &usual, &c, &error));
    assert_int_equal(c.n, 1);
    assert_string_equal(c.texts[0], "{"); /* the first byte of all says what lines are */
    comments_free(&c);
    assert_true(comments_next(&input, &usual, &c, &error) && !c.n);
    comments_free(&c);
    comments_input_close(&input);
    fclose(stdin);
    stdin = old;
}

static void a_long_input_is_taken_in_parts(void **state) {
    (void)state;
    enum { LINES = 200000 };
    char *text = xmalloc(LINES * 14 + 1), *at = text;
    for (int i = 0; i < LINES; i++) at += sprintf(at, "line %d\n", i);
    Comments c;
    Error error;
    CommentInput input = {0};
    FILE *old = stdin;
    int64_t n = 0, parts = 0;
    stdin = fopen(text_file("in", text), "r");
    for (bool more = true; more; parts++) {
        assert_true(comments_next(&input, &usual, &c, &error));
        for (int64_t i = 0; i < c.n; i++) assert_int_equal(c.lines[i], ++n);
        more = c.n > 0;
        if (n == LINES && more) assert_string_equal(c.texts[c.n - 1], "line 199999");
        comments_free(&c);
    }
    assert_int_equal(n, LINES);
    assert_in_range(parts, 3, 5); /* of a megabyte */
    comments_input_close(&input);
    fclose(stdin);
    stdin = old;
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_gives_its_texts_as_they_are_written),
        cmocka_unit_test(tabs_and_objects_give_the_same),
        cmocka_unit_test(every_line_of_a_text_file_is_a_text),
        cmocka_unit_test(predictions_need_no_labels_and_no_words),
        cmocka_unit_test(bad_files_are_refused_by_name_line_and_column),
        cmocka_unit_test(standard_input_is_lines_or_objects),
        cmocka_unit_test(lines_are_taken_as_they_come),
        cmocka_unit_test(a_long_input_is_taken_in_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
