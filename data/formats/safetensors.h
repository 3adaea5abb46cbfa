/* Reads and writes safetensors. */
#pragma once

#include "data/formats/tensor_file.h"

bool safetensors_parse(const void *bytes, size_t size, TensorFile *file, Error *error); /* views into bytes */

/* Among the metadata of a file that safetensors_write made: the checksum, in hexadecimal digits, of its header (which
 * has zeros in place of these digits then) and of its data. Who reads such a file finds damage by it. */
#define SAFETENSORS_SUM_KEY "xxh3_64"
#define SAFETENSORS_NO_SUM  "0000000000000000"
enum { SAFETENSORS_SUM = sizeof SAFETENSORS_NO_SUM };

/* Writes the file whole or not at all (base/file.h). The data begin at a multiple of 64 bytes; larger elements come
 * first, so that every tensor is aligned to its element, otherwise the order is the one given. The same input gives the
 * same bytes. Allocates nothing.
 */
bool safetensors_write(const char *path, const TensorToWrite *tensors, int n_tensors, const char *const *metadata_keys,
                       const char *const *metadata_values, int n_metadata, Error *error);
