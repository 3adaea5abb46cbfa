/* Tables and records as people have them: files that are compressed or UTF-16, Excel's separators, lines and arrays of
 * JSON, and records with a field that is wrong, asked for or not. */
#include <zlib.h>

#include "data/formats/csv.h"
#include "data/formats/json_records.h"
#include "data/formats/text_source.h"
#include "tests/test.h"

/* Returns the path of a file in one folder of these tests. */
static const char *path_of(const char *name) {
    static const char *folder;
    if (!folder) folder = run_directory();
    return kept_path(folder, name);
}

/* ---- whole texts ---- */

static void check_text(const void *bytes, size_t size, const char *want) {
    const char *path = path_of("x");
    char *text;
    size_t n;
    Error error = {""};
    write_bytes(path, bytes, size);
    if (!text_read(path, &text, &n, &error)) fail_msg("%s", error.text);
    assert_int_equal(n, strlen(want));
    assert_string_equal(text, want);
    free(text);
}

static void refuse_text(const void *bytes, size_t size, const char *message) {
    const char *path = path_of("x");
    char *text;
    size_t n;
    Error error = {""};
    write_bytes(path, bytes, size);
    assert_false(text_read(path, &text, &n, &error));
    assert_contains(error.text, message);
}

TEST(an_ending_is_known_in_capitals_and_compressed) {
    static const char *const names[] = {"a/b.csv", "a/b.CSV", "a/b.csv.gz", "a/b.Csv.GZ"};
    for (int i = 0; i < 4; i++) {
        assert_ptr_equal(text_ending(names[i], ".csv"), names[i] + 3);
        assert_ptr_equal(path_ending(names[i], ".csv"), i < 2 ? names[i] + 3 : NULL);
        assert_null(text_ending(names[i], ".tsv"));
    }
    assert_null(text_ending("csv.gz", ".csv"));
    assert_null(text_ending(".gz", ".csv"));
}

TEST(utf_16_with_a_mark_is_text) {
    static const char little[] = "\xFF\xFE\x61\x00\xDF\x1E\x3D\xD8\x00\xDE", big[] = "\xFE\xFF\x00\x61\x1E\xDF";
    check_text(little, sizeof little - 1, "a\u1edf\U0001F600");
    check_text(big, sizeof big - 1, "a\u1edf");
    check_text("\xFF\xFE", 2, "");
    check_text("", 0, "");
    check_text("\xC3\xA1\xFF", 3, "\xC3\xA1\xFF"); /* what has no mark is not looked at */
    refuse_text(little, 5, "half a character at its end");
    refuse_text(little, 8, "half of a pair of code units");
}

/* Members one behind the other are one text, as gzip and cat make them. */
TEST(compressed_text_is_read_whatever_its_name) {
    enum { N = 3 << 20 };
    const char *path = path_of("x");
    char *want = xcalloc(N + 2, 1), *text;
    size_t n;
    Error error = {""};
    for (int i = 0; i < N; i++) want[i] = (char)('a' + (i ^ i >> 7) % 26);
    gzFile file = gzopen(path, "w");
    assert_int_equal(gzwrite(file, want, N), N);
    gzclose(file);
    file = gzopen(path, "a");
    assert_int_equal(gzwrite(file, "!", 1), 1);
    gzclose(file);
    want[N] = '!';
    if (!text_read(path, &text, &n, &error)) fail_msg("%s", error.text);
    assert_int_equal(n, N + 1);
    assert_memory_equal(text, want, N + 2);
    free(text);
    free(want);
    char *bytes;
    assert_true(read_file(path, &bytes, &n, &error));
    refuse_text(bytes, n - 4, "cut off");
    bytes[n / 2] ^= 0x55;
    refuse_text(bytes, n, "damaged");
    free(bytes);
}

TEST(utf_16_may_be_compressed) {
    gzFile file = gzopen(path_of("y"), "w");
    assert_int_equal(gzwrite(file, "\xFF\xFE\x61\x00", 4), 4);
    gzclose(file);
    char *text, *bytes;
    size_t n;
    Error error = {""};
    if (!text_read(path_of("y"), &text, &n, &error)) fail_msg("%s", error.text);
    assert_string_equal(text, "a");
    free(text);
    assert_true(read_file(path_of("y"), &bytes, &n, &error));
    bytes[0] = 'x';
    check_text(bytes, 3, "x\x8b\x08");
    free(bytes);
}

/* ---- tables ---- */

/* Returns the records of a table as "a|b;c|d;", or the error. */
static char *records_of(const char *table, char usual, bool skips) {
    char *text = keep(xstrdup(table)), *out = xstrdup("");
    Csv csv;
    Error error = {""};
    bool more = csv_open(&csv, text, strlen(text), usual, &error);
    while (more) {
        more = csv_next(&csv, &error);
        for (int i = 0; more && i < csv.n; i++) {
            char *longer = xformat("%s%s%s", out, csv.fields[i], i + 1 < csv.n ? "|" : ";");
            free(out);
            out = longer;
        }
        if (!more && error.text[0]) {
            char *longer = xformat("%s<%.3s>", out, error.text);
            free(out);
            out = longer;
            more = skips && csv_skip(&csv);
        }
    }
    csv_close(&csv);
    return keep(out);
}

static void check_records(const char *table, char usual, const char *want) {
    char *got = records_of(table, usual, false);
    assert_string_equal(got, want);
}

TEST(the_first_line_tells_the_separator) {
    check_records("text;label\na,b;1\n", ',', "text|label;a,b|1;");
    check_records("text\tlabel\na,b\t1\n", ',', "text|label;a,b|1;");
    check_records("text,label\na;b,1\n", ',', "text|label;a;b|1;");
    check_records("text,a;b\tc\nx,y\n", ',', "text|a;b\tc;x|y;");
    check_records("\"a,b\";c\nd;e\n", ',', "a,b|c;d|e;"); /* in quotes it separates nothing */
    check_records("text\na;b\n", ',', "text;a;b;");       /* one column: the usual one */
    check_records("text\tlabel\na,b\t1\n", '\t', "text|label;a,b|1;");
    check_records("text,label\na\t,1\n", '\t', "text|label;a\t|1;");
    check_records("\n\r\na;b\n", ',', "a|b;");
}

TEST(excel_s_line_of_the_separator_is_no_record) {
    check_records("sep=;\r\na,b;c\r\n", ',', "a,b|c;");
    check_records("\xEF\xBB\xBFSEP=|\na,b|c;d\n", ',', "a,b|c;d;");
    check_records("\"sep=\t\"\na;b\tc\n", ',', "a;b|c;");
    check_records("sep=;x,y\n1,2\n", ',', "sep=;x|y;1|2;"); /* a name of a column */
    check_records("sep=", ',', "sep=;");
    char text[] = "sep=;\na\n\"b\n\";c\n";
    Csv csv;
    Error error;
    assert_true(csv_open(&csv, text, sizeof text - 1, ',', &error));
    assert_true(csv_next(&csv, &error) && csv.line == 2);
    assert_true(csv_next(&csv, &error) && csv.line == 3 && csv.n == 2);
    csv_close(&csv);
}

TEST(a_decimal_comma_is_one_where_semicolons_separate) {
    double value = 0;
    const Csv commas = {.separator = ','}, tabs = {.separator = '\t'}, semicolons = {.separator = ';'};
    assert_true(csv_decimal(&semicolons, "-2,5", &value) && value == -2.5);
    assert_true(csv_decimal(&semicolons, "2.5", &value) && value == 2.5);
    assert_true(csv_decimal(&commas, "2.5", &value) && value == 2.5);
    assert_false(csv_decimal(&commas, "1,234", &value)); /* a thousand, in quotes */
    assert_false(csv_decimal(&tabs, "1,234", &value));
    static const char *const wrong[] = {"1.234,5", "1,234,5", "1,234.5", ",", "", "a,5"};
    for (int i = 0; i < 6; i++) assert_false(csv_decimal(&semicolons, wrong[i], &value));
}

TEST(a_quote_in_the_wrong_place_costs_its_line) {
    static const struct {
        const char *table, *want;
    } cases[] = {{"a,b\nc \"d\" e,f\ng,h\n", "a|b;<2:3>g|h;"},
                 {"a,b\n\"c\" d,e\nf,g\n", "a|b;<2:4>f|g;"},
                 {"a,b\n\"c\nd\" e,f\ng,h\n", "a|b;<2:6>g|h;"},
                 {"a,b\nc,d\"", "a|b;<2:4>"},
                 {"a,b\nc,\"d\ne,f\n", "a|b;<2:3>"}}; /* the rest of the table is in the quotes */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *got = records_of(cases[i].table, ',', true);
        assert_string_equal(got, cases[i].want);
    }
}

/* ---- one record ---- */

static const char *const asked[] = {"text", "n", NULL};

static json_t *record(const char *text) {
    size_t at;
    Error error = {""};
    json_t *object = json_record(text, strlen(text), asked, 0, &at, &error);
    if (!object) fail_msg("%s: %s", text, error.text);
    return object;
}

TEST(fields_that_nobody_asked_for_are_not_judged) {
    static const char *const others[] = {"NaN",
                                         "-Infinity",
                                         "123456789012345678901234567890",
                                         "1e999",
                                         "\"\\ud83d\"",
                                         "\"\\u0000\"",
                                         "\"a } , \\\" ] b\"",
                                         "[1, NaN, {\"text\": \"no\"}]",
                                         "{\"text\": {\"n\": [\"]}\"]}}",
                                         "null",
                                         "True"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char *text =
            xformat(" {\"x\": %s, \"te\\u0078t\" : \"a\\n\\u00e1\",\"y\":%s ,\"n\": 3 } ", others[i], others[i]);
        json_t *object = record(text);
        assert_string_equal(json_string_value(json_object_get(object, "text")), "a\n\u00e1");
        assert_int_equal(json_integer_value(json_object_get(object, "n")), 3);
        assert_int_equal(json_object_size(object), 4); /* the others are there, to be listed */
        assert_true(json_is_null(json_object_get(object, "x")) || !*json_string_value(json_object_get(object, "x")));
        json_decref(object);
        free(text);
    }
}

TEST(nan_is_a_missing_value) {
    json_t *object = record("{\"text\":NaN,\"n\":[]}");
    assert_true(json_is_null(json_object_get(object, "text")));
    assert_true(json_is_array(json_object_get(object, "n")));
    json_decref(object);
}

TEST(a_number_of_more_than_64_bits_keeps_its_digits) {
    static const char *const large[] = {"18446744073709551615", "-9223372036854775809", "1e999", "-1.5E+400"};
    for (int i = 0; i < 4; i++) {
        char *text = kept_format("{\"n\": %s, \"text\": {\"a\": [%s,%s ,1], \"b \\\" %s\": \"%s\"}}", large[i],
                                 large[i], large[i], large[i], large[i]);
        json_t *object = record(text), *inside = json_object_get(object, "text"), *array = json_object_get(inside, "a");
        char *name = kept_format("b \" %s", large[i]);
        assert_string_equal(json_large_number(json_object_get(object, "n")), large[i]);
        assert_true(json_is_null(json_array_get(array, 0)) && json_is_null(json_array_get(array, 1)));
        assert_int_equal(json_integer_value(json_array_get(array, 2)), 1);
        assert_string_equal(json_string_value(json_object_get(inside, name)), large[i]);
        json_decref(object);
    }
    json_t *object = record("{\"n\": 9223372036854775807, \"text\": {\"a\": 1}}");
    assert_null(json_large_number(json_object_get(object, "n")));
    assert_null(json_large_number(json_object_get(object, "text")));
    assert_null(json_large_number(json_object_get(object, "x")));
    json_decref(object);
}

TEST(what_is_no_object_is_returned_as_it_is) {
    json_t *value = record("null");
    assert_true(json_is_null(value));
    value = record(" [\"text\"]");
    assert_int_equal(json_array_size(value), 1);
    json_decref(value);
    value = record("{}");
    assert_int_equal(json_object_size(value), 0);
    json_decref(value);
}

TEST(wrong_records_are_refused_where_they_are_wrong) {
    static const struct {
        const char *text;
        size_t at;
        const char *message;
    } cases[] = {
        {"", 0, "end of file"},
        {"{", 1, "expected a name in double quotes"},
        {"{'text': 'a'}", 1, "expected a name in double quotes"},
        {"{\"text\" \"a\"}", 8, "expected \":\" behind a name"},
        {"{\"text\":}", 8, "expected a value"},
        {"{\"text\": \"a", 9, "a value does not end in this record"},
        {"{\"x\": [1, {}", 6, "a value does not end in this record"},
        {"{\"text\": \"a\",}", 13, "expected a name in double quotes"},
        {"{\"text\": \"a\" \"b\"}", 13, "expected \",\" or \"}\" behind a value"},
        {"{\"text\": \"a\"} {}", 14, "expected nothing behind the object"},
        {"{\"text\": \"a\", \"text\": \"b\"}", 22, "\"text\" is there twice"},
        {"{\"text\": \"a \\ud83d\"}", 9, "\"text\": "},
        {"{\"n\": nan}", 6, "\"n\": "},
        {"{\"n\": Infinity}", 6, "\"n\": "},
        {"{\"tex", 1, "a name has no closing quote"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t at = 1000;
        Error error = {""};
        if (json_record(cases[i].text, strlen(cases[i].text), asked, 0, &at, &error)) fail_msg("%s", cases[i].text);
        assert_contains(error.text, cases[i].message);
        assert_int_equal(at, cases[i].at);
    }
}

TEST(a_zero_byte_in_a_text_is_allowed_if_the_caller_allows_it) {
    static const char text[] = "{\"text\":\"a\\u0000b\"}";
    size_t at;
    Error error;
    assert_null(json_record(text, strlen(text), asked, 0, &at, &error));
    json_t *object = json_record(text, strlen(text), asked, JSON_ALLOW_NUL, &at, &error);
    assert_int_equal(json_string_length(json_object_get(object, "text")), 3);
    json_decref(object);
}

/* ---- texts of records ---- */

/* Returns the records as "LINE:RECORD|", then the error. */
static char *found_in(const char *text) {
    JsonRecords records = json_records_open(text, strlen(text), 1, true);
    char *out = xstrdup("");
    Error error = {"?"};
    while (json_records_next(&records, &error)) {
        char *longer = xformat("%s%lld:%.*s|", out, (long long)records.line, (int)records.size, records.text);
        free(out);
        out = longer;
    }
    char *whole = kept_format("%s%s", out, error.text);
    free(out);
    return whole;
}

/* Returns the elements of an array whose bytes come n at a time, as "ELEMENT|", then the error. */
static char *taken_from(const char *text, size_t n) {
    JsonArray array = {0};
    char *out = xstrdup("");
    Error error = {""};
    const char *end = text + strlen(text);
    while (text < end) {
        size_t taken, left = (size_t)(end - text);
        JsonPiece piece;
        if (!json_array_take(&array, text, left < n ? left : n, &taken, &piece, &error)) break;
        char *longer = piece == JSON_BETWEEN
                           ? xstrdup(out)
                           : xformat("%s%.*s%s", out, (int)taken, text, piece == JSON_LAST_PART ? "|" : "");
        free(out);
        out = longer;
        text += taken;
    }
    char *whole = kept_format("%s%s%s", out, error.text, json_array_is_closed(&array) || error.text[0] ? "" : "open");
    free(out);
    return whole;
}

static const struct {
    const char *text, *lines, *pieces; /* as found_in and taken_from give them; pieces NULL: no array */
} texts[] = {
    {"{\"a\":1}\r\n \n\n{\"b\":\n", "1:{\"a\":1}|4:{\"b\":|", NULL},
    {"null\n7", "1:null|2:7|", NULL},
    {"", "", NULL},
    {" \n", "", NULL},
    {"[]", "", ""},
    {"\n[ ]\n", "", ""},
    {"[{\"a\":[1,2]},\n {\"b\":\"] , [\"}\n]\n", "1:{\"a\":[1,2]}|2:{\"b\":\"] , [\"}|",
     "{\"a\":[1,2]}|{\"b\":\"] , [\"}|"},
    {"[\n{\n\"a\":\"\\\"}\"\n}\n,\n\"x\\\\\",12 , null,true]",
     "2:{\n\"a\":\"\\\"}\"\n}|6:\"x\\\\\"|6:12|6:null|6:true|", "{\n\"a\":\"\\\"}\"\n}|\"x\\\\\"|12|null|true|"},
    {"[1,", "1:1|1: the array is not closed: the file is cut off", "1|open"},
    {"[{\"a\":", "1: the array is not closed: the file is cut off", "{\"a\":open"},
    {"[1]\n2", "1:1|2: found '2', expected nothing behind the \"]\" of the array",
     "1|found '2', expected nothing behind the \"]\" of the array"},
    {"[1,\n]", "1:1|2: found ']', expected a record behind \",\"", "1|found ']', expected a record behind \",\""},
    {"[{}{}]", "1:{}|1: found '{', expected \",\" or \"]\" behind a record",
     "{}|found '{', expected \",\" or \"]\" behind a record"},
    {"[,]", "1: found ',', expected a record or \"]\"", "found ',', expected a record or \"]\""},
    {"[}", "1: found '}', expected a record or \"]\"", "found '}', expected a record or \"]\""},
};

TEST(records_are_lines_or_elements) {
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char *got = found_in(texts[i].text);
        assert_string_equal(got, texts[i].lines);
        for (size_t n = 1; texts[i].pieces && n < 9; n++) {
            got = taken_from(texts[i].text, n);
            assert_string_equal(got, texts[i].pieces);
        }
    }
}

TEST(a_record_s_error_has_line_and_column) {
    static const char text[] = "[{\"text\": \"a\"},\n{\n  \"text\": \"\\ud83d\"}]";
    JsonRecords records = json_records_open(text, strlen(text), 1, true);
    Error error = {""};
    assert_true(json_records_next(&records, &error));
    json_t *object = json_records_parse(&records, asked, 0, &error);
    assert_non_null(object);
    json_decref(object);
    assert_true(json_records_next(&records, &error));
    assert_null(json_records_parse(&records, asked, 0, &error));
    assert_contains(error.text, "3:11: \"text\": ");
    static const char one_line[] = "[{\"text\": \"\u1edf\"}, {\"text\": \"\\ud83d\"}]"; /* columns of the line */
    JsonRecords second = json_records_open(one_line, strlen(one_line), 7, true);
    assert_true(json_records_next(&second, &error) && json_records_next(&second, &error));
    assert_null(json_records_parse(&second, asked, 0, &error));
    assert_contains(error.text, "7:26: \"text\": ");
    assert_false(json_records_next(&records, &error));
    assert_string_equal(error.text, "");
}
