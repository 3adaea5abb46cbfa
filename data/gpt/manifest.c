/* A line is a pair if it names both a prompt's conditioning and a target's codes, else a single utterance, which is its
 * own prompt. Either way the record names the files of four arrays, which are not opened here. */
#include "data/gpt/manifest.h"

#include <math.h>

#include "data/formats/json_records.h"
#include "data/text/encoding.h"

static const char *kind_name(const json_t *value) {
    static const char *const names[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "a list", [JSON_STRING] = "a string", [JSON_INTEGER] = "an integer",
        [JSON_REAL] = "a number",    [JSON_TRUE] = "true",    [JSON_FALSE] = "false",     [JSON_NULL] = "null"};
    return json_large_number(value) ? "a number of more than 64 bits" : names[json_typeof(value)];
}

/* Takes the string at `key`; NULL if it is optional and missing or null. A required string must not be empty. */
static bool take_string(const ManifestRecord *r, const char *key, bool required, const char **out, Error *error) {
    json_t *value = json_object_get(r->json, key);
    *out = NULL;
    if (!value || json_is_null(value)) return !required || error_set(error, "%s is missing", key);
    if (!json_is_string(value)) return error_set(error, "%s is %s, expected a string", key, kind_name(value));
    *out = json_string_value(value);
    if (required && !**out) return error_set(error, "%s is empty", key);
    return true;
}

/* Takes the count at `key`; `default_value` if it is missing. A negative default: the count is required. */
static bool take_count(const ManifestRecord *r, const char *key, int64_t default_value, int64_t *out, Error *error) {
    json_t *value = json_object_get(r->json, key);
    *out = default_value;
    if (!value) return default_value >= 0 || error_set(error, "%s is missing", key);
    if (!json_is_integer(value)) return error_set(error, "%s is %s, expected a count", key, kind_name(value));
    *out = json_integer_value(value);
    if (*out < 0) return error_set(error, "%s is %lld, expected a count", key, (long long)*out);
    return true;
}

static bool take_duration(const ManifestRecord *r, const char *key, double *out, Error *error) {
    const double longest = 1e6; /* no clip lasts eleven days */
    json_t *value = json_object_get(r->json, key);
    *out = (double)NAN;
    if (!value || json_is_null(value)) return true;
    if (!json_is_number(value)) return error_set(error, "%s is %s, expected seconds", key, kind_name(value));
    *out = json_number_value(value);
    if (*out >= 0 && *out <= longest) return true;
    return error_set(error, "%s is %g, expected seconds", key, *out);
}

/* A member of a line and its place in the record. FILE_PATH: with its key, for messages; it must be there.
 * MAYBE_FILE_PATH: it need not. COUNT: `usual` if it is not there; -1: it must be. */
typedef struct {
    const char *key;
    enum { TEXT, FILE_PATH, MAYBE_FILE_PATH, COUNT, SECONDS } kind;
    size_t at, key_at;
    int64_t usual;
} Member;

#define AT(member)            offsetof(ManifestRecord, member)
#define FILE_AT(file)         AT(file##_path), AT(file##_key), 0
#define VALUE(member)         AT(member), 0, 0
#define NUMBER(member, usual) AT(member), 0, usual

static const Member paired[] = {{"target_id", TEXT, VALUE(target_id)},
                                {"target_text_ids_path", FILE_PATH, FILE_AT(text_ids)},
                                {"target_codes_path", FILE_PATH, FILE_AT(codes)},
                                {"prompt_condition_path", FILE_PATH, FILE_AT(condition)},
                                {"prompt_emo_vec_path", MAYBE_FILE_PATH, FILE_AT(emo_vec)},
                                {"target_text_len", COUNT, NUMBER(text_len, -1)},
                                {"target_code_len", COUNT, NUMBER(code_len, -1)},
                                {"prompt_condition_len", COUNT, NUMBER(condition_len, 32)},
                                {"target_duration", SECONDS, VALUE(duration)},
                                {"prompt_id", TEXT, VALUE(prompt_id)},
                                {"prompt_duration", SECONDS, VALUE(prompt_duration)},
                                {NULL, TEXT, 0, 0, 0}},
                    target_emotion = {"target_emo_vec_path", MAYBE_FILE_PATH, FILE_AT(emo_vec)},
                    single[] = {{"text_ids_path", FILE_PATH, FILE_AT(text_ids)},
                                {"codes_path", FILE_PATH, FILE_AT(codes)},
                                {"condition_path", FILE_PATH, FILE_AT(condition)},
                                {"emo_vec_path", FILE_PATH, FILE_AT(emo_vec)},
                                {"text_len", COUNT, NUMBER(text_len, -1)},
                                {"code_len", COUNT, NUMBER(code_len, -1)},
                                {"condition_len", COUNT, NUMBER(condition_len, 32)},
                                {"duration", SECONDS, VALUE(duration)},
                                {NULL, TEXT, 0, 0, 0}};

static bool take_member(ManifestRecord *r, const Member *m, Error *error) {
    void *at = (char *)r + m->at, *key = (char *)r + m->key_at;
    if (m->kind == COUNT) return take_count(r, m->key, m->usual, at, error);
    if (m->kind == SECONDS) return take_duration(r, m->key, at, error);
    if (m->kind != TEXT) *(const char **)key = m->key;
    return take_string(r, m->key, m->kind == FILE_PATH, at, error);
}

static bool take_members(ManifestRecord *r, Error *error) {
    for (const Member *m = r->paired ? paired : single; m->key; m++)
        if (!take_member(r, m, error)) return false;
    if (!r->target_id || !*r->target_id) r->target_id = r->id;
    if (r->emo_vec_path && *r->emo_vec_path) return true;
    if (!take_member(r, &target_emotion, error)) return false;
    return (r->emo_vec_path && *r->emo_vec_path) ||
           error_set(error, "neither prompt_emo_vec_path nor target_emo_vec_path is given");
}

bool manifest_parse_line(const char *line, size_t n, ManifestRecord *record, int64_t *number, int *column,
                         Error *error) {
    const char *names[3 + sizeof paired / sizeof *paired + sizeof single / sizeof *single] = {"id", target_emotion.key};
    int n_names = 2;
    for (const Member *m = paired; m->key; m++) names[n_names++] = m->key;
    for (const Member *m = single; m->key; m++) names[n_names++] = m->key;
    size_t at;
    *record = (ManifestRecord){0};
    record->json = json_record(line, n, names, 0, &at, error);
    if (!record->json && !encoding_check_line(line, n, error)) return false;
    if (!record->json) {
        *column = json_column(line, at, *column ? *column : 1, number);
        return error_before(error, "invalid JSON: ");
    }
    bool ok =
        json_is_object(record->json) || error_set(error, "the line is %s, expected an object", kind_name(record->json));
    ok = ok && take_string(record, "id", true, &record->id, error);
    bool prompt = json_object_get(record->json, "prompt_condition_path");
    bool target = json_object_get(record->json, "target_codes_path");
    if (ok && prompt != target)
        ok = error_set(error, "%s is missing: a pair has both prompt_condition_path and target_codes_path",
                       prompt ? "target_codes_path" : "prompt_condition_path");
    record->paired = prompt && target;
    ok = ok && take_members(record, error);
    if (!ok) manifest_record_close(record);
    return ok;
}

void manifest_record_close(ManifestRecord *record) {
    json_decref(record->json);
    *record = (ManifestRecord){0};
}
