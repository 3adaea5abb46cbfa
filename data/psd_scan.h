/* A folder of ElectroSense recordings, .../spectrum_bands/SENSOR/DAY/NAME.npy, each an array of rows of spectra in dB:
 * what every file is, and the manifest of all of them. */
#ifndef DATA_PSD_SCAN_H
#define DATA_PSD_SCAN_H

#include "base/base.h"
#include "data/psd_manifest.h"

typedef enum { PSD_KEPT, PSD_SCALAR, PSD_NO_ROWS, PSD_ZERO_WIDTH, PSD_FATES } PsdFate;
extern const char *const PSD_FATE_NAMES[PSD_FATES];

typedef struct {
    char *path, *sensor;
    PsdFate fate;
    int64_t rows, width;
    double begin, end, center; /* MHz, as they go into the manifest; NaN: not known */
    double sidecar_snr;        /* NaN: not known */
    int token, band, label;    /* by the name's token, by frequency (PSD_UNKNOWN: neither), and what it is taken for */
    uint64_t hash;             /* of the file's bytes */
    int64_t same_as;           /* the first file of the same bytes; itself if there is none before it */
    int64_t lost;              /* rows without a finite bin, which are left out */
    int64_t not_finite;        /* other bins that are NaN or infinite */
    int64_t constant;          /* rows of equal bins */
    double *snr;               /* [rows] dB; NaN: the row is lost */
} PsdFile;

typedef struct {
    PsdFile *files; /* by sensor, then by path */
    int64_t n;
    int64_t not_regular; /* other names in .npy, which are no regular files: FIFOs, devices, links to nothing */
    bool compat;         /* as the reference has it */
} PsdScan;

/* Reads every .npy below the directory. The technology is the first token _dab_, _dvbt_, ... of the file's name, else
 * that of its frequency band; with `compat` the band goes first and a name's frequencies count only at its begin, as
 * the reference has it. Frequencies are those of a file NAME.csv with the columns begin_freq and end_freq, else the
 * name's, SpectrumBands_LOW_HIGH_. A file that is no array of numbers with rows and bins is an error. */
bool psd_scan(const char *directory, bool compat, int n_threads, PsdScan *scan, Error *error);
/* The files of a manifest, for what is a copy of what: path, hash and same_as. Those that cannot be read, of which it
 * returns the number, are copies of none. */
int64_t psd_scan_copies(const PsdManifest *manifest, const char *manifest_path, int n_threads, PsdScan *scan);
/* Whether a file's rows go into the manifest: those that are kept, and with `compat` those of zero width, which the
 * reference numbers too. */
bool psd_scan_lists(const PsdScan *scan, const PsdFile *file);
/* With `compat` begin_freq, end_freq and snr are those of NAME.csv, as they stand there, or empty. */
PsdManifest psd_scan_manifest(const PsdScan *scan);
void psd_scan_close(PsdScan *scan);

#endif
