/* Synthetic FLIM cells for demonstrations and tests: photons with the two lifetimes of NAD(P)H, seen through an
 * instrument's response, from donors that differ in everything but biology.
 *
 * Writes DIRECTORY/isolated_cells_D1/d01m2_act_cell_7.npy ..., u16 (H, W, T). */
#pragma once

#include "base/base.h"
#include "kernels/augment.h"

typedef struct {
    int64_t cells; /* of all donors and classes together; rounding adds a few */
    int donors;    /* six differ in peak bin, brightness, size, gates and share of active cells; then they repeat */
    AugmentShape shape; /* always 12.5 ns and some 60 micrometres, whatever the numbers of bins and pixels */
    double photons;     /* per pixel, all bins together, as a multiple of a real cell's */
    double separation;  /* difference of the classes' decays: 1 as in real cells, 0 none */
    double confound_size, confound_brightness; /* active cells are 2^x times as large, as bright */
    uint64_t seed;
} CvSynthetic;

/* Writes the cells, the same bytes for any number of threads, and counts the files. A donor's folder that exists
 * already is an error. */
bool cv_synthetic_write(const char *directory, const CvSynthetic *options, int n_threads, int64_t *n_files,
                        Error *error);
