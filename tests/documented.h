/* Compares the files that programs write with the tables of docs/formats.md. */
#pragma once

#include <jansson.h>

#include "data/formats/tensor_file.h"

/* Fails unless the tables under this heading ("## The store of cells") are those of a store: a row for each tensor,
 * with its name, type and shape, and for each key of its metadata; no other row, but optional ones. Letters of shapes
 * stand for one size each; words, as in "[rows, C]", for any. */
void assert_store_documented(const TensorFile *store, const char *heading);
/* Fails unless the tables under this heading are those of the fields and activations of debug dumps[n], likewise; the
 * other tensors must be described under "## The debug dump". */
void assert_dumps_documented(const TensorFile *dumps, int n, const char *heading);
/* Fails unless each key of an object is `in backquotes` under this heading. */
void assert_keys_documented(const json_t *object, const char *heading);
/* Does the same with the JSON files of a checkpoint, of which decision.json may be missing. */
void assert_checkpoint_documented(const char *checkpoint);
/* Fails unless the row of each record's kind has its keys. metrics: those of the model, ends with NULL. */
void assert_log_documented(const char *path, const char *const *metrics);
