/* Manifests: JSON lines, each a single utterance or a prompt/target pair, and the rule that splits off the validation.
 */
#ifndef DATA_MANIFEST_H
#define DATA_MANIFEST_H

#include <jansson.h>

#include "base/base.h"

/* One line. Texts point into `json`, which the record owns. */
typedef struct {
    json_t *json;
    bool paired;
    const char *id;        /* of the line */
    const char *target_id; /* of the utterance that is learned: decides the split */
    const char *text_ids_path, *codes_path, *condition_path, *emo_vec_path; /* as written in the line */
    const char *text_ids_key, *codes_key, *condition_key, *emo_vec_key;     /* their keys, for messages */
    int64_t text_len, code_len, condition_len;
    double duration;        /* seconds of the target's audio; NAN: not said */
    const char *prompt_id;  /* of a pair; NULL: not said */
    double prompt_duration; /* of a pair: seconds of the prompt's audio; NAN: not said */
} ManifestRecord;

/* Parses one line of n bytes. On failure false, the reason, and the column (1-based; 0: not a matter of syntax). */
bool manifest_parse_line(const char *line, size_t n, ManifestRecord *record, int *column, Error *error);
void manifest_record_close(ManifestRecord *record);

/* PATH, or PATH::LANGUAGE, PATH@LANGUAGE, PATH=LANGUAGE, the separator being the last one that leaves a file's name; a
 * path that exists as it stands is taken whole. Both parts free(); *language NULL: none. */
void manifest_spec_split(const char *spec, char **path, char **language);

/* sha1(id) mod 10^6 / 10^6 < ratio. */
bool split_is_validation(const char *id, double ratio);

#endif
