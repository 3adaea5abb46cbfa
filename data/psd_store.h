/* All samples of a PSD manifest, preprocessed once, in one file beside it: data/manifest.csv has
 * data/manifest.psd.safetensors. It is made anew when the manifest is another than it was made from, when a recording
 * has changed since, when it is damaged, or when options are asked for that are not those it was made with.
 *
 * Recordings of other times than when it was made are read once, as copies have other times; if they are the same,
 * data/manifest.psd.times.json keeps the new times.
 *
 * Tensors: psd F32 [n, 200], and I32 [n] label, sensor, file and row, and F32 [n] snr. Two more are for comparisons
 * with other programs, and fix what is drawn otherwise: positive I32 [n] and visible I32 [n, V]. The metadata hold
 * "sensors", a JSON list of names, "rows", how many the manifest has (without it, up to the last that has a sample),
 * "manifest", its hash, "recordings", a JSON list of each file's path, size, time and checksum, "hop" and "limit", and
 * "form", which is raised when samples come to be made differently. */
#ifndef DATA_PSD_STORE_H
#define DATA_PSD_STORE_H

#include "base/base.h"
#include "data/batch.h"
#include "data/psd_preprocess.h"
#include "data/safetensors.h"

/* The arrays lie in the file, which is mapped: they are not to be written. */
typedef struct {
    int64_t n;         /* samples, in the manifest's order; with hop several of a row, or none */
    float *psd;        /* [n, 200] */
    int32_t *labels;   /* [n] 0 dab, 1 dvbt, 2 fm, 3 gsm, 4 lte, 5 tetra, 6 unknown */
    int32_t *sensors;  /* [n] places in sensor_names */
    int32_t *files;    /* [n] */
    int32_t *rows;     /* [n] the manifest's row, from 0 on; they never descend */
    float *snr;        /* [n] dB */
    int32_t *positive; /* [n] each sample's partner; NULL: drawn */
    int32_t *visible;  /* [n, n_visible] which patches are visible, ascending; NULL: drawn */
    int n_visible;     /* 0: drawn */
    int n_sensors, n_files;
    int64_t n_rows;            /* of the manifest, with those that have no sample */
    const char **sensor_names; /* [n_sensors] */
    uint64_t manifest_hash;    /* psd_manifest_hash of what it was made from; 0: the store does not say */
    PsdOptions options;        /* that it was made with */

    void *sensor_list; /* owns the names */
    TensorFile file;
} PsdStore;

/* Opens the store of a manifest (a path that ends in .csv), which is made first if need be, in parallel; what was done
 * is printed, with counts. A path that ends in .safetensors is a store itself, which must have been made as asked for.
 * One program at a time makes it, for which others wait. *hop and *limit are asked for; NULL: as the store there is was
 * made, or as is usual (no hop, PSD_LIMIT) if there is none, or if it does not say. n_threads 0: all cores. */
bool psd_store_open(PsdStore *store, const char *path, const bool *hop, const double *limit, int n_threads,
                    Error *error);
void psd_store_close(PsdStore *store);
/* "data/manifest.csv" -> "data/manifest.psd.safetensors". free() */
char *psd_store_path(const char *manifest);

#endif
