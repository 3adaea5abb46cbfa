/* index.json in a folder of split files: which manifest each file was made from, by psd_manifest_hash, and its
 * checksum. So rows of one manifest are not taken for those of another, and files of the user are not replaced. The
 * split files themselves have no room for this: they are to the byte what other programs expect.
 *
 *   {"pooled_seed42_frac1.0.json": "0123456789abcdef fedcba9876543210", ...} */
#pragma once

#include "base/base.h"

/* Checks that a split file was made from this manifest and was not changed since. Also true if that cannot be checked
 * (there is no index, the file is not in it, or the manifest is unknown, 0): the error's text then says so, and is
 * empty otherwise. */
bool psd_split_index_check(const char *split_path, uint64_t manifest_hash, Error *error);
/* Notes in the index that a split file of this manifest will be written. False with an error if the file exists and the
 * index does not name it: it belongs to the user. */
bool psd_split_index_claim(const char *split_path, uint64_t manifest_hash, Error *error);
/* Notes in the index of `directory` that its manifest will be written, with two hashes: `now` of the new one, `before`
 * of the one that is there (0: none). False with an error if the manifest that is there has neither hash of the present
 * entry: the user changed it. */
bool psd_split_index_claim_manifest(const char *directory, const char *manifest, uint64_t now, uint64_t before,
                                    Error *error);
/* Records in the index that a split file was made from this manifest; 0: removes the file from the index. */
bool psd_split_index_set(const char *split_path, uint64_t manifest_hash, Error *error);
/* Removes the split files of a manifest that the index of the folder names, and prints their names. */
bool psd_split_index_purge(const char *directory, uint64_t manifest_hash, Error *error);
