/* Files of texts and labels: what is read from which line, and what is refused with which words. */
#include "data/bert/classes.h"
#include "data/bert/comments.h"

#include <unistd.h>

#include "tests/bert/texts_rig.h"

static Error error;

static const CommentColumns usual = {0};

static Comments read_checked(const char *path, const CommentColumns *columns, CommentLabels labels) {
    Comments c;
    Error error = {""};
    if (!comments_read(path, columns, labels, &c, &error)) fail_msg("%s", error.text);
    return c;
}

static void check_record(const Comments *c, int64_t i, int64_t line, const char *text, const char *label) {
    assert_true(i < c->n);
    assert_int_equal(c->lines[i], line);
    assert_string_equal(c->texts[i], text);
    assert_string_equal(c->labels[i], label);
}

TEST(a_table_gives_its_texts_as_they_are_written) {
    const char *path = text_file("a.csv", "\xEF\xBB\xBFid,text,label\r\n"
                                          "1,\"two\nlines, \"\"quoted\"\"\",0\r\n"
                                          "2,null,1\r\n"
                                          "\r\n"
                                          "3,NA, 1 \r\n"
                                          "4, nan ,0\r\n"
                                          "5,\"\n\n\",x y\r\n"
                                          "6,😀 đẹp,0");
    CommentColumns columns = {.id = "id"};
    Comments c = read_checked(path, &columns, LABELS_IF_ANY);
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

TEST(tabs_and_objects_give_the_same) {
    static const char *const files[][2] = {
        {"a.tsv", "what\tcomment\tnumber\n\n7\t\"a \"\"b\"\", c\"\t-3\nx\t\"d\n\te\"\t9\n"},
        {"a.jsonl", "\n\n{\"number\": -3, \"comment\": \"a \\\"b\\\", c\", \"what\": 7, \"more\": [1.5]}\r\n"
                    "{\"comment\":\"d\\n\\te\",\"what\":\"x\",\"number\":\"9\"}"}};
    const CommentColumns columns = {.text = "comment", .label = "what", .id = "number"};
    for (int i = 0; i < 2; i++) {
        Comments c = read_checked(text_file(files[i][0], files[i][1]), &columns, LABELS_NEEDED);
        assert_int_equal(c.n, 2);
        check_record(&c, 0, 3, "a \"b\", c", "7");
        check_record(&c, 1, 4, "d\n\te", "x");
        assert_string_equal(c.ids[0], "-3");
        assert_string_equal(c.ids[1], "9");
        comments_free(&c);
    }
}

TEST(every_line_of_a_text_file_is_a_text) {
    Comments c =
        read_checked(text_file("a.txt", "\xEF\xBB\xBFone, \"two\"\n\n{\"text\": 1}\r\nlast"), &usual, LABELS_UNUSED);
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

TEST(predictions_need_no_labels_and_no_words) {
    Comments c = read_checked(text_file("a.csv", "text,label\n\"\",\n\" \",0\nx,1\n"), &usual, LABELS_UNUSED);
    assert_int_equal(c.n, 3);
    assert_null(c.labels);
    assert_string_equal(c.texts[0], "");
    assert_int_equal(c.counts.empty, 0);
    comments_free(&c);
    /* nobody asks for the label */
    c = read_checked(text_file("a.jsonl", "{\"text\":\"x\",\"label\":NaN}\n{\"text\":\"y\",\"label\":{\"a\":[1]}}\n"),
                     &usual, LABELS_UNUSED);
    assert_int_equal(c.n, 2);
    assert_null(c.labels);
    comments_free(&c);
    c = read_checked(text_file("a.jsonl", "{\"text\":\"x\"}\n{\"text\":\"y\",\"label\":\"z\"}\n"), &usual,
                     LABELS_IF_ANY);
    check_record(&c, 0, 1, "x", "");
    check_record(&c, 1, 2, "y", "z");
    comments_free(&c);
}

/* ---- what people's files hold ---- */

TEST(the_same_records_are_read_from_every_kind_of_file) {
    static const char *const files[][2] = {
        {"a.csv", "text;label\n\"a; b\";1\nc,d;true\n"},
        {"a.CSV", "sep=;\r\ntext;label\r\n\"a; b\";1\r\nc,d;true\r\n"},
        {"a.csv", "text\tlabel\na; b\t1\nc,d\ttrue\n"},
        {"a.json", "[{\"text\": \"a; b\", \"label\": 1},\n {\"label\": true, \"text\": \"c,d\", \"x\": NaN}]\n"},
        {"a.json", "{\"text\": \"a; b\", \"label\": 1}\n{\"text\": \"c,d\", \"label\": true}\n"},
        {"a.JSON", "[{\"text\": \"a; b\", \"label\": 1}, {\"text\": \"c,d\", \"label\": true}]"},
        {"a.ndjson", "{\"text\": \"a; b\", \"label\": 1}\n{\"text\": \"c,d\", \"label\": true}\n"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        Comments c = read_checked(text_file(files[i][0], files[i][1]), &usual, LABELS_NEEDED);
        assert_int_equal(c.n, 2);
        assert_string_equal(c.texts[0], "a; b");
        assert_string_equal(c.texts[1], "c,d");
        assert_string_equal(c.labels[0], "1");
        assert_string_equal(c.labels[1], "true");
        comments_free(&c);
    }
    static const char unicode[] = "\xFF\xFEt\0e\0x\0t\0\t\0l\0a\0b\0e\0l\0\n\0\xDF\x1E\t\0001\0\n\0";
    const char *path = text_file("a.csv", "");
    write_bytes(path, unicode, sizeof unicode - 1);
    Comments c = read_checked(path, &usual, LABELS_NEEDED);
    check_record(&c, 0, 2, "\u1edf", "1");
    comments_free(&c);
    char output[256];
    path = text_file("b.csv", "text,label\na,0\n");
    assert_int_equal(run_command(output, sizeof output, "gzip -f %s", path), 0);
    c = read_checked(kept_format("%s.gz", path), &usual, LABELS_NEEDED);
    check_record(&c, 0, 2, "a", "0");
    comments_free(&c);
    assert_int_equal(comments_stem("a.csv.gz"), 1);
    assert_int_equal(comments_stem("dev.NDJSON"), 3);
    assert_int_equal(comments_stem(".csv"), 0);
    assert_int_equal(comments_stem("csv"), 0);
}

TEST(labels_of_objects_may_be_numbers_and_truth) {
    Comments c = read_checked(text_file("a.jsonl", "{\"text\":\"a\",\"label\":1.0,\"id\":0.1}\n"
                                                   "{\"text\":\"b\",\"label\":false,\"id\":1e300}\n"
                                                   "{\"text\":\"c\",\"label\":-7,\"id\":true}\n"),
                              &(CommentColumns){.id = "id"}, LABELS_NEEDED);
    check_record(&c, 0, 1, "a", "1.0");
    check_record(&c, 1, 2, "b", "false");
    check_record(&c, 2, 3, "c", "-7");
    assert_string_equal(c.ids[0], "0.1");
    assert_true(strtod(c.ids[1], NULL) == 1e300);
    assert_string_equal(c.ids[2], "true");
    comments_free(&c);
}

TEST(labels_are_normal_and_counted) {
    Comments c = read_checked(text_file("a.csv", "text,label\na,ha\u0300i lo\u0300ng\nb,h\u00e0i l\u00f2ng\n"
                                                 "c,\u00a0x\u00a0y \nd,x y\ne,\u0958\n"),
                              &usual, LABELS_NEEDED);
    check_record(&c, 0, 2, "a", "h\u00e0i l\u00f2ng");
    check_record(&c, 1, 3, "b", "h\u00e0i l\u00f2ng");
    check_record(&c, 2, 4, "c", "x y");
    check_record(&c, 3, 5, "d", "x y");
    check_record(&c, 4, 6, "e", "\u0915\u093c"); /* longer than it was written */
    assert_int_equal(c.counts.labels, 3);
    comments_free(&c);
}

TEST(empty_texts_are_left_out_and_counted) {
    static const char *const files[][2] = {
        {"a.csv", "text,label\na,0\n,1\nb,1\n\" \u00a0\n\",\n"},
        {"a.jsonl", "\n{\"text\":\"a\",\"label\":0}\n{\"text\":\"\",\"label\":1}\n{\"text\":\"b\",\"label\":1}\n"
                    "{\"text\":\" \\n\"}\n"}};
    for (int i = 0; i < 2; i++) {
        const char *path = text_file(files[i][0], files[i][1]);
        Comments c = read_checked(path, &usual, LABELS_NEEDED);
        assert_int_equal(c.n, 2);
        assert_string_equal(c.texts[1], "b");
        assert_int_equal(c.counts.empty, 2);
        assert_int_equal(c.counts.lines[0], 3);
        assert_int_equal(c.counts.lines[1], 5);
        assert_int_equal(c.counts.bad, 0);
        comments_free(&c);
        Error error = {""};
        assert_false(comments_read(path, &(CommentColumns){.refuse_empty = true}, LABELS_NEEDED, &c, &error));
        assert_contains(error.text, ":3: text is empty; give it or take the record out (--empty skip leaves it out)");
    }
}

/* A file, the line and the reason of its bad record; what is good has the texts a and b. */
static const struct {
    const char *name, *text, *why;
} one_bad[] = {
    {"a.csv", "text,label\na,0\nx,0,1\nb,1\n", "3: has 3 fields; the line of column names has 2"},
    {"a.csv", "text,label\na,0\nx,\nb,1\n", "3: label is empty"},
    {"a.csv", "text,label\na,0\nx \"y\" z,1\nb,1\n", "3:3: a quote inside a field"},
    {"a.jsonl", "{\"text\":\"a\",\"label\":0}\nnull\n{\"text\":\"b\",\"label\":0}\n", "2: is not an object"},
    {"a.jsonl", "{\"text\":\"a\",\"label\":0}\n{\"text\":\"x \\ud83d\",\"label\":0}\n{\"text\":\"b\",\"label\":0}\n",
     "2:9: \"text\": "},
    {"a.jsonl", "{\"text\":\"a\",\"label\":0}\n{\"text\":NaN,\"label\":0}\n{\"text\":\"b\",\"label\":0}\n",
     "2: there is no \"text\""},
    {"a.jsonl", "{\"text\":\"a\",\"label\":0}\n{\"text\":\"x\",\"la\n{\"text\":\"b\",\"label\":0}\n", "2:13: "},
    {"a.jsonl", "{\"text\":\"a\",\"label\":0}\n{\"text\":\"x\",\"label\":null}\n{\"text\":\"b\",\"label\":0}\n",
     "2: there is no \"label\""},
    {"a.jsonl",
     "{\"text\":\"a\",\"label\":0}\n{\"text\":99999999999999999999,\"label\":0}\n{\"text\":\"b\",\"label\":0}\n",
     "2: \"text\" is not a string"},
    {"a.json", "[{\"text\":\"a\",\"label\":0},\n7,{\"text\":\"b\",\"label\":0}]", "2: is not an object"},
};

TEST(numbers_of_more_than_64_bits_are_labels_and_ids) {
    const char *path =
        text_file("a.jsonl", "{\"text\":\"a\",\"label\":99999999999999999999,\"id\":1e999,\"x\":1e999}\n");
    Comments c = read_checked(path, &(CommentColumns){.id = "id"}, LABELS_NEEDED);
    assert_string_equal(c.labels[0], "99999999999999999999");
    assert_string_equal(c.ids[0], "1e999");
    comments_free(&c);
}

/* Such a label would be printed at every turn. */
TEST(labels_that_no_report_can_show_are_refused_by_line) {
    enum { LARGE = 10000000 };
    char *large = xmalloc(LARGE + 1), *table = NULL;
    const char *path = NULL;
    Comments c;
    memset(large, 'x', LARGE);
    large[LARGE] = 0;
    const struct {
        const char *label, *message;
    } cases[] = {{large, ":3: label: the name that begins \"xxxx"},
                 {large, "has 10000000 bytes; expected at most 256"},
                 {"\x1b[31mred", ":3: label: the name \"\x1b[31mred\" has the control character U+001B"}};
    for (int i = 0; i < 3; i++) {
        table = kept_format("text,label\na,1\nb,%s\nc,1\n", cases[i].label);
        path = text_file("labels.csv", table);
        assert_false(comments_read(path, &(CommentColumns){0}, LABELS_NEEDED, &c, &error));
        assert_contains(error.text, cases[i].message);
        assert_true(comments_read(path, &(CommentColumns){.skip_bad = true}, LABELS_NEEDED, &c, &error));
        assert_int_equal(c.n, 2);
        comments_free(&c);
    }
    free(large);
    Classes classes;
    assert_false(classes_parse("good,b\ad", &classes, &error));
    assert_contains(error.text, "name 2: the name \"b\ad\" has the control character U+0007");
}

TEST(a_bad_record_is_an_error_that_names_skip_bad) {
    for (size_t i = 0; i < sizeof one_bad / sizeof *one_bad; i++) {
        const char *path = text_file(one_bad[i].name, one_bad[i].text);
        Comments c;
        Error error = {""};
        if (comments_read(path, &usual, LABELS_NEEDED, &c, &error)) fail_msg("%s", one_bad[i].why);
        assert_contains(error.text, one_bad[i].why);
        assert_contains(error.text, "; --skip-bad leaves records out that cannot be used, and counts them");
        c = read_checked(path, &(CommentColumns){.skip_bad = true}, LABELS_NEEDED);
        assert_int_equal(c.n, 2);
        assert_string_equal(c.texts[0], "a");
        assert_string_equal(c.texts[1], "b");
        assert_int_equal(c.counts.bad, 1);
        assert_memory_equal(c.counts.first_bad, one_bad[i].why, strlen(one_bad[i].why));
        comments_free(&c);
    }
    Comments c;
    Error error = {""};
    const char *path = text_file("a.csv", "text,label\n,0\nx\n");
    assert_false(comments_read(path, &(CommentColumns){.skip_bad = true}, LABELS_NEEDED, &c, &error));
    assert_contains(error.text,
                    "a.csv:1: there are no texts: 1 are empty, and 1 records cannot be used, the first: line 3: ");
    assert_null(c.texts);
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
    {"a.jsonl", "{\"text\":\"a\",\"label\":[1]}\n", "\"label\" is not a string, a number, true or false"},
    {"a.json", "[{\"text\":\"a\",\"label\":1},", "a.json:1: the array is not closed: the file is cut off"},
    {"a.jsonl", "{\"text\":\"a\\u0000\",\"label\":1}\n", "a.jsonl:1:"},
    {"a.txt", "a\n", "a.txt:1: lines of text have no column \"label\""},
    {"a.xls", "{}", "must end in .csv, .tsv, .jsonl, .ndjson, .json or .txt"},
};

TEST(help_names_the_endings_that_are_read) {
    int n = 0;
    for (const char *at = COMMENTS_ANY; (at = strchr(at, '.')); at++) {
        size_t size = 1 + strspn(at + 1, "abcdefghijklmnopqrstuvwxyz");
        char *name = kept_format("a%.*s%s", (int)size, at, size == 3 ? "" : ".gz"); /* .gz is behind another */
        assert_int_equal(comments_stem(name), size == 3 ? 0 : 1);
        n++;
    }
    assert_int_equal(n, 7);
}

TEST(bad_files_are_refused_by_name_line_and_column) {
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        Comments c;
        Error error = {""};
        if (comments_read(text_file(bad[i].name, bad[i].text), &usual, LABELS_NEEDED, &c, &error))
            fail_msg("%s", bad[i].want);
        assert_contains(error.text, bad[i].want);
        assert_null(c.texts);
    }
    Comments c;
    Error error = {""};
    const CommentColumns twice = {.id = "text"}, absent = {.id = "number"};
    assert_false(comments_read("none/a.csv", &usual, LABELS_NEEDED, &c, &error));
    assert_contains(error.text, "none/a.csv: cannot open: No such file");
    assert_false(comments_read("none", &usual, LABELS_NEEDED, &c, &error));
    assert_string_equal(error.text, "none: No such file or directory");
    assert_false(comments_read("none/a.csv", &twice, LABELS_NEEDED, &c, &error));
    assert_contains(error.text, "\"text\" cannot be two of text, label and id");
    assert_false(comments_read(text_file("a.csv", "text,label\na,0\n"), &absent, LABELS_NEEDED, &c, &error));
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

static void print_left_out(void *path) {
    CommentInput input = {0};
    Comments c;
    Error error = {""};
    if (!freopen(path, "r", stdin)) exit(2);
    for (bool more = true; more;) {
        if (!comments_next(&input, &(CommentColumns){.skip_bad = true}, &c, &error)) exit(1);
        for (int64_t i = 0; i < c.n; i++) printf("%lld:%s;", (long long)c.lines[i], c.texts[i]);
        more = c.n > 0;
        comments_free(&c);
    }
    printf("%lld bad, %s", (long long)input.counts.bad, input.counts.first_bad);
    comments_input_close(&input);
}

TEST(bad_objects_of_standard_input_are_left_out_and_counted) {
    char output[512];
    const char *path = text_file("in", "{\"text\":\"a\"}\n{\n{\"text\":\"b\"}\n{\"text\":1}\n");
    assert_int_equal(run_function(output, sizeof output, print_left_out, (void *)(uintptr_t)path), 0);
    assert_contains(output, "1:a;3:b;2 bad, 2:2: expected a name in double quotes");
}

TEST(standard_input_is_lines_or_objects) {
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
TEST(lines_are_taken_as_they_come) {
    int ends[2];
    Comments c;
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

TEST(a_long_input_is_taken_in_parts) {
    enum { LINES = 200000 };
    char *text = xmalloc(LINES * 14 + 1), *at = text;
    for (int i = 0; i < LINES; i++) at += sprintf(at, "line %d\n", i);
    Comments c;
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
