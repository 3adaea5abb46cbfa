/* The lines of a manifest: JSON objects, each a single utterance or a prompt/target pair. */
#pragma once

#include <jansson.h>

#include "base/base.h"

/* One line. Strings point into `json`, which the record owns. */
typedef struct {
    json_t *json;
    bool paired;
    const char *id;        /* of the line */
    const char *target_id; /* of the utterance to learn: decides the split */
    const char *text_ids_path, *codes_path, *condition_path, *emo_vec_path; /* as the line has them */
    const char *text_ids_key, *codes_key, *condition_key, *emo_vec_key;     /* their keys, for messages */
    int64_t text_len, code_len, condition_len;
    double duration;        /* seconds of the target's audio; NAN: not given */
    const char *prompt_id;  /* of a pair; NULL: not given */
    double prompt_duration; /* of a pair: seconds of the prompt's audio; NAN: not given */
} ManifestRecord;

/* Parses a record of n bytes, which begins in line *number of a file and, in an array, *column (0: it is a line).
 * Returns false with the reason, after moving both to a syntax error. */
bool manifest_parse_line(const char *line, size_t n, ManifestRecord *record, int64_t *number, int *column,
                         Error *error);
void manifest_record_close(ManifestRecord *record);
