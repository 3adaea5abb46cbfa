#include "data/tts/recordings.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistr.h>

#include "base/file.h"

enum { MAX_ID_BYTES = 200 }; /* ID.npy.<16 hex>.partial then has 229; file systems allow 255 */

/* An id becomes the name of a file, so it must not leave the directory, nor be a hidden file. */
static bool check_id(const char *id, Error *error) {
    if (!*id) return error_set(error, "the id is empty");
    if (strlen(id) > MAX_ID_BYTES)
        return error_set(error, "the id is longer than %d bytes: %.60s...", MAX_ID_BYTES, id);
    if (*id == '.') return error_set(error, "the id %s begins with a dot, but files are named after it", id);
    for (const char *c = id; *c; c++)
        if (*c == '/' || (unsigned char)*c < ' ' || *c == 127)
            return error_set(error, "the id %s has a slash or a control character, but files are named after it", id);
    return true;
}

static bool check_recording(const Recording *r, Error *error) {
    if (!check_id(r->id, error)) return false;
    if (!*r->speaker) return error_set(error, "%s has no speaker", r->id);
    if (!*r->audio) return error_set(error, "%s has no audio file", r->id);
    return true;
}

static bool parse_tabs(const char *line, size_t n, Recording *r, Error *error) {
    char **fields[] = {&r->id, &r->speaker, &r->audio, &r->text};
    int tabs = 0;
    for (size_t i = 0; i < n; i++) tabs += line[i] == '\t';
    if (tabs != 3)
        return error_set(error, "has %d tab-separated fields, expected 4: id, speaker, audio file, text", tabs + 1);
    const uint8_t *wrong = u8_check((const uint8_t *)line, n);
    if (wrong) return error_set(error, "byte %lld is not UTF-8", (long long)((const char *)wrong - line + 1));
    if (memchr(line, 0, n)) return error_set(error, "has a zero byte");
    for (int i = 0; i < 4; i++) {
        const char *tab = i < 3 ? memchr(line, '\t', n) : line + n;
        *fields[i] = xformat("%.*s", (int)(tab - line), line);
        n -= (size_t)(tab - line) + (i < 3);
        line = tab + (i < 3);
    }
    return check_recording(r, error);
}

static bool take(const json_t *object, const char *key, char **out, Error *error) {
    const json_t *value = json_object_get(object, key);
    if (!value || json_is_null(value)) return error_set(error, "%s is missing", key);
    if (!json_is_string(value)) return error_set(error, "%s is not a string", key);
    *out = xstrdup(json_string_value(value));
    return true;
}

static bool parse_json(const char *line, size_t n, Recording *r, int *column, Error *error) {
    json_error_t problem;
    json_t *object = json_loadb(line, n, JSON_REJECT_DUPLICATES, &problem);
    if (!object) {
        *column = problem.column > 0 ? problem.column : 1;
        return error_set(error, "invalid JSON: %s", problem.text);
    }
    bool ok = json_is_object(object) || error_set(error, "expected a JSON object");
    ok = ok && take(object, "id", &r->id, error) && take(object, "speaker", &r->speaker, error) &&
         take(object, "audio", &r->audio, error) && take(object, "text", &r->text, error);
    const json_t *language = json_object_get(object, "language");
    if (ok && language && !json_is_null(language)) ok = take(object, "language", &r->language, error);
    json_decref(object);
    return ok && check_recording(r, error);
}

static int by_id(const void *a, const void *b) {
    const Recording *x = *(Recording *const *)a, *y = *(Recording *const *)b;
    int order = strcmp(x->id, y->id);
    return order ? order : (x->line > y->line) - (x->line < y->line);
}

static bool check_unique(const Recordings *all, Error *error) {
    const Recording **sorted = xmalloc((size_t)all->count * sizeof *sorted), *duplicate = NULL, *first = NULL;
    for (int64_t i = 0; i < all->count; i++) sorted[i] = &all->items[i];
    qsort(sorted, (size_t)all->count, sizeof *sorted, by_id);
    for (int64_t i = 1; i < all->count; i++)
        if (!strcmp(sorted[i]->id, sorted[i - 1]->id) && (!duplicate || sorted[i]->line < duplicate->line)) {
            first = sorted[i - 1];
            duplicate = sorted[i];
        }
    free(sorted);
    return !duplicate || error_set(error, "%lld: the id %s is also that of line %lld", (long long)duplicate->line,
                                   duplicate->id, (long long)first->line);
}

/* Refuses a first line that has two or more names of columns in place of values. */
static bool check_header(const Recordings *all, Error *error) {
    if (!all->count) return true;
    const Recording *r = all->items;
    int names = !strcasecmp(r->id, "id") + !strcasecmp(r->speaker, "speaker") + !strcasecmp(r->audio, "audio") +
                !strcasecmp(r->text, "text");
    return names < 2 ||
           error_set(error, "%lld: this line looks like a header (%s, %s, ...); a list has none: remove it",
                     (long long)r->line, r->id, r->speaker);
}

static bool parse_line(Recordings *all, const char *line, size_t n, int64_t number, bool json_lines, Error *error) {
    Recording *r = &all->items[all->count++];
    Error why;
    int column = 0;
    *r = (Recording){.line = number};
    if (json_lines ? parse_json(line, n, r, &column, &why) : parse_tabs(line, n, r, &why)) return true;
    if (column) return error_set(error, "%lld:%d: %s", (long long)number, column, why.text);
    return error_set(error, "%lld: %s", (long long)number, why.text);
}

bool recordings_parse(const char *text, size_t size, bool json_lines, Recordings *out, Error *error) {
    const char *end = text + size;
    int64_t number = 0, capacity = 0;
    bool ok = true;
    *out = (Recordings){0};
    if (size >= 3 && !memcmp(text, "\xEF\xBB\xBF", 3)) text += 3;
    for (const char *at = text, *stop; ok && at < end; at = stop + 1) {
        stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) stop = end;
        size_t n = (size_t)(stop - at);
        if (n && at[n - 1] == '\r') n--;
        number++;
        if (!n) continue;
        if (out->count == capacity)
            out->items = xrealloc(out->items, (size_t)(capacity = 2 * capacity + 256) * sizeof *out->items);
        ok = parse_line(out, at, n, number, json_lines, error);
    }
    ok = ok && (json_lines || check_header(out, error)) && check_unique(out, error);
    if (!ok) recordings_close(out);
    return ok;
}

bool recordings_read(const char *path, Recordings *out, Error *error) {
    char *bytes;
    size_t size;
    Error why;
    bool json_lines = ends_with(path, ".jsonl");
    if (!json_lines && !ends_with(path, ".tsv"))
        return error_set(error, "%s: the name must end in .tsv or .jsonl, which says what format it has", path);
    if (!read_file(path, &bytes, &size, &why)) return error_set(error, "%s: %s", path, why.text);
    bool ok = recordings_parse(bytes, size, json_lines, out, &why);
    free(bytes);
    if (!ok) return error_set(error, "%s:%s", path, why.text);
    return out->count > 0 || error_set(error, "%s: holds no recordings", path);
}

void recordings_close(Recordings *recordings) {
    for (int64_t i = 0; i < recordings->count; i++) {
        Recording *r = &recordings->items[i];
        free(r->id);
        free(r->speaker);
        free(r->audio);
        free(r->text);
        free(r->language);
    }
    free(recordings->items);
    *recordings = (Recordings){0};
}
