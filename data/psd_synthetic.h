/* Made-up recordings of six technologies in ElectroSense's layout, for demonstrations and tests: what cheap receivers
 * would see of transmitters that are drawn by a seed. Nothing of them is measured.
 *
 * DIRECTORY/spectrum_bands/sensor_01/Feb_1/SpectrumBands_87_107_fm_site_87_107.npy, rows of doubles in dB. */
#ifndef DATA_PSD_SYNTHETIC_H
#define DATA_PSD_SYNTHETIC_H

#include "base/base.h"

typedef struct {
    int64_t sensors;
    int64_t rows; /* of each sensor and technology, in files, a day each, of at most 15 */
    uint64_t seed;
} PsdSynthetic;

/* Writes the same bytes whatever the threads. An error if DIRECTORY/spectrum_bands is there already, but for one that a
 * killed program began in the same way. */
bool psd_synthetic_write(const char *directory, const PsdSynthetic *options, int n_threads, int64_t *n_files,
                         Error *error);

#endif
