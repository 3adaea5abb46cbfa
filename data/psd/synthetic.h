/* Synthetic recordings of six technologies in ElectroSense's layout, for demonstrations and tests: what cheap receivers
 * would see of transmitters that are drawn by a seed. Nothing in them is measured.
 *
 * DIRECTORY/spectrum_bands/sensor_01/Feb_1/SpectrumBands_87_107_fm_site_87_107.npy, rows of doubles in dB. */
#pragma once

#include "base/base.h"

typedef struct {
    int64_t sensors;
    int64_t rows; /* per sensor and technology; a file is a day and has at most 15 */
    uint64_t seed;
} PsdSynthetic;

/* Writes the recordings, the same bytes whatever the number of threads. False with an error if DIRECTORY/spectrum_bands
 * exists, unless a killed program began it with the same options. */
bool psd_synthetic_write(const char *directory, const PsdSynthetic *options, int n_threads, int64_t *n_files,
                         Error *error);
