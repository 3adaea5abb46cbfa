/* Which FLIM cells are trained on, validated on and tested on: donors have roles, cells those of their donors. A model
 * that is to know a new donor's cells must be tested on a donor that it has never seen. */
#ifndef DATA_FLIM_SPLITS_H
#define DATA_FLIM_SPLITS_H

#include "base/base.h"

/* The columns of cells that splits depend on; a cell's id is its place. */
typedef struct {
    int64_t n;
    const int32_t *labels, *donors, *fields; /* [n] */
    const double *entropy;                   /* [n] bits */
    int n_donors;
    const char *const *donor_names; /* [n_donors] */
} FlimColumns;

enum { FLIM_TRAIN, FLIM_VAL, FLIM_TEST, FLIM_ROLES };
extern const char *const FLIM_ROLE_NAMES[FLIM_ROLES];

/* ---- folds ---- */

/* The donors of one training. */
typedef struct {
    const char *name; /* the test donor's, "final" for one by itself */
    int *roles;       /* [n_donors]; -1: none */
} FlimFold;

typedef struct {
    FlimFold *folds;
    int n;
} FlimFolds;

/* All return false with an error, and nothing to be freed, for what cannot be split. */

/* Leave one donor out, nested: each donor in turn is tested on, the next one (behind the last the first) validated on,
 * and all others are trained on. Of three donors or more. */
bool flim_folds_nested(const FlimColumns *columns, FlimFolds *folds, Error *error);
/* The reference's: of `donors` (names, separated by commas) each in turn is tested on, the first of the others
 * validated on, the rest trained on. Other donors have no role. */
bool flim_folds_reference(const FlimColumns *columns, const char *donors, FlimFolds *folds, Error *error);
/* One fold of named donors: "D1,D2,D3,D4", "D6", "D5" is the guide's. A donor in two roles, or twice in one, is an
 * error. */
bool flim_folds_named(const FlimColumns *columns, const char *train, const char *val, const char *test,
                      FlimFolds *folds, Error *error);
void flim_folds_free(FlimFolds *folds);

/* ---- cells ---- */

typedef struct {
    int32_t *at; /* [n], ascending */
    int64_t n;
} FlimIds;

typedef struct {
    FlimIds roles[FLIM_ROLES];
} FlimSplit;

/* Cells by the size of their entropy: what is kept is within low and high. */
typedef struct {
    double low, high;
    bool everywhere; /* in all roles, and before donors are told apart; otherwise in training only */
} FlimFilter;

/* The filter of a fold: the mean of its training donors' entropies, give or take so many of their standard deviations
 * (of the population); of training cells only. */
FlimFilter flim_filter_of(const FlimColumns *columns, const FlimFold *fold, double sigmas);
/* The reference's: constants that were taken from all six donors, for all cells. */
FlimFilter flim_filter_compat(double sigmas);
bool flim_filter_keeps(const FlimFilter *filter, double entropy);

/* The cells of a fold; filter NULL: all. An error if a role has no cell, or training only one class. */
bool flim_split_of(const FlimColumns *columns, const FlimFold *fold, const FlimFilter *filter, FlimSplit *split,
                   Error *error);
void flim_split_free(FlimSplit *split);
/* For splits from anywhere: an error that names a donor, or a field of view, with cells in two roles, or an id that is
 * twice or none of n. */
bool flim_split_check(const FlimColumns *columns, const FlimSplit *split, Error *error);

/* ---- the sampler ---- */

/* Cells to train on, drawn with replacement: those of a class are as likely as those of the other, together. With
 * `strata` so are those of every donor and class that there are: a brightness or size that is one donor's, whose cells
 * are mostly of one class, no longer speaks for the class. */
typedef struct {
    FlimIds ids;   /* the split's */
    double *until; /* [n] the sum of weights up to and with each, 1 at the last */
} FlimSampler;
FlimSampler flim_sampler_new(const FlimColumns *columns, const FlimIds *train, bool strata);
void flim_sampler_free(FlimSampler *sampler);
/* The id of the cell that is at a position of an epoch. */
int32_t flim_sampler_draw(const FlimSampler *sampler, uint64_t seed, uint32_t epoch, uint64_t position);

/* The share of active cells that there are, and that are drawn: what a model takes for the rate of active cells is the
 * second. */
double flim_prior_natural(const FlimColumns *columns, const FlimIds *ids);
double flim_prior_effective(const FlimColumns *columns, const FlimSampler *sampler);
/* Prints what a batch is expected to hold, of each donor and class, and both priors. */
void flim_sampler_print(const FlimColumns *columns, const FlimSampler *sampler, int64_t batch);

#endif
