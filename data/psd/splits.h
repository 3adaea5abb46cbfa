/* Partitions of a manifest's rows into the splits train, val and test.
 *
 * Pooled, leave-one-sensor-out and few-shot partitions are number for number those of the reference: what
 * scikit-learn's StratifiedShuffleSplit and NumPy's RandomState give for the seed. Their weakness: neighbouring sweeps
 * of one file fall into different splits. A grouped partition keeps each file, or each sensor, in one split. */
#pragma once

#include "base/base.h"

/* The columns of a manifest that partitions depend on. A row's id is its index. */
typedef struct {
    int64_t n;
    int classes;
    const int32_t *labels;           /* [n]: 0 .. classes - 1; rows with other labels (unknown) are in no split */
    const int32_t *sensors;          /* [n]: indices into sensor_names */
    const int32_t *files;            /* [n]: 0 .. n - 1 */
    const char *const *sensor_names; /* distinct, in any order */
} PsdRows;

typedef struct {
    int64_t *at; /* [n] */
    int64_t n;
} PsdIds;

enum { PSD_TRAIN, PSD_VAL, PSD_TEST, PSD_SPLITS };
/* The names of splits in files, and in those by shots, which have no validation (NULL). */
extern const char *const PSD_SPLIT_NAMES[2][PSD_SPLITS];

typedef struct {
    PsdIds splits[PSD_SPLITS];
} PsdPartition;

/* `shots` partitions for each of some sensors, which are sorted by name. */
typedef struct {
    int64_t sensors, shots;
    int32_t *sensor;          /* [sensors] */
    PsdPartition *partitions; /* [sensors, shots] */
} PsdPartitions;

/* The following functions return false with an error, and nothing to free, if the rows cannot be split: too few rows of
 * a class, too few rows, too few groups. `fraction`, in (0, 1], says how many of the rows to use. */

/* Makes splits of 70 %, 15 % and 15 %, the same for every class. */
bool psd_partition_pooled(const PsdRows *rows, uint32_t seed, double fraction, PsdPartition *partition, Error *error);
/* Makes splits of the same sizes, as near as whole groups allow. groups: [n] the group of each row. No split is empty,
 * but one may lack a class. Ids ascend. */
bool psd_partition_grouped(const PsdRows *rows, const int32_t *groups, uint32_t seed, double fraction,
                           PsdPartition *partition, Error *error);
/* Makes a partition for each sensor: its own rows are the test, and a fraction of the other rows is divided into 85 %
 * train and 15 % val. sensors: how many sensors to draw by the seed; 0: all. */
bool psd_partition_sensors(const PsdRows *rows, uint32_t seed, double fraction, int64_t sensors,
                           PsdPartitions *partitions, Error *error);
enum { PSD_SHOTS = 4 };
extern const int PSD_SHOT_COUNTS[PSD_SHOTS]; /* 5, 10, 50, 100, as in the reference */
/* Makes a partition for each sensor and each of shots[n_shots]: that many rows per class to train on, the others to
 * test on, none to validate on. A class that has no more rows than that is not in the test. */
bool psd_partition_few_shot(const PsdRows *rows, uint32_t seed, const int *shots, int64_t n_shots, int64_t sensors,
                            PsdPartitions *partitions, Error *error);
void psd_partition_free(PsdPartition *partition);
void psd_partitions_free(PsdPartitions *partitions);

/* Checks that every id is one of n rows and is there once. The error names the first one that is not. */
bool psd_partition_check(const PsdPartition *partition, int64_t n, Error *error);
/* Returns how many groups have rows in more than one split. */
int64_t psd_partition_shared_groups(const PsdPartition *partition, const int32_t *groups, int64_t n);

/* Removes the rows from train and val whose group has rows in the test. Returns how many. */
int64_t psd_partition_drop_shared(PsdPartition *partition, const int32_t *groups, int64_t n);

/* Write JSON, to the byte what the reference's json.dump writes. shots: NULL except for few-shot partitions. */
bool psd_partition_write(const char *path, const PsdPartition *partition, Error *error);
bool psd_partitions_write(const char *path, const PsdRows *rows, const PsdPartitions *partitions, const int *shots,
                          Error *error);
/* Reads a partition of a manifest with `rows` rows from such a file: the only one (sensor NULL), that of a sensor, or
 * that of a sensor and a number of shots (0: not by shots). What a few-shot file calls finetune becomes PSD_TRAIN, and
 * PSD_VAL is empty. Checks the partition. The error names the file and the place in it. */
bool psd_partition_read(const char *path, const char *sensor, int shots, int64_t rows, PsdPartition *partition,
                        Error *error);
/* Reads the names of the sensors of such a file, in its order; free() each and the list. */
bool psd_partition_sensors_read(const char *path, char ***names, int *n, Error *error);
/* Read the same from text; the errors lack the path. */
bool psd_partition_parse(const char *text, size_t size, const char *sensor, int shots, int64_t rows,
                         PsdPartition *partition, Error *error);
bool psd_partition_sensors_parse(const char *text, size_t size, char ***names, int *n, Error *error);
/* Returns "pooled_seed42_frac0.25.json" for "pooled", 42, 0.25: the fraction as Python prints it. free() */
char *psd_split_file_name(const char *kind, uint32_t seed, double fraction);
