#include "tests/report/rig.h"

#include "data/formats/csv.h"

/* ---- reading reports ---- */

Grid grid_read(const char *directory, const char *name) {
    char *path = kept_path(directory, name);
    Grid grid = {.text = read_text(path)};
    Csv csv;
    Error error;
    assert_true(csv_open(&csv, grid.text, strlen(grid.text), ',', &error));
    for (; csv_next(&csv, &error); grid.rows++) {
        if (!grid.rows) grid.columns = csv.n;
        if (grid.rows == 512 || csv.n > 64) fail_msg("%s: more than 512 rows or 64 columns", path);
        if (csv.n != grid.columns) fail_msg("%s: a row has %d fields, not %d", path, csv.n, grid.columns);
        memcpy(grid.cells[grid.rows], csv.fields, (size_t)csv.n * sizeof *csv.fields);
    }
    assert_string_equal(error.text, "");
    csv_close(&csv);
    return grid;
}

const char *grid_field(const Grid *csv, const char *key, const char *column) {
    int row = 1, at = 0;
    while (row < csv->rows && key && strcmp(csv->cells[row][0], key)) row++;
    while (at < csv->columns && strcmp(csv->cells[0][at], column)) at++;
    if (row == csv->rows || at == csv->columns) fail_msg("no %s of %s", column, key ? key : "the first row");
    return csv->cells[row][at];
}

double grid_number(const Grid *csv, const char *key, const char *column) {
    const char *text = grid_field(csv, key, column);
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end) fail_msg("%s of %s is '%s', no number", column, key ? key : "the first row", text);
    return value;
}

json_t *json_in(const char *directory, const char *name) {
    char *path = kept_path(directory, name), *text = kept_text(path);
    json_error_t where;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &where);
    if (!root) fail_msg("%s:%d: %s", path, where.line, where.text);
    return root;
}

json_t *json_at(const json_t *object, const char *key) {
    json_t *value = json_object_get(object, key);
    if (!value) fail_msg("there is no '%s'", key);
    return value;
}

double number_at(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value)) fail_msg("%s is no number", key);
    return json_number_value(value);
}

/* ---- a strict reader of a part of XML ---- */

static const char *xml_name(const char *at, char name[32]) {
    size_t n = strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-0123456789");
    if (!n || n > 31 || strchr("-0123456789", *at)) fail_msg("no name at '%.20s'", at);
    snprintf(name, 32, "%.*s", (int)n, at);
    return at + n;
}

/* Skips text up to one of `ends`. Allows no markup, only the five entities, and no control character but the newline.
 */
static const char *xml_text(const char *at, const char *ends) {
    static const char *const entities[] = {"&lt;", "&gt;", "&amp;", "&quot;", "&apos;"};
    for (; *at && !strchr(ends, *at); at++) {
        bool known = *at != '&';
        for (int e = 0; e < 5; e++) known |= !strncmp(at, entities[e], strlen(entities[e]));
        if (!known || *at == '<' || ((unsigned char)*at < ' ' && *at != '\n')) fail_msg("bad text at '%.20s'", at);
    }
    if (!*at) fail_msg("the file ends within text");
    return at;
}

static const char *xml_attributes(const char *at) {
    char names[16][32];
    for (int n = 0; *at == ' '; n++) {
        while (*at == ' ') at++;
        if (*at == '>' || *at == '/') break;
        at = xml_name(at, names[n]);
        for (int before = 0; before < n; before++) assert_string_not_equal(names[n], names[before]);
        if (strncmp(at, "=\"", 2)) fail_msg("an attribute without value at '%.20s'", at);
        at = xml_text(at + 2, "\"") + 1;
    }
    return at;
}

void assert_xml(const char *at) {
    char open[16][32], name[32];
    int depth = 0, roots = 0;
    while (*at) {
        if (*at != '<') {
            if (!depth && *at != '\n') fail_msg("text outside of the root: '%.20s'", at);
            at = depth ? xml_text(at, "<") : at + 1;
        } else if (at[1] == '/') {
            at = xml_name(at + 2, name);
            assert_true(depth > 0 && *at == '>');
            assert_string_equal(name, open[--depth]);
            at++;
        } else {
            roots += !depth;
            at = xml_attributes(xml_name(at + 1, open[depth]));
            bool empty = *at == '/';
            at += empty;
            assert_true(*at++ == '>' && depth < 15);
            depth += !empty;
        }
    }
    assert_int_equal(depth, 0);
    assert_int_equal(roots, 1);
}

char *svg_in(const char *directory, const char *name) {
    char *path = kept_path(directory, name), *text = kept_text(path);
    assert_xml(text);
    assert_true(!strncmp(text, "<svg xmlns=\"http://www.w3.org/2000/svg\" ", 40));
    return text;
}

int occurrences(const char *text, const char *part) {
    int n = 0;
    for (; (text = strstr(text, part)); text += strlen(part)) n++;
    return n;
}

/* ---- predictions ---- */

Covariate snr_of(const double *values) {
    return (Covariate){values, .limit = 1000, .bin = 5, .name = "snr", .title = "SNR", .unit = "dB"};
}

Evaluation evaluate(const Predictions *p) {
    Evaluation e;
    Error error;
    if (!evaluation_make(p, 1, &e, &error)) fail_msg("%s", error.text);
    return e;
}
