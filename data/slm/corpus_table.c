#include "data/slm/corpus_table.h"

#include <stdlib.h>
#include <string.h>

#include "data/formats/csv.h"

bool corpus_table_in_quotes(int *state, char separator, const char *bytes, size_t size) {
    enum { BEGIN, BARE, QUOTED, CLOSED }; /* of a field; CLOSED: behind a quote, which may be the first of two */
    for (const char *at = bytes; at < bytes + size; at++) {
        bool ends = *at == '\n' || (separator ? *at == separator : *at && strchr(",;\t|", *at));
        if (*state == QUOTED)
            *state = *at == '"' ? CLOSED : QUOTED;
        else if (*at == '"' && *state != BARE)
            *state = QUOTED;
        else
            *state = ends ? BEGIN : BARE;
    }
    return *state == QUOTED;
}

bool corpus_table_head(const char *lines, size_t size, int64_t line, char usual, const char *text_field,
                       CorpusTable *table, Error *error) {
    OWNED char *copy = xformat("%.*s", (int)size, lines);
    Csv csv;
    Error why = {.text = ""};
    bool ok = csv_open(&csv, copy, strlen(copy), usual, &why);
    csv.next_line += line - 1;
    ok = ok && (csv_next(&csv, &why) || (!*why.text && error_set(&why, "1: there are no column names")));
    ok = ok && csv_column(&csv, text_field, " (--text-field NAME)", &table->column, &why);
    table->separator = csv.separator;
    table->n = csv.n;
    if (!ok) error_set(error, "line %s", why.text);
    csv_close(&csv);
    return ok;
}

char *corpus_table_text(const CorpusTable *table, const char *record, int64_t line, size_t *size, Error *error) {
    OWNED char *copy = memcpy(xmalloc(*size + 1), record, *size);
    copy[*size] = 0;
    Csv csv = {.at = copy, .next_line = line, .separator = table->separator};
    bool ok = strlen(copy) == *size || error_set(error, "%lld: has a zero byte; take it out", (long long)line);
    ok = ok && csv_next(&csv, error) &&
         (csv.n == table->n ||
          error_set(error,
                    "%lld: has %d fields; the line of column names has %d; a field with separators in it needs quotes",
                    (long long)csv.line, csv.n, table->n));
    char *text = NULL;
    if (ok) {
        *size = strlen(csv.fields[table->column]);
        text = memcpy(xmalloc(*size + 1), csv.fields[table->column], *size);
    } else {
        error_before(error, "line ");
    }
    csv_close(&csv);
    return text;
}
