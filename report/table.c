/* Tables of results. */
#include "report/table.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text_file.h"
#include "data/formats/csv.h"

/* ---- filling ---- */

/* Adds a cell, which must be of the next column. */
static Cell *cell_add(Table *t, const char *column) {
    if (t->n == t->columns && (!t->columns || strcmp(column, t->names[0]))) { /* still in the first row */
        t->names = xrealloc(t->names, (size_t)(t->columns + 1) * sizeof *t->names);
        t->names[t->columns++] = xstrdup(column);
    }
    assert(!strcmp(column, t->names[t->n % t->columns]));
    t->cells = xgrow(t->cells, (size_t)t->n, sizeof *t->cells);
    return &t->cells[t->n++];
}

void table_text(Table *t, const char *column, const char *value) {
    *cell_add(t, column) = (Cell){.kind = CELL_TEXT, .text = xstrdup(value)};
}

void table_count(Table *t, const char *column, int64_t value) {
    *cell_add(t, column) = (Cell){.kind = CELL_COUNT, .count = value};
}

void table_real(Table *t, const char *column, double value) {
    *cell_add(t, column) = (Cell){.kind = CELL_REAL, .real = value};
}

void table_reals(Table *t, const char *what, const char *const *names, const double *values, int n) {
    for (int i = 0; i < n; i++) {
        OWNED char *column = xformat("%s_%s", what, names[i]);
        table_real(t, column, values[i]);
    }
}

int64_t table_rows(const Table *t) { return t->columns ? t->n / t->columns : 0; }

void table_clear(Table *t) {
    for (int64_t i = 0; i < t->n; i++) free(t->cells[i].text);
    t->n = 0;
}

void table_free(Table *t) {
    table_clear(t);
    for (int c = 0; c < t->columns; c++) free(t->names[c]);
    FREE(t->names, t->cells);
    *t = (Table){0};
}

/* ---- CSV ---- */

void table_print_csv(const Table *t, bool names, FILE *out) {
    for (int c = 0; c < t->columns && names; c++) {
        csv_write(out, t->names[c]);
        fputc(c + 1 < t->columns ? ',' : '\n', out);
    }
    for (int64_t i = 0; i < t->n; i++) {
        const Cell *cell = &t->cells[i];
        if (cell->kind == CELL_TEXT) csv_write(out, cell->text);
        if (cell->kind == CELL_COUNT) fprintf(out, "%lld", (long long)cell->count);
        if (cell->kind == CELL_REAL) csv_write_number(out, cell->real);
        fputc((i + 1) % t->columns ? ',' : '\n', out);
    }
}

bool table_write_csv(const Table *t, const char *path, Error *error) {
    TextFile file;
    text_file_begin(&file);
    table_print_csv(t, true, file.out);
    return text_file_end(&file, path, error);
}

/* ---- for people ---- */

/* Returns a cell as people read it; `number` holds the text of numbers. */
static const char *readable(const Cell *cell, char number[32]) {
    if (cell->kind == CELL_TEXT) return cell->text;
    if (cell->kind == CELL_REAL && isnan(cell->real)) return "-";
    if (cell->kind == CELL_COUNT)
        snprintf(number, 32, "%lld", (long long)cell->count);
    else
        snprintf(number, 32, fabs(cell->real) < 1e6 ? "%.4f" : "%.6g", cell->real);
    return number;
}

static void write_markdown_cell(FILE *out, const char *text) {
    fputs("| ", out);
    for (; *text; text++) {
        if (*text == '|' || *text == '\\') fputc('\\', out);
        fputc(*text, out);
    }
    fputc(' ', out);
}

void table_print_markdown(const Table *t, int columns, FILE *out) {
    char number[32];
    if (!t->n) return;
    for (int c = 0; c < columns; c++) write_markdown_cell(out, t->names[c]);
    fputs("|\n", out);
    for (int c = 0; c < columns; c++) fputs(t->cells[c].kind == CELL_TEXT ? "|---" : "|---:", out);
    fputs("|\n", out);
    for (int64_t row = 0; row < table_rows(t); row++) {
        for (int c = 0; c < columns; c++) write_markdown_cell(out, readable(&t->cells[row * t->columns + c], number));
        fputs("|\n", out);
    }
}

void table_print_section(const Table *t, const char *title, FILE *out) {
    if (!t->n) return;
    fprintf(out, "\n## %s\n\n", title);
    table_print_markdown(t, t->columns, out);
}

static int characters(const char *utf8) {
    int n = 0;
    for (; *utf8; utf8++) n += (*utf8 & 0xC0) != 0x80;
    return n;
}

static void print_padded(FILE *out, const char *text, int width, bool left) {
    int space = width - characters(text);
    fprintf(out, "  %*s%s%*s", left ? 0 : space, "", text, left ? space : 0, "");
}

/* Prints columns as wide as their widest cell: texts to the left, numbers to the right. */
void table_print(const Table *t, int columns, FILE *out) {
    char number[32];
    OWNED int *widths = xcalloc((size_t)columns + 1, sizeof *widths);
    for (int c = 0; c < columns; c++) {
        widths[c] = characters(t->names[c]);
        for (int64_t i = c; i < t->n; i += t->columns) {
            int width = characters(readable(&t->cells[i], number));
            if (width > widths[c]) widths[c] = width;
        }
    }
    for (int64_t row = -1; row < table_rows(t); row++) { /* -1: the names */
        for (int c = 0; c < columns; c++)
            print_padded(out, row < 0 ? t->names[c] : readable(&t->cells[row * t->columns + c], number), widths[c],
                         t->n && t->cells[c].kind == CELL_TEXT);
        fputc('\n', out);
    }
}

/* ---- JSON ---- */

static json_t *row_to_json(const Table *t, int64_t row) {
    json_t *object = json_object();
    for (int c = 0; c < t->columns; c++) {
        const Cell *cell = &t->cells[row * t->columns + c];
        json_object_set_new(object, t->names[c],
                            cell->kind == CELL_TEXT    ? json_string(cell->text)
                            : cell->kind == CELL_COUNT ? json_integer(cell->count)
                                                       : real_or_null(cell->real));
    }
    return object;
}

json_t *table_to_json(const Table *t) {
    json_t *rows = json_array();
    for (int64_t row = 0; row < table_rows(t); row++) json_array_append_new(rows, row_to_json(t, row));
    return rows;
}

void table_print_json_lines(const Table *t, FILE *out) {
    for (int64_t row = 0; row < table_rows(t); row++) {
        json_auto_t *object = row_to_json(t, row);
        OWNED char *line = json_text("a row of predictions", object, JSON_COMPACT | JSON_REAL_PRECISION(17));
        fprintf(out, "%s\n", line);
    }
}

bool json_write(json_t *root, const char *path, Error *error) {
    TextFile file;
    text_file_begin(&file);
    if (json_dumpf(root, file.out, JSON_INDENT(1) | JSON_REAL_PRECISION(17))) die("%s: no JSON can be made", path);
    fputc('\n', file.out);
    json_decref(root);
    return text_file_end(&file, path, error);
}
