#include "data/slm/prepared.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/ledger.h"
#include "data/slm/split_files.h"
#include "data/text/unknown.h"
#include "data/unfinished.h"

const char *const PREPARED_SPLIT_NAMES[PREPARED_SPLITS] = {"train", "val"};

char *prepared_shard_path(const char *directory, const char *split, int64_t number) {
    OWNED char *name = xformat("%s_%05lld" SHARD_ENDING, split, (long long)number);
    return path_join(directory, name);
}

json_t *prepared_read(const char *directory, Error *error) {
    if (!unfinished_check(directory, error)) return NULL;
    OWNED char *path = path_join(directory, PREPARED_NAME);
    Error why = {.text = ""};
    json_auto_t *record = json_read(path, 0, &why);
    if (record && json_sum_check(record, PREPARED_DIGITS, 0, &why)) return json_incref(record);
    error_set(error, "%s: %s; run train_slm prepare again, with --overwrite", path, why.text);
    return NULL;
}

bool prepared_write(const char *directory, json_t *record, Error *error) {
    OWNED char *path = path_join(directory, PREPARED_NAME);
    json_sum_set(record, PREPARED_DIGITS, 0);
    return json_write_file(path, record, JSON_INDENT(1) | JSON_REAL_PRECISION(PREPARED_DIGITS), error);
}

bool prepared_check_tokenizer(const char *directory, const json_t *record, Error *error) {
    const json_t *tokenizer = json_object_get(record, "tokenizer");
    const char *name = json_string_value(json_object_get(tokenizer, "file"));
    if (!name || strchr(name, '/'))
        return error_set(error, "%s/" PREPARED_NAME " names no file of a tokenizer", directory);
    OWNED char *path = path_join(directory, name);
    Fingerprint found = fingerprint_file(path);
    return fact_is(tokenizer, "sha1", found.text) ||
           error_set(error,
                     "%s is %s: the shards were made with another tokenizer; put that one back, or run train_slm "
                     "prepare again, with --overwrite",
                     path, *found.text ? "not the tokenizer that prepare put there" : "missing");
}

/* Adds a count times a sign, if it is there. Fails if sums of such counts could overflow. */
static bool add_count(int64_t *sum, int sign, const json_t *facts, const char *key, Error *error) {
    const json_int_t most = (json_int_t)1 << 56, count = json_integer_value(json_object_get(facts, key));
    if (count < 0 || count > most)
        return error_set(error,
                         PREPARED_NAME ": \"%s\" is %lld: expected a count; run train_slm prepare again, with "
                                       "--overwrite",
                         key, (long long)count);
    *sum += sign * count;
    return true;
}

bool prepared_check_unknown(const json_t *record, double most, Error *error) {
    const json_t *splits = json_object_get(record, "splits");
    const char *characters = json_string_value(json_object_get(splits, "unknown_characters"));
    int64_t unknown = 0, pieces = 0;
    bool ok = add_count(&unknown, -1, splits, "unknown_white_space", error);
    for (int k = 0; k < 2 && ok; k++) {
        const json_t *split = json_object_get(splits, PREPARED_SPLIT_NAMES[k]);
        int64_t documents = 0;
        ok = add_count(&unknown, 1, split, "dropped_characters", error) &&
             add_count(&unknown, 1, split, "unknown", error) &&
             add_count(&pieces, 1, split, "dropped_characters", error) &&
             add_count(&pieces, 1, split, "tokens", error) && add_count(&documents, 1, split, "documents", error);
        pieces -= documents + (documents > 0);
    }
    return ok && unknown_check("the texts", unknown, pieces, characters ? characters : "", most, error);
}

void prepared_remove_shards(const char *directory) {
    for (int k = 0; k < 2; k++) {
        SplitFiles files = split_files_list(directory, PREPARED_SPLIT_NAMES[k], SHARD_ENDING);
        for (int i = 0; i < files.n; i++)
            if (unlink(files.paths[i]) && errno != ENOENT) die("cannot remove %s: %s", files.paths[i], strerror(errno));
        split_files_free(&files);
    }
}
