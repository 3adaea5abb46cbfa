/* Measures how well properties without any biology (size, brightness, the donor) separate active from quiescent cells.
 */
#ifndef DATA_FLIM_CONFOUNDS_H
#define DATA_FLIM_CONFOUNDS_H

#include "data/flim/cells.h"

/* The AUC of one property: the share of pairs, one cell of each class, in which the
 * active cell's is greater; ties count half. 0.5: not at all. NaN: there are no such pairs. */
typedef struct {
    double within, between; /* pairs of cells of the same donor; of different donors */
    double low[2], high[2]; /* 95 % intervals of both, by a bootstrap over the fields of view of each donor */
} FlimEffect;
FlimEffect flim_confounds_effect(const FlimCells *cells, const double *values, uint64_t seed);

/* The association of donor and class: Cramer's V without its part of chance, 0 to 1, and its 95 % interval. */
typedef struct {
    double v, low, high;
} FlimAssociation;
FlimAssociation flim_confounds_donor(const FlimCells *cells, uint64_t seed);

/* Returns the correlation over donors of the mean value of their cells and their share of active cells. */
double flim_confounds_correlation(const FlimCells *cells, const double *values);

#endif
