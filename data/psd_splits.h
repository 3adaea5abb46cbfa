/* Which rows of a PSD manifest are trained on, validated on and tested on.
 *
 * Pooled, leave-one-sensor-out and few-shot splits are the reference's, number for number: what scikit-learn's
 * StratifiedShuffleSplit and NumPy's RandomState give for the seed. Their weakness is that neighbouring sweeps of one
 * file fall into different parts; a grouped split keeps each file, or each sensor, in one. */
#ifndef DATA_PSD_SPLITS_H
#define DATA_PSD_SPLITS_H

#include "base/base.h"

/* The columns of a manifest that splits depend on. A row's id is its place. */
typedef struct {
    int64_t n;
    int classes;
    const int32_t *labels;           /* [n]: 0 .. classes - 1; others (of unknown class) are in no split */
    const int32_t *sensors;          /* [n]: places in sensor_names, which no two share */
    const int32_t *files;            /* [n]: 0 .. n - 1 */
    const char *const *sensor_names; /* in any order */
} PsdRows;

typedef struct {
    int64_t *at; /* [n] */
    int64_t n;
} PsdIds;

enum { PSD_TRAIN, PSD_VAL, PSD_TEST, PSD_PARTS };

typedef struct {
    PsdIds parts[PSD_PARTS];
} PsdSplit;

/* A split for each of some sensors, in the order of their names, or `shots` splits for each. */
typedef struct {
    int64_t sensors, shots;
    int32_t *sensor;  /* [sensors] */
    PsdSplit *splits; /* [sensors, shots] */
} PsdSplits;

/* All functions return false with an error, and nothing to be freed, for what cannot be split: too few rows of a class
 * or in all, too few groups. `fraction`, in (0, 1], is how much of the rows to keep. */

/* 70 % / 15 % / 15 %, every class alike. */
bool psd_split_pooled(const PsdRows *rows, uint32_t seed, double fraction, PsdSplit *split, Error *error);
/* The same shares, as near as whole groups allow, for every class: groups is rows->files, rows->sensors or a column of
 * the same kind. No part is empty; it may well lack a class. Ids ascend. */
bool psd_split_grouped(const PsdRows *rows, const int32_t *groups, uint32_t seed, double fraction, PsdSplit *split,
                       Error *error);
/* For each sensor a test on all of its rows, and 85 % / 15 % of a fraction of the others; of `sensors` sensors drawn
 * by the seed, or of all (0). */
bool psd_split_sensors(const PsdRows *rows, uint32_t seed, double fraction, int64_t sensors, PsdSplits *splits,
                       Error *error);
enum { PSD_SHOTS = 4 };
extern const int PSD_SHOT_COUNTS[PSD_SHOTS]; /* 5, 10, 50, 100: the reference's */
/* For each sensor and each of shots[n_shots]: so many rows of each class to train on, the others to test on, no
 * validation. A class with no more rows than that has none in the test. */
bool psd_split_few_shot(const PsdRows *rows, uint32_t seed, const int *shots, int64_t n_shots, int64_t sensors,
                        PsdSplits *splits, Error *error);
void psd_split_free(PsdSplit *split);
void psd_splits_free(PsdSplits *splits);

/* An error that names the first id that is twice in a split, or is none of n rows. */
bool psd_split_check(const PsdSplit *split, int64_t n, Error *error);
/* How many groups have rows in more than one part. */
int64_t psd_split_shared_groups(const PsdSplit *split, const int32_t *groups, int64_t n);

/* Takes rows out of the parts to train and to validate on whose group has rows in the test; how many. */
int64_t psd_split_drop_shared(PsdSplit *split, const int32_t *groups, int64_t n);

/* JSON, to the byte what the reference's json.dump writes; shots is NULL but for few-shot splits. */
bool psd_split_write(const char *path, const PsdSplit *split, Error *error);
bool psd_splits_write(const char *path, const PsdRows *rows, const PsdSplits *splits, const int *shots, Error *error);
/* Reads a split of a manifest with so many rows from such a file: a pooled one (sensor NULL), one of a sensor, or one
 * of a sensor and so many shots (0: none; what a few-shot file calls finetune is PSD_TRAIN, PSD_VAL is empty). It is
 * checked as by psd_split_check. An error names the file and the place. */
bool psd_split_read(const char *path, const char *sensor, int shots, int64_t rows, PsdSplit *split, Error *error);
/* The sensors of such a file, in its order; free() each and the list. */
bool psd_split_sensors_read(const char *path, char ***names, int *n, Error *error);
/* The same of text; the errors lack the path. */
bool psd_split_parse(const char *text, size_t size, const char *sensor, int shots, int64_t rows, PsdSplit *split,
                     Error *error);
bool psd_split_sensors_parse(const char *text, size_t size, char ***names, int *n, Error *error);
/* A folder of splits may have an index.json, which says of which manifest each file was made (psd_manifest_hash).
 *
 * Whether a split is one of this manifest. True without it being known, because there is no index or it does not name
 * the file or the manifest is not known (0): then the error's text, which is empty otherwise, says so. */
bool psd_split_belongs(const char *split_path, uint64_t manifest_hash, Error *error);
/* Notes in the index that a split of this manifest is about to be made; an error if the file is there and not in the
 * index: it is the user's. */
bool psd_split_index_claim(const char *split_path, uint64_t manifest_hash, Error *error);
/* The same for the manifest of the splits in `directory`, of which the index keeps two hashes: what is there is our own
 * if it is what was to be written, or what was there before, and the user's if it was changed since. `before`: of the
 * file that is there, or 0. */
bool psd_split_index_claim_manifest(const char *directory, const char *manifest, uint64_t now, uint64_t before,
                                    Error *error);
/* Names a file that has been written in the index beside it, or (0) no more. */
bool psd_split_index_set(const char *split_path, uint64_t manifest_hash, Error *error);
/* Removes the splits of a manifest from a folder, those that its index names, and says so. */
bool psd_split_index_purge(const char *directory, uint64_t manifest_hash, Error *error);
/* "pooled", 42, 0.25 -> "pooled_seed42_frac0.25.json", the fraction as Python prints it. free() */
char *psd_split_name(const char *kind, uint32_t seed, double fraction);

#endif
