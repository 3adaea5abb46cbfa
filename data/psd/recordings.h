/* The recordings that a store of spectra was made from: whether they are still the same. A file whose size and times
 * are those of the store's record is; one with another time is read once, because copying changes times, and its
 * checksum decides. The time of the inode counts, too: cp -p and rsync -t give a file the size and date of another, but
 * not that. */
#pragma once

#include "base/json.h"

/* The state of a file when it was read. */
typedef struct {
    int64_t size;              /* bytes */
    int64_t modified, changed; /* nanoseconds: the last change of the bytes, and any change of the file, its date too */
    uint64_t sum;              /* checksum of its bytes */
} PsdRecording;

/* Sets all but the sum. False if there is no such file. */
bool psd_recording_measure(const char *path, PsdRecording *recording);
/* Returns what a store keeps of its recordings: [["a.npy", size, modified, changed, "sum"], ...]. */
json_t *psd_recordings_list(int64_t n, const char *const *names, const PsdRecording *all);
/* Checks that all recordings in the text of such a list (NULL: the store has none) are unchanged; absent ones are. The
 * error names the first one that is not. New times of the same bytes are kept beside the store. */
bool psd_recordings_check(const char *list, const char *manifest, const char *store, int n_threads, Error *error);
