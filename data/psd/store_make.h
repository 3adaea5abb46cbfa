/* Makes the store of a manifest (store.h) from its recordings. */
#pragma once

#include "data/psd/preprocess.h"

/* How samples are computed and stored; a store of another form is made again. */
extern const char PSD_STORE_FORM[];

/* Makes the store `path` of the manifest (*text)[size], whose hash is `hash`. Modifies or replaces the text. An error
 * names the first bad row, whatever the number of threads. */
bool psd_store_make(const char *manifest_path, char **text, size_t size, uint64_t hash, const char *path,
                    const PsdPreprocessing *options, int n_threads, Error *error);
