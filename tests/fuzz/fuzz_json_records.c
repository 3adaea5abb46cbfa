/* Any bytes as a text of JSON records, in memory and in pieces: both find the same elements of an array, the records
 * follow each other, and a record that was read has no more fields than were in it. The first byte chooses the size of
 * the pieces. */
#include <stdlib.h>
#include <string.h>

#include "data/formats/json_records.h"

/* Appends the elements of an array that comes in pieces, each with a line end. */
static bool take(const char *text, size_t size, size_t piece_size, FILE *out) {
    JsonArray array = {0};
    Error error;
    for (size_t at = 0; at < size;) {
        size_t taken, left = size - at;
        JsonPiece piece;
        if (!json_array_take(&array, text + at, left < piece_size ? left : piece_size, &taken, &piece, &error))
            return false;
        if (taken > left || (!taken && piece != JSON_LAST_PART)) abort();
        if (piece != JSON_BETWEEN) fwrite(text + at, 1, taken, out);
        if (piece == JSON_LAST_PART) fputc('\n', out);
        at += taken;
    }
    return json_array_is_closed(&array);
}

static void check_pieces(const char *text, size_t size, size_t piece_size) {
    char *a, *b;
    size_t n_a, n_b;
    FILE *whole = open_memstream(&a, &n_a), *pieces = open_memstream(&b, &n_b);
    bool closed = take(text, size, size, whole);
    if (take(text, size, piece_size, pieces) != closed) abort();
    fclose(whole);
    fclose(pieces);
    if (closed && (n_a != n_b || memcmp(a, b, n_a) != 0)) abort();
    free(a);
    free(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[] = {"text", "label", NULL};
    if (!size) return 0;
    size_t n = size - 1, piece_size = (size_t)data[0] % 16 + 1;
    char *text = malloc(n + 1);
    memcpy(text, data + 1, n);
    text[n] = 0;
    JsonRecords records = json_records_open(text, n, 1, true);
    Error error;
    for (int64_t line = 0; json_records_next(&records, &error);) {
        if (records.line < line || !records.size || records.text < text || records.text + records.size > text + n)
            abort();
        line = records.line;
        Error why = {.text = ""};
        json_t *record = json_records_parse(&records, names, 0, &why);
        if (!record == !why.text[0]) abort();
        json_decref(record);
    }
    if (json_begins_array(text, n)) check_pieces(text, n, piece_size);
    free(text);
    return 0;
}
