/* The store: all samples of a manifest, preprocessed once, in one file beside it. data/manifest.csv has
 * data/manifest.psd.safetensors. The store is made again if the manifest is another one, if a recording has changed, if
 * the store is damaged, or if other options are wanted.
 *
 * A recording whose times differ from the store's record is read once, because copying changes times (recordings.h). If
 * its bytes are the same, data/manifest.psd.times.json keeps the new times.
 *
 * Tensors: psd F32 [n, 200]; label, sensor, file and row, I32 [n]; snr F32 [n]. Two optional ones serve comparisons
 * with other programs and fix what is drawn otherwise: positive I32 [n] and visible I32 [n, V]. Metadata: "sensors", a
 * JSON list of names; "rows" of the manifest (default: up to the last row with a sample); "manifest", its hash;
 * "recordings", a JSON list of each file's path, size, times and checksum; "doubtful", a JSON list of what is
 * wrong with the units of sensors (levels.h); "hop" and "limit"; and "form", a version that
 * is raised when samples are computed differently. */
#pragma once

#include "base/json.h"
#include "data/formats/safetensors.h"
#include "data/psd/batch.h"
#include "data/psd/preprocess.h"

/* An open store. The arrays are a mapped file and must not be written. */
typedef struct {
    int64_t n;         /* samples, in the manifest's order; with hop a row has several, or none */
    float *psd;        /* [n, 200] */
    int32_t *labels;   /* [n] 0 dab, 1 dvbt, 2 fm, 3 gsm, 4 lte, 5 tetra, 6 unknown */
    int32_t *sensors;  /* [n] indices into sensor_names */
    int32_t *files;    /* [n] */
    int32_t *rows;     /* [n] the manifest's row, from 0; never descending */
    float *snr;        /* [n] dB */
    int32_t *positive; /* [n] each sample's partner; NULL: drawn */
    int32_t *visible;  /* [n, n_visible] which patches are visible, ascending; NULL: drawn */
    int n_visible;     /* 0: drawn */
    int n_sensors, n_files;
    int64_t n_rows;            /* rows of the manifest, including those without a sample */
    const char **sensor_names; /* [n_sensors] */
    uint64_t manifest_hash;    /* psd_manifest_hash of the manifest that it was made from; 0: unknown */
    PsdPreprocessing options;  /* the options that it was made with */

    void *sensor_list; /* owns the names */
    TensorFile file;
} PsdStore;

/* Opens the store of a manifest (a path that ends in .csv), and makes it first if necessary; prints what was done. A
 * path that ends in .safetensors is a store itself, and must have been made with the wanted options. hop, limit: the
 * wanted options; NULL: those of the present store, or the defaults (no hop, PSD_LIMIT) if there is none or it does not
 * say. n_threads 0: all cores. Of several programs one makes the store, and the others wait. */
bool psd_store_open(PsdStore *store, const char *path, const bool *hop, const double *limit, int n_threads,
                    Error *error);
/* Returns what is doubtful in the units of sensors, a list of texts, of which psd_store_open warns. */
json_t *psd_store_doubts(const PsdStore *store);
void psd_store_close(PsdStore *store);
/* Returns "data/manifest.psd.safetensors" for "data/manifest.csv"; free(). */
char *psd_store_path(const char *manifest);
