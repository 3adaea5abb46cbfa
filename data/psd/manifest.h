/* manifest.csv: one line for every row of every .npy file of spectra, with all that is known about the row. Split files
 * name a row by its index among these lines, from 0. */
#pragma once

#include "base/base.h"
#include "data/psd/splits.h"

enum { PSD_UNKNOWN = 6, PSD_LABELS = 7 }; /* six technologies, and unknown */
extern const char *const PSD_LABEL_NAMES[PSD_LABELS];

/* The columns of a manifest. Texts are UTF-8; an unknown number is NaN. */
typedef struct {
    int64_t n;
    int n_files, n_sensors;
    char **file_paths, **sensor_names; /* in the order of their first row */
    int32_t *files, *sensors, *labels; /* [n] */
    int64_t *row_index, *num_bins;     /* [n] */
    double *center, *begin, *end;      /* [n] MHz; in a manifest of the reference begin and end may have other units */
    double *snr;                       /* [n] dB */
    int64_t *lines;                    /* [n] line numbers in the file, from 1; NULL if it was not read from a file */
    int64_t respelled; /* sensors that got the spelling of one before, and labels: only label_normal is the same */
} PsdManifest;

/* Reads a manifest. Columns may be in any order, named by the first line. Required: npy_path, row_index, sensor_id,
 * num_bins, label; optional: center_freq_mhz, begin_freq, end_freq, snr, label_idx; others are ignored. The error names
 * path, line and column. */
bool psd_manifest_read(const char *path, PsdManifest *manifest, Error *error);
/* Reads a manifest from text[size], which ends with a zero and is modified. The error lacks the path. */
bool psd_manifest_parse(char *text, size_t size, PsdManifest *manifest, Error *error);
/* Prints how many sensors and labels were respelled, and warns of two sensors that differ in case only. */
void psd_manifest_print_sensors(const char *path, const PsdManifest *manifest);
/* Computes the hash that identifies a manifest: that of the file's bytes, never 0. */
bool psd_manifest_hash(const char *path, uint64_t *hash, Error *error);
uint64_t psd_manifest_hash_text(const char *text, size_t size); /* from the file's bytes */
uint64_t psd_manifest_hash_of(const PsdManifest *manifest);     /* of what psd_manifest_write would write */
/* Writes all ten columns, in the reference's order. */
bool psd_manifest_write(const char *path, const PsdManifest *manifest, Error *error);
void psd_manifest_close(PsdManifest *manifest);

/* Returns the columns that splits are made from; they belong to the manifest. */
PsdRows psd_manifest_rows(const PsdManifest *manifest);
/* Returns an empty manifest with room for n rows, n_files files and n_sensors sensors. */
PsdManifest psd_manifest_new(int64_t n, int n_files, int n_sensors);

/* Returns the path of a file of the manifest. A relative path starts at the manifest's directory; if no file is there,
 * at the working directory, as in manifests of the reference. free() */
char *psd_manifest_file(const char *manifest_path, const char *file_path);
