/* The files of a split in a folder, by their names. */
#pragma once

#include "base/base.h"

#define SHARD_ENDING ".safetensors"

typedef struct {
    char **paths; /* [n] sorted */
    int n;
} SplitFiles;

/* Lists the shards of prepare, SPLIT_NUMBER.safetensors (SHARD_ENDING), or with another ending the files of other
 * programs: SPLIT.bin, SPLIT_NUMBER.bin, NAME_SPLIT.bin and NAME_SPLIT_NUMBER.bin. None if there is no such folder. */
SplitFiles split_files_list(const char *directory, const char *split, const char *ending);
/* Fails if files of other programs differ in more than their numbers: they are not one stream. */
bool split_files_check(const SplitFiles *files, Error *error);
/* Returns the NUMBER of SPLIT_NUMBER.safetensors; -1: the name has none. */
int64_t split_files_number(const char *path);
void split_files_add(SplitFiles *files, const char *path);
void split_files_free(SplitFiles *files);
