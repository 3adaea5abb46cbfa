/* Any bytes as a line of a manifest, and as a value inside a good line: the first byte chooses where. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/gpt/manifest.h"
#include "data/split.h"

/* A line up to a value, and from there on. */
static const char *const lines[][2] = {
    {"", ""},
    {"{\"id\":\"a\",\"text_ids_path\":\"t\",\"text_len\":3,\"codes_path\":\"c\",\"code_len\":",
     ",\"condition_path\":\"k\",\"emo_vec_path\":\"e\",\"duration\":2.6}"},
    {"{\"id\":\"a\",\"text_ids_path\":\"t\",\"text_len\":3,\"codes_path\":\"c\",\"code_len\":9,\"emo_vec_path\":\"e\","
     "\"duration\":",
     ",\"condition_path\":\"k\"}"},
    {"{\"id\":\"a__b\",\"prompt_condition_path\":\"k\",\"prompt_emo_vec_path\":",
     ",\"target_id\":\"a\",\"target_text_ids_path\":\"t\",\"target_text_len\":3,\"target_codes_path\":\"c\","
     "\"target_code_len\":9,\"target_emo_vec_path\":\"e\"}"},
};

static void check_record(const ManifestRecord *r) {
    const char *const texts[] = {
        r->id,           r->target_id,    r->text_ids_path, r->codes_path,    r->condition_path,
        r->emo_vec_path, r->text_ids_key, r->codes_key,     r->condition_key, r->emo_vec_key};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!texts[i] || !*texts[i]) abort();
    if (r->text_len < 0 || r->code_len < 0 || r->condition_len < 0 || r->duration < 0) abort();
    bool validation = split_is_validation(r->target_id, 0.5);
    if (split_is_validation(r->target_id, 0) || !split_is_validation(r->target_id, 1) ||
        (validation && !split_is_validation(r->target_id, 0.6)))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *const *around = lines[size ? data[0] % 4 : 0];
    size_t before = strlen(around[0]), after = strlen(around[1]), n = size ? size - 1 : 0;
    char *line = malloc(before + n + after + 1);
    memcpy(line, around[0], before);
    if (n) memcpy(line + before, data + 1, n);
    memcpy(line + before + n, around[1], after);
    ManifestRecord record;
    Error error = {.text = ""};
    int column = size && data[0] & 4 ? 7 : 0; /* of an array, or a line */
    if (manifest_parse_line(line, before + n + after, &record, &(int64_t){1}, &column, &error)) {
        check_record(&record);
        manifest_record_close(&record);
    } else if (!error.text[0] || column < 0 || record.json) {
        abort();
    }
    free(line);
    return 0;
}
