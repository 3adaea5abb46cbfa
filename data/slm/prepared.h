/* The names and the record of a folder that `train_slm prepare` has filled:
 *
 *     train_00000.safetensors ... val_00000.safetensors ...   the shards (data/slm/shard.h)
 *     tokenizer.json or tokenizer.model                       a copy of the tokenizer
 *     prepared.json                                           what was done; the folder is whole once it exists */
#pragma once

#include "base/json.h"

#define PREPARED_NAME "prepared.json"
enum { PREPARED_DIGITS = 15 }; /* of its numbers that are not whole */

/* "train" and "val", in the order of FATE_TRAIN and FATE_VAL (data/slm/scan.h). */
enum { PREPARED_SPLITS = 2 };
extern const char *const PREPARED_SPLIT_NAMES[PREPARED_SPLITS];

/* Returns "DIRECTORY/train_00003.safetensors"; free(). */
char *prepared_shard_path(const char *directory, const char *split, int64_t number);
/* Reads DIRECTORY/prepared.json. NULL with an error that names the file: it is missing, damaged, or the folder is
 * unfinished. */
json_t *prepared_read(const char *directory, Error *error);
/* Writes it, with a checksum. */
bool prepared_write(const char *directory, json_t *record, Error *error);
/* Warns if the tokenizer of a record does not know many pieces of the texts; false with an error if it does not know
 * the share `most` of them (unknown_check). */
bool prepared_check_unknown(const json_t *record, double most, Error *error);
/* Removes the shards of both splits. Dies if one cannot be removed. */
void prepared_remove_shards(const char *directory);
/* Fails if the folder's copy of the tokenizer is not the one that the shards were made with. */
bool prepared_check_tokenizer(const char *directory, const json_t *record, Error *error);
