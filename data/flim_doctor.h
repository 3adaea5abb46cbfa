/* What is worth knowing of FLIM cells before a model is trained on them, printed and gathered for doctor.json: above
 * all what tells classes apart without any biology, the size of a cell, its brightness, its donor. */
#ifndef DATA_FLIM_DOCTOR_H
#define DATA_FLIM_DOCTOR_H

#include "base/json.h"

#include "data/flim_cells.h"
#include "data/flim_splits.h"

FlimColumns flim_cells_columns(const FlimCells *cells);

/* How well one number tells active from inactive cells: the share of pairs, one of each, in which the active one's is
 * greater, and half of those in which they are equal. 0.5: not at all. NaN: there is no such pair. */
typedef struct {
    double within, between; /* of pairs of one donor, and of two */
    double low[2], high[2]; /* their 95 % intervals: fields of view are drawn anew within each donor */
} FlimEffect;
FlimEffect flim_effect(const FlimCells *cells, const double *values, uint64_t seed);
/* How much a donor says of its cells' class: Cramer's V, 0 to 1, and its interval. */
typedef struct {
    double v, low, high;
} FlimAssociation;
FlimAssociation flim_donor_effect(const FlimCells *cells, uint64_t seed);
/* Over donors: of their cells' mean value and their share of active cells. */
double flim_donor_correlation(const FlimCells *cells, const double *values);

/* The table of donors and classes, and warnings; adds to the report. Returns how many warnings of confounds there are.
 */
int flim_doctor_cells(json_t *report, const FlimCells *cells, uint64_t seed);
/* What a filter keeps of each donor and class, wherever it is applied; under `name` in the report. */
void flim_doctor_filter(json_t *report, const char *name, const FlimCells *cells, const FlimFilter *filter);

#endif
