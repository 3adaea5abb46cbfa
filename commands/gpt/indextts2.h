/* The published weights of IndexTTS2, from which features are computed. */
#pragma once

#include "base/base.h"
#include "model/indextts2/features.h"

typedef enum { INDEX_GPT, INDEX_STATISTICS, INDEX_W2V, INDEX_CODEC, INDEX_FILES } IndexFile;

typedef struct {
    char *paths[INDEX_FILES];
} IndexWeights;

/* Finds the files in a folder, under the names that IndexTTS2's own programs and downloads give them, or in the cache
 * of Hugging Face's hub. The error names each that is missing, and where it comes from. */
bool index_weights_find(const char *folder, IndexWeights *weights, Error *error);
void index_weights_close(IndexWeights *weights);
/* Checks names and shapes of all tensors, and the statistics, before anything is computed. Files of IndexTTS 2.5 are
 * refused by name. */
bool index_weights_check(const IndexWeights *weights, Error *error);
/* Opens the networks on a device and reads their weights. Returns false with the reason. */
bool index_weights_read(const IndexWeights *weights, Features *features, Device *device, DType type, DType voice_type,
                        size_t pass_bytes, Error *error);
