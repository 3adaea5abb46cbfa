/* Made-up FLIM cells, for demonstrations and tests: photons of NAD(P)H's two lifetimes through an instrument's
 * response, of donors that differ in everything but biology. Nothing of them is measured.
 *
 * DIRECTORY/isolated_cells_D1/d01m2_act_cell_7.npy, u16 (H, W, T). */
#ifndef DATA_FLIM_SYNTHETIC_H
#define DATA_FLIM_SYNTHETIC_H

#include "base/base.h"
#include "kernels/flim.h"

typedef struct {
    int64_t cells; /* of all donors and classes together; a few more by rounding */
    int donors;    /* six differ in peak bin, brightness, size, gates and share of active cells; then they come again */
    FlimShape shape;   /* 12.5 ns and some 60 micrometres, however many bins and pixels there are */
    double photons;    /* of a pixel: so many times those of a real one, and the bins share them */
    double separation; /* of the classes' decays: 1 as they are, 0 alike */
    double confound_size, confound_brightness; /* active cells are 2 to the power of so many times as large, bright */
    uint64_t seed;
} FlimSynthetic;

/* The same bytes whatever the threads. An error if one of the donors' folders is there already. */
bool flim_synthetic_write(const char *directory, const FlimSynthetic *options, int n_threads, int64_t *n_files,
                          Error *error);

#endif
