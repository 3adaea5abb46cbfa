/* manifest.csv: one line for every row of every .npy file of spectra, and what is known of it. Splits call a row by its
 * place among these lines, from 0 on. */
#ifndef DATA_PSD_MANIFEST_H
#define DATA_PSD_MANIFEST_H

#include "base/base.h"
#include "data/psd_splits.h"

enum { PSD_UNKNOWN = 6, PSD_LABELS = 7 }; /* six technologies, and what is none of them */
extern const char *const PSD_LABEL_NAMES[PSD_LABELS];
int psd_label_of(const char *name); /* -1: none of them */

/* Its columns. Texts are UTF-8; a number that is not known is NaN. */
typedef struct {
    int64_t n;
    int n_files, n_sensors;
    char **file_paths, **sensor_names; /* in the order in which they first come */
    int32_t *files, *sensors, *labels; /* [n] */
    int64_t *row_index, *num_bins;     /* [n] */
    double *center, *begin, *end;      /* [n] MHz; as the reference writes them, begin and end may have other units */
    double *snr;                       /* [n] dB */
    int64_t *lines;                    /* [n] where a row stands in the file, from 1; NULL for what was not read */
} PsdManifest;

/* Reads columns in any order, by the names of the first line: npy_path, row_index, sensor_id, num_bins and label must
 * be there, center_freq_mhz, begin_freq, end_freq, snr and label_idx may; others are for others. The error names the
 * path, the line and the column. */
bool psd_manifest_read(const char *path, PsdManifest *manifest, Error *error);
/* The same of text[size], which ends with a zero and is changed; the error lacks the path. */
bool psd_manifest_parse(char *text, size_t size, PsdManifest *manifest, Error *error);
/* What tells one manifest from another: a hash of the file's bytes, never 0. */
bool psd_manifest_hash(const char *path, uint64_t *hash, Error *error);
uint64_t psd_manifest_hash_text(const char *text, size_t size); /* of a file's bytes that were read */
uint64_t psd_manifest_hash_of(const PsdManifest *manifest);     /* of the file that psd_manifest_write would write */
/* All ten columns, in the reference's order. */
bool psd_manifest_write(const char *path, const PsdManifest *manifest, Error *error);
void psd_manifest_close(PsdManifest *manifest);

/* What splits are made from. */
PsdRows psd_manifest_rows(const PsdManifest *manifest);
/* An empty manifest with room for n rows, n_files and n_sensors. */
PsdManifest psd_manifest_new(int64_t n, int n_files, int n_sensors);

/* Where a file of the manifest is: a relative path is seen from the working directory, and if it is not there, from
 * the manifest's. free() */
char *psd_manifest_file(const char *manifest_path, const char *file_path);

#endif
