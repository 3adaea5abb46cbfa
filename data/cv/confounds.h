/* Measures how well properties without any biology (size, brightness, the donor) separate active from quiescent cells.
 */
#pragma once

#include "data/cv/cells.h"

/* The AUC of one property: the share of pairs, one cell of each class, in which the
 * active cell's is greater; ties count half. 0.5: not at all. NaN: there are no such pairs. */
typedef struct {
    double within, between; /* pairs of cells of the same donor; of different donors */
    double low[2], high[2]; /* 95 % intervals of both, by a bootstrap over the fields of view of each donor */
} CvEffect;
CvEffect cv_confounds_effect(const CvCells *cells, const double *values, uint64_t seed);

/* The association of donor and class: Cramer's V without its part of chance, 0 to 1, and its 95 % interval. */
typedef struct {
    double v, low, high;
} CvAssociation;
CvAssociation cv_confounds_donor(const CvCells *cells, uint64_t seed);

/* Returns the correlation over donors of the mean value of their cells and their share of active cells. */
double cv_confounds_correlation(const CvCells *cells, const double *values);
