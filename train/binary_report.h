/* What the cross-validation of a classifier of cells (0 inactive, 1 active) leaves on disk and says on the terminal.
 *
 * Plain arrays come in; whose they are, and which model and device they are from, is not known here. All decisions are
 * p > threshold, where p is the mean of the views' probabilities and the threshold is chosen on validation cells. Every
 * file is written whole or not at all, into a directory that is there; an error names the file. */
#ifndef TRAIN_BINARY_REPORT_H
#define TRAIN_BINARY_REPORT_H

#include <jansson.h>

#include "train/binary_scores.h"
#include "train/threshold.h"

/* All cells of a data set; a cell's id is its place. */
typedef struct {
    int64_t n;
    const char *const *files;                /* [n] */
    const int32_t *labels, *donors, *fields; /* [n]; fields of different donors are different */
    const int32_t *sizes, *peaks;            /* [n] pixels; the bin of most photons */
    const double *photons;                   /* [n] */
    int n_donors, n_fields;
    const char *const *donor_names, *const *field_names;
    const char *const *class_names; /* [2] */
} BinaryCells;

/* What the network said of some cells. */
typedef struct {
    int64_t n;
    const int32_t *ids;   /* [n] */
    const double *logits; /* [n] of the cell as it is */
    int n_views;          /* 0: p is sigmoid(logit) */
    const double *views;  /* [n, n_views] probabilities of the cell as it is, turned, mirrored ...; p is their mean */
    const unsigned char *kept; /* [n] 0: the filter of training cells would drop it; NULL: there is none */
} BinaryPredictions;

/* One training, whose best weights were tested on donors that it has not seen. */
typedef struct {
    const char *name; /* "D5", a part of file names */
    const BinaryCells *cells;
    const int32_t *train; /* [n_train] ids, after the filter, each once */
    int64_t n_train;
    BinaryPredictions validation, test;
    ThresholdRule rule;
    bool balanced; /* the sampler drew both classes as often: baselines weigh them alike too */

    const char *const *view_names; /* [n_views]; "identity" ... */
    int best_epoch;                /* from 1; 0: unknown */
    int epochs;                    /* curves that follow are [epochs], or NULL */
    const double *train_losses, *val_losses, *train_accuracies, *val_accuracies;
    json_t *hyperparameters; /* written as they are; or NULL */
} BinaryFold;

/* Into the directory, FOLD being the name:
 *   test_results_FOLD.json .md       everything, with the reference's keys; the same for people
 *   scores_FOLD.csv                  a row for the network (all cells; those that the filter keeps, and drops) and for
 *                                    each baseline
 *   error_analysis_FOLD.csv .svg     p, photons, size and peak of TN, FP, FN, TP; histograms
 *   photon_deciles_FOLD.csv          scores from the dimmest to the brightest tenth of the cells
 *   donors_FOLD.csv                  what each donor's cells are like, and their scores
 *   roc_FOLD.csv .svg, precision_recall_FOLD.csv .svg     of the network and the regressions; none if all test cells
 *                                    are of one class
 *   confusion_matrix_FOLD.svg, reliability_FOLD.svg
 *   predictions_FOLD.csv             a row a test cell
 *   confident_errors_FOLD.csv        those taken for the other class, the surest first; empty if there are none
 * What the numbers are is said in binary_scores.h; the loss is that of the un-augmented logits, a mean over cells where
 * the reference has one of batches. scores, unless NULL: the network's on all test cells. */
bool report_binary_fold(const BinaryFold *fold, const char *directory, BinaryScores *scores, Error *error);

/* All folds of a cross-validation, of the same cells and views. Into the directory:
 *   cross_validation_results.json .csv .md      the reference's keys; a row a fold, their mean and both deviations
 *   means.csv                        means over folds of the network and the baselines
 *   scores.csv, and all the above without _FOLD, of the test cells of all folds together: each has its fold's network
 *                                    and threshold, so that pooled curves mix scales that need not be the same
 *   validation_loss.svg, validation_accuracy.svg      by epoch, a line a fold; none if no fold has them */
bool report_binary_folds(const BinaryFold *folds, int n, const char *directory, Error *error);

#endif
