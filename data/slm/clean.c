#include "data/slm/clean.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uninorm.h>
#include <unistr.h>

#include "data/formats/json_records.h"
#include "data/text/encoding.h"

/* ---- UTF-8 ---- */

static bool check_utf8(const char *raw, size_t size, const CleanPlace *place, Error *error) {
    int64_t line = place->line;
    const uint8_t *bad = u8_check((const uint8_t *)raw, size);
    if (!bad) return true;
    size_t at = (size_t)(bad - (const uint8_t *)raw);
    for (const char *end = raw; (end = memchr(end, '\n', at - (size_t)(end - raw))); end++) line++;
    return error_set(error, "line %lld, byte %lld of the file: 0x%02x begins no UTF-8 character; %s", (long long)line,
                     (long long)(place->offset + (int64_t)at), *bad, encoding_advice(raw, size));
}

/* ---- JSON ---- */

/* Names the fields of a record that hold texts, for an error. */
static void list_texts(const json_t *record, char out[200]) {
    const char *key;
    json_t *value;
    size_t used = 0;
    out[0] = 0;
    json_object_foreach((json_t *)record, key, value) {
        if (!json_is_string(value) || used > 120) continue;
        used += (size_t)snprintf(out + used, 200 - used, "%s'%.40s'", used ? ", " : "", key);
    }
}

static bool take_field(const json_t *record, const char *field, const CleanPlace *place, CleanText *out, Error *error) {
    const json_t *value = json_object_get(record, field);
    char texts[200], where[64];
    if (json_is_string(value)) {
        out->size = json_string_length(value);
        out->text = out->owned = memcpy(xmalloc(out->size), json_string_value(value), out->size);
        return true;
    }
    snprintf(where, sizeof where, place->column > 1 ? "line %lld, column %d" : "line %lld", (long long)place->line,
             place->column);
    if (!json_is_object(record)) return error_set(error, "%s: is no JSON object", where);
    list_texts(record, texts);
    return error_set(error, "%s: the record has no text '%s'; its texts are: %s (--text-field NAME)", where, field,
                     *texts ? texts : "none");
}

static bool take_record(const char *raw, size_t size, const char *field, const CleanPlace *place, CleanText *out,
                        Error *error) {
    const char *const names[] = {field, NULL};
    size_t at;
    Error why;
    json_auto_t *record = json_record(raw, size, names, JSON_ALLOW_NUL, &at, &why);
    if (!record) {
        int64_t line = place->line;
        int column = json_column(raw, at, place->column, &line);
        return error_set(error, "line %lld, column %d: %s; expected a JSON object per line, or an array of them",
                         (long long)line, column, why.text);
    }
    return take_field(record, field, place, out, error);
}

/* ---- line ends ---- */

/* Removes carriage returns directly before a line end. */
static size_t unify_line_ends(char *text, size_t size) {
    char *begin = memchr(text, '\r', size), *to = begin, *end = text + size;
    if (!to) return size;
    for (const char *from = begin; from < end; from++) {
        while (*from == '\n' && to > begin && to[-1] == '\r') to--;
        *to++ = *from;
    }
    return (size_t)(to - text);
}

/* ---- composition ---- */

/* Characters that stay as they are in NFC, whatever precedes or follows them within these ranges: those below U+0300,
 * and letters, ideographs and punctuation without combining characters and singletons. */
static bool is_inert(ucs4_t c) {
    static const struct {
        ucs4_t first, last;
    } ranges[] = {{0x0000, 0x02ff}, {0x03b1, 0x03c9}, {0x0410, 0x0482}, {0x05d0, 0x05ea}, {0x0620, 0x064a},
                  {0x1200, 0x135a}, {0x2010, 0x2027}, {0x2030, 0x205e}, {0x2190, 0x21ff}, {0x3041, 0x3096},
                  {0x30a1, 0x30fa}, {0x3400, 0x4dbf}, {0x4e00, 0x9fff}, {0xac00, 0xd7a3}, {0xff01, 0xff5e}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (c <= ranges[i].last) return c >= ranges[i].first;
    return false;
}

bool clean_is_composed(const char *text, size_t size) {
    const uint8_t *at = (const uint8_t *)text, *end = at + size;
    while (at < end) {
        ucs4_t c = *at;
        if (c < 0xcc) { /* ASCII, or a byte of a character below U+0300 */
            at++;
            continue;
        }
        at += u8_mbtouc_unsafe(&c, at, (size_t)(end - at));
        if (!is_inert(c)) return false;
    }
    return true;
}

static void compose(CleanText *out) {
    size_t n = 0;
    if (clean_is_composed(out->text, out->size)) return;
    uint8_t *text = u8_normalize(UNINORM_NFC, (const uint8_t *)out->text, out->size, NULL, &n);
    if (!text) die("out of memory for the normalisation of %zu bytes", out->size);
    free(out->owned);
    out->text = out->owned = (char *)text;
    out->size = n;
}

bool clean_text(char *raw, size_t size, const CleanOptions *options, const CleanPlace *place, CleanText *out,
                Error *error) {
    *out = (CleanText){.text = raw, .size = size};
    if (!check_utf8(raw, size, place, error)) return false;
    if (options->field && !take_record(raw, size, options->field, place, out, error)) return false;
    if (options->table) {
        out->text = out->owned = corpus_table_text(options->table, raw, place->line, &out->size, error);
        if (!out->text) return false;
    }
    out->size = unify_line_ends(out->text, out->size);
    if (!out->owned && !options->keep_last_end && out->size && out->text[out->size - 1] == '\n') out->size--;
    if (options->nfc) compose(out);
    return true;
}
