/* Divides FLIM cells into training, validation and test splits. Whole donors are assigned to a split, and their cells
 * follow: a model that is to recognise a new donor's cells must be tested on a donor that it has never seen. */
#pragma once

#include "data/cv/cells.h"

/* The columns of the cells that splits depend on. A cell's id is its index. */
typedef struct {
    int64_t n;
    const int32_t *labels, *donors, *fields; /* [n] */
    const double *entropy;                   /* [n] bits */
    int n_donors;
    const char *const *donor_names; /* [n_donors] */
} CvColumns;

/* Returns the columns of the cells, which must outlive them. */
CvColumns cv_splits_columns(const CvCells *cells);

enum { CV_SPLIT_TRAIN, CV_SPLIT_VAL, CV_SPLIT_TEST, CV_SPLITS };
extern const char *const CV_SPLIT_NAMES[CV_SPLITS]; /* "train", "val", "test" */

/* ---- folds ---- */

/* The donors of one training. */
typedef struct {
    const char *name; /* the test donor's; "final" for a single fold of named donors */
    int *splits;      /* [n_donors] the split of the donor's cells; -1: none */
} CvDonors;

typedef struct {
    CvDonors *folds;
    int n;
} CvFolds;

/* Keeps cells whose entropy is within low and high. */
typedef struct {
    double low, high;
    bool everywhere; /* applied to all splits; otherwise to training only */
} CvFilter;

/* The following functions return false with an error, and nothing to free, for donors that cannot be split. */

/* Makes a fold for each donor, nested leave-one-donor-out: the donor is tested on, the next one (after the last, the
 * first) that has both classes validated on, and all others, which must have both, too, are trained on. Prints a line
 * where that is not the very next, or leaves a fold out. Needs three donors or more. filter: what is kept if it applies
 * everywhere; NULL: all cells. */
bool cv_folds_nested(const CvColumns *columns, const CvFilter *filter, CvFolds *folds, Error *error);
/* Makes the reference's folds: each of `donors` (names separated by commas) in turn is tested on, the first of the
 * others validated on, the rest trained on. Donors that are not named are in no split. */
bool cv_folds_reference(const CvColumns *columns, const char *donors, CvFolds *folds, Error *error);
/* Makes one fold of named donors; the guide's is "D1,D2,D3,D4", "D6", "D5". A donor named twice is an error. */
bool cv_folds_named(const CvColumns *columns, const char *train, const char *val, const char *test, CvFolds *folds,
                    Error *error);
/* Makes one fold that trains on all donors, for estimates without data. */
void cv_folds_training(const CvColumns *columns, CvFolds *folds);
void cv_folds_free(CvFolds *folds);

/* ---- cells ---- */

typedef struct {
    int32_t *at; /* [n], ascending */
    int64_t n;
} CvIds;

typedef struct {
    CvIds ids[CV_SPLITS];
} CvSplits;

/* Returns a fold's filter, for training only: the mean of its training donors' entropies plus and minus `sigmas` of
 * their population standard deviations. */
CvFilter cv_filter_fit(const CvColumns *columns, const CvDonors *fold, double sigmas);
/* Returns the reference's filter, for all splits: constants computed from all six donors. */
CvFilter cv_filter_compat(double sigmas);
bool cv_filter_keeps(const CvFilter *filter, double entropy);

/* Lists the cells of each split of a fold; filter NULL: all cells. An empty split, or training cells of one class only,
 * is an error. */
bool cv_splits_open(const CvColumns *columns, const CvDonors *fold, const CvFilter *filter, CvSplits *splits,
                    Error *error);
void cv_splits_free(CvSplits *splits);
/* Checks splits from any source. A donor or a field of view with cells in two splits is an error that names it; so is
 * an id that is listed twice or out of range. */
bool cv_splits_check(const CvColumns *columns, const CvSplits *splits, Error *error);

/* ---- the sampler ---- */

/* Draws training cells with replacement. Both classes are equally likely; with `strata`, so is every pair of donor and
 * class. Then brightness or size that is typical of a donor, whose cells are mostly of one class, does not stand for
 * that class. */
typedef struct {
    CvIds ids;          /* of the training split */
    double *cumulative; /* [n] the sum of weights up to and including each cell; 1 at the last */
} CvSampler;
CvSampler cv_sampler_new(const CvColumns *columns, const CvIds *train, bool strata);
void cv_sampler_free(CvSampler *sampler);
/* Returns the id of the cell at a position of an epoch. */
int32_t cv_sampler_draw(const CvSampler *sampler, uint64_t seed, uint32_t epoch, uint64_t position);

/* Returns the share of active cells among those listed. */
double cv_prior_natural(const CvColumns *columns, const CvIds *ids);
/* Returns the share of active cells among those drawn, which is what a model learns as their rate. */
double cv_prior_effective(const CvColumns *columns, const CvSampler *sampler);
/* Prints how many cells of each donor and class a batch is expected to hold, and both priors. */
void cv_sampler_print(const CvColumns *columns, const CvSampler *sampler, int64_t batch);
