/* Reads any bytes as CSV. A table that was read, written and read again is the same. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/formats/csv.h"

static void check_written(const Csv *csv) {
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    Error error;
    fputs("head\n", file); /* a byte order mark is one at the beginning only */
    for (int i = 0; i < csv->n; i++) {
        if (i) fputc(',', file);
        csv_write(file, csv->fields[i]);
    }
    if (csv->n == 1 && !*csv->fields[0]) fputs("\"\"", file); /* an empty line is none */
    fputc('\n', file);
    fclose(file);
    Csv again;
    if (!csv_open(&again, text, size, ',', &error) || !csv_next(&again, &error) || !csv_next(&again, &error) ||
        again.n != csv->n)
        abort();
    for (int i = 0; i < csv->n; i++)
        if (strcmp(again.fields[i], csv->fields[i]) != 0) abort();
    csv_close(&again);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    Csv csv;
    Error error = {.text = ""};
    if (size) memcpy(text, data, size);
    text[size] = 0;
    bool ok = csv_open(&csv, text, size, ',', &error);
    if (!ok && !error.text[0]) abort();
    int64_t before = 0;
    while (ok && csv_next(&csv, &error)) {
        int64_t whole;
        double number;
        if (csv.n < 1 || csv.line <= before) abort();
        before = csv.line;
        for (int i = 0; i < csv.n; i++) {
            csv_number(csv.fields[i], &number);
            csv_integer(csv.fields[i], &whole);
        }
        check_written(&csv);
    }
    while (ok && error.text[0] && csv_skip(&csv)) { /* behind errors, too, a record is one of a later line */
        while (csv_next(&csv, &error)) {
            if (csv.line <= before) abort();
            before = csv.line;
        }
    }
    if (ok) csv_close(&csv);
    free(text);
    return 0;
}
