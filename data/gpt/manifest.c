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

static bool parse_paired(ManifestRecord *r, Error *error) {
    const char *target;
    r->text_ids_key = "target_text_ids_path";
    r->codes_key = "target_codes_path";
    r->condition_key = "prompt_condition_path";
    r->emo_vec_key = "prompt_emo_vec_path";
    if (!take_string(r, "target_id", false, &target, error) ||
        !take_string(r, r->text_ids_key, true, &r->text_ids_path, error) ||
        !take_string(r, r->codes_key, true, &r->codes_path, error) ||
        !take_string(r, r->condition_key, true, &r->condition_path, error) ||
        !take_string(r, r->emo_vec_key, false, &r->emo_vec_path, error) ||
        !take_count(r, "target_text_len", -1, &r->text_len, error) ||
        !take_count(r, "target_code_len", -1, &r->code_len, error) ||
        !take_count(r, "prompt_condition_len", 32, &r->condition_len, error) ||
        !take_duration(r, "target_duration", &r->duration, error) ||
        !take_string(r, "prompt_id", false, &r->prompt_id, error) ||
        !take_duration(r, "prompt_duration", &r->prompt_duration, error))
        return false;
    r->target_id = target && *target ? target : r->id;
    if (r->emo_vec_path && *r->emo_vec_path) return true;
    r->emo_vec_key = "target_emo_vec_path";
    if (!take_string(r, r->emo_vec_key, false, &r->emo_vec_path, error)) return false;
    if (r->emo_vec_path && *r->emo_vec_path) return true;
    return error_set(error, "neither prompt_emo_vec_path nor target_emo_vec_path is given");
}

static bool parse_single(ManifestRecord *r, Error *error) {
    r->text_ids_key = "text_ids_path";
    r->codes_key = "codes_path";
    r->condition_key = "condition_path";
    r->emo_vec_key = "emo_vec_path";
    r->target_id = r->id;
    return take_string(r, r->text_ids_key, true, &r->text_ids_path, error) &&
           take_string(r, r->codes_key, true, &r->codes_path, error) &&
           take_string(r, r->condition_key, true, &r->condition_path, error) &&
           take_string(r, r->emo_vec_key, true, &r->emo_vec_path, error) &&
           take_count(r, "text_len", -1, &r->text_len, error) && take_count(r, "code_len", -1, &r->code_len, error) &&
           take_count(r, "condition_len", 32, &r->condition_len, error) &&
           take_duration(r, "duration", &r->duration, error);
}

bool manifest_parse_line(const char *line, size_t n, ManifestRecord *record, int64_t *number, int *column,
                         Error *error) {
    static const char *const names[] = {"id",
                                        "target_id",
                                        "prompt_id",
                                        "target_text_ids_path",
                                        "target_codes_path",
                                        "prompt_condition_path",
                                        "prompt_emo_vec_path",
                                        "target_emo_vec_path",
                                        "target_text_len",
                                        "target_code_len",
                                        "prompt_condition_len",
                                        "target_duration",
                                        "prompt_duration",
                                        "text_ids_path",
                                        "codes_path",
                                        "condition_path",
                                        "emo_vec_path",
                                        "text_len",
                                        "code_len",
                                        "condition_len",
                                        "duration",
                                        NULL};
    size_t at;
    Error why;
    *record = (ManifestRecord){0};
    record->json = json_record(line, n, names, 0, &at, &why);
    if (!record->json && !encoding_check_line(line, n, error)) return false;
    if (!record->json) {
        *column = json_column(line, at, *column ? *column : 1, number);
        return error_set(error, "invalid JSON: %s", why.text);
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
    ok = ok && (record->paired ? parse_paired(record, error) : parse_single(record, error));
    if (!ok) manifest_record_close(record);
    return ok;
}

void manifest_record_close(ManifestRecord *record) {
    json_decref(record->json);
    *record = (ManifestRecord){0};
}
