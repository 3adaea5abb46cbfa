#include "data/gpt/list_reader.h"

#include <stdlib.h>
#include <string.h>

#include "data/formats/json_records.h"
#include "data/text/encoding.h"

static bool is_time(int field) { return field >= FIELD_START; }

static bool may_be_number(int field) { return field != FIELD_AUDIO && field != FIELD_TEXT; }

/* Returns a string, the path of an object of Hugging Face's, a time, or the digits of an integer where it can be a
 * name; free(). NULL if the value is none of them. */
static char *take(const json_t *value, int field) {
    if (field == FIELD_AUDIO && json_is_object(value)) value = json_object_get(value, "path");
    if (json_is_string(value)) return xstrdup(json_string_value(value));
    if (is_time(field) && json_is_real(value)) return xformat("%.17g", json_real_value(value));
    if (may_be_number(field) && !is_time(field) && json_large_number(value)) return xstrdup(json_large_number(value));
    return may_be_number(field) && json_is_integer(value) ? xformat("%lld", (long long)json_integer_value(value))
                                                          : NULL;
}

static bool is_given(const json_t *value) { return value && !json_is_null(value); }

/* Returns the names of an object's fields, "id, text"; free(). */
static char *names_of(const json_t *object) {
    char *names = xstrdup("");
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)object, name, value) { xappend(&names, "%s%s", *names ? ", " : "", name); }
    return names;
}

bool recordings_are_one_object(const char *text, size_t size, Error *words) {
    static const char *const none[] = {NULL};
    for (; size && strchr(" \t\r\n", *text) && *text; size--) text++;
    const char *end = memchr(text, '\n', size);
    size_t at;
    json_auto_t *line = json_record(text, end ? (size_t)(end - text) : size, none, 0, &at, words),
                *object = line ? NULL : json_record(text, size, none, 0, &at, words);
    if (!json_is_object(object)) return false;
    OWNED char *names = names_of(object);
    (void)error_set(words,
                    "the file is one JSON object, with the fields %.200s; expected an object per line, or an array of "
                    "objects: jq -c '.FIELD[]' FILE >NEW.jsonl makes lines of an array in a field",
                    names);
    return true;
}

/* Says that a field has another type or is missing, and then which are there. Returns false. */
static bool set_missing(const json_t *object, const char *key, int field, Error *error) {
    if (is_given(json_object_get(object, key)))
        return error_set(error, "%s is %s", key,
                         is_time(field)         ? "neither a string nor a number"
                         : may_be_number(field) ? "neither a string nor an integer"
                                                : "not a string");
    OWNED char *names = names_of(object);
    return error_set(error, "%s is missing (--%s-field); the fields of the line are %s", key,
                     recording_field_name(field), *names ? names : "none");
}

/* The first line decides whether there are ids and speakers: all lines have them, or none. */
static bool check_fields(ListReader *reader, const json_t *object, Recording *r, Error *error) {
    for (int i = 0; i <= FIELD_TEXT; i++) {
        bool is_there = *recording_field(r, i);
        bool must = i >= FIELD_AUDIO || (reader->given[i] && reader->names[i]);
        if (!reader->started) reader->columns[i] = must || is_there ? 0 : -1;
        if (!is_there && !reader->columns[i]) return set_missing(object, reader->names[i], i, error);
        if (is_there && reader->columns[i] < 0)
            return error_set(error, "has %s, which the first line has not", reader->names[i]);
    }
    reader->out->has_ids = !reader->columns[FIELD_ID];
    reader->out->has_speakers = !reader->columns[FIELD_SPEAKER];
    reader->started = true;
    const json_t *language = json_object_get(object, reader->names[FIELD_LANGUAGE]);
    reader->has_language |= language != NULL;
    return r->language || !reader->given[FIELD_LANGUAGE] || !is_given(language) ||
           set_missing(object, reader->names[FIELD_LANGUAGE], FIELD_LANGUAGE, error);
}

/* Adds the names that are asked for, and takes the first of the usual ones that the object has for a field that no
 * option names: of all but the times by the first line, as these may be left out there. */
static void choose_names(ListReader *reader, const char *line, size_t n) {
    size_t at;
    json_auto_t *object = json_record(line, n, (const char *const[]){NULL}, 0, &at, NULL);
    for (int i = 0; i < RECORDING_FIELDS; i++) {
        bool is_open = reader->columns[i] < 0 && !reader->given[i] && (!reader->started || i >= FIELD_LANGUAGE);
        for (const char *const *name = recording_field_names(i); is_open && *name; name++)
            if (json_object_get(object, *name)) {
                reader->names[i] = *name;
                if (i >= FIELD_LANGUAGE) reader->columns[i] = 0;
                break;
            }
    }
}

/* Refuses a time that is neither text nor number, and, if an option names it, is not missing. */
static bool check_times(const ListReader *reader, const json_t *object, Recording *r, Error *error) {
    for (int i = FIELD_START; i < RECORDING_FIELDS; i++) {
        const json_t *value = json_object_get(object, reader->names[i]);
        if (!*recording_field(r, i) && is_given(value) && (i != FIELD_DURATION || reader->given[i]))
            return set_missing(object, reader->names[i], i, error);
    }
    return true;
}

bool recordings_read_json(ListReader *reader, const char *line, size_t n, Recording *r, int64_t *number, int *column,
                          Error *error) {
    const char *names[RECORDING_FIELDS + 1];
    int count = 0;
    size_t at;
    choose_names(reader, line, n);
    for (int i = 0; i < RECORDING_FIELDS; i++)
        if (reader->names[i]) names[count++] = reader->names[i];
    names[count] = NULL;
    json_auto_t *object = json_record(line, n, names, 0, &at, error);
    if (!object && !encoding_check_line(line, n, error)) return false;
    if (!object) {
        *column = json_column(line, at, *column ? *column : 1, number);
        return error_before(error, "invalid JSON: ");
    }
    if (!json_is_object(object)) return error_set(error, "expected a JSON object");
    for (int i = 0; i < RECORDING_FIELDS; i++)
        *recording_field(r, i) = take(json_object_get(object, reader->names[i]), i);
    return check_fields(reader, object, r, error) && check_times(reader, object, r, error);
}
