/* Scans a folder of ElectroSense recordings, .../spectrum_bands/SENSOR/DAY/NAME.npy, where each file is an array of
 * rows of spectra in dB; and makes the manifest of all of them. */
#pragma once

#include "base/base.h"
#include "data/formats/foreign.h"
#include "data/psd/manifest.h"

/* Why a file is left out. */
typedef enum {
    PSD_ACCEPTED,
    PSD_REJECT_SCALAR,
    PSD_REJECT_NO_ROWS,
    PSD_REJECT_ZERO_WIDTH,
    PSD_REJECT_REASONS
} PsdRejectReason;
extern const char *const PSD_REJECT_NAMES[PSD_REJECT_REASONS];

typedef struct {
    char *path, *sensor;
    char *listed; /* the path in the manifest, if that is another one; or NULL */
    PsdRejectReason reject_reason;
    int64_t rows, width;
    char *side;                /* says why nothing was read from NAME.csv, which has other columns; or NULL */
    double begin, end, center; /* MHz, as in the manifest; NaN: unknown */
    double sidecar_snr;        /* dB; NaN: unknown */
    int token, band, label;    /* by the file's name, by its frequency (PSD_UNKNOWN: none), and the one that counts */
    uint64_t hash;             /* hash of the file's bytes */
    int64_t same_as;    /* index of the first file with the same bytes; its own index if there is none before it */
    int64_t lost;       /* rows without a finite bin, and without `compat` rows that are half NaN; they are left out */
    int64_t half;       /* those of them that are half NaN, and have finite bins */
    int64_t not_finite; /* bins of the other rows that are NaN or infinite */
    int64_t constant;   /* rows whose bins are all equal */
    double *snr;        /* [rows] dB; NaN: the row is lost */
} PsdFile;

typedef struct {
    PsdFile *files; /* by sensor, then by path */
    int64_t n;
    int64_t others, foreign[FOREIGN_FORMATS]; /* files of formats that are known, but not read; of each */
    int64_t not_regular; /* names that end in .npy but are not regular files: FIFOs, devices, broken links */
    int64_t respelled;   /* files whose sensor got the spelling of another folder's (labels_unify) */
    bool compat;         /* do as the reference implementation */
} PsdScan;

/* Reads every .npy file below the directory. The technology is the first token _dab_, _dvbt_, ... of the file's name,
 * otherwise that of its frequency band. Frequencies come from a file NAME.csv with the columns begin_freq and end_freq,
 * otherwise from the name, SpectrumBands_LOW_HIGH_. With `compat` the band comes before the token, and frequencies
 * count only at the beginning of a name, as in the reference. False with an error that names the first bad file,
 * whatever the number of threads, if a file is not an array of numbers. */
bool psd_scan(const char *directory, bool compat, int n_threads, PsdScan *scan, Error *error);
/* Finds the copies among the files of a manifest: sets path, hash and same_as. Returns how many files cannot be read;
 * they count as copies of none. */
int64_t psd_scan_copies(const PsdManifest *manifest, const char *manifest_path, int n_threads, PsdScan *scan);
/* Returns whether a file's rows are in the manifest: those of accepted files, and with `compat` those of zero width,
 * which the reference numbers too. */
bool psd_scan_lists(const PsdScan *scan, const PsdFile *file);
/* Returns whether any file has a row for the manifest; the error says why there is none. */
bool psd_scan_usable(const PsdScan *scan, const char *directory, Error *error);
/* Makes the manifest. With `compat` begin_freq, end_freq and snr are copied from NAME.csv, or empty. */
PsdManifest psd_scan_manifest(const PsdScan *scan);
void psd_scan_close(PsdScan *scan);
