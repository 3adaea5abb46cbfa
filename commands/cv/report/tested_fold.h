/* Reports of a cross-validation of the classifier of cells (0 quiescent, 1 active), on disk and on the terminal.
 *
 * A cell is predicted to be active if p > threshold, where p is the mean of the views' probabilities and the threshold
 * is chosen on validation cells. Every file is written whole or not at all, into a directory that exists; an error
 * names the file. */
#pragma once

#include "data/cv/cells.h"
#include "report/evaluation.h"
#include "report/threshold.h"

/* Predictions of the network for the cells of a split. */
typedef struct {
    int64_t n;
    const int32_t *ids;   /* [n] */
    const double *logits; /* [n] of the unchanged cell */
    int n_views;          /* 0: p is sigmoid(logit) */
    const double *views;  /* [n, n_views] probabilities of the cell unchanged, turned, mirrored ...; p is their mean */
    const unsigned char *kept; /* [n] 0: the filter of training cells would drop the cell; NULL: no filter */
} CellPredictions;

/* One training, the best weights of which were tested on donors that they have not seen. */
typedef struct {
    const char *name; /* "D5", a part of file names */
    const CvCells *cells;
    const int32_t *train; /* [n_train] ids after the filter, each once */
    int64_t n_train;
    CellPredictions validation, test;
    ThresholdRule rule;
    bool balanced; /* the sampler drew both classes equally often: baselines weigh them equally too */

    const char *const *view_names; /* [n_views]; "identity" ... */
    int best_epoch;                /* from 1; 0: unknown */
    int epochs;                    /* the curves that follow are [epochs], or NULL */
    const double *train_losses, *val_losses, *train_accuracies, *val_accuracies;
    json_t *hyperparameters; /* written as they are; or NULL */
    const char *cause;       /* why the network is at chance, if it is (chance_text); or NULL */
} TestedFold;

/* The results of a test that others need. */
typedef struct {
    BinaryScores scores; /* of the network, for all test cells */
    Threshold threshold;
    double temperature; /* of the logits of unchanged cells; NaN: none is best */
} FoldResult;

/* Reports one fold. Into the directory, FOLD being its name:
 *   test_results_FOLD.json .md       everything, with the reference's keys; the same for people
 *   scores_FOLD.csv                  a row for the network (all cells; those that the filter keeps, and drops) and for
 *                                    each baseline
 *   error_analysis_FOLD.csv .svg     p, photons, size and peak of TN, FP, FN, TP; histograms
 *   photon_deciles_FOLD.csv          scores from the dimmest to the brightest tenth of the cells
 *   donors_FOLD.csv                  properties of each donor's cells, and their scores
 *   roc_FOLD.csv .svg, precision_recall_FOLD.csv .svg     of the network and the regressions; none if all test cells
 *                                    have one class
 *   confusion_matrix_FOLD.svg, reliability_FOLD.svg
 *   predictions_FOLD.csv             a row per test cell
 *   confident_errors_FOLD.csv        wrong predictions, the most certain first; empty if there are none
 * report/evaluation.h defines the scores; the loss is that of the un-augmented logits, a mean over cells where
 * the reference has one of batches. Fills *result, unless it is NULL. */
bool tested_fold_report(const TestedFold *fold, const char *directory, FoldResult *result, Error *error);

/* Reports all folds of a cross-validation, which have the same cells and views. Into the directory:
 *   cross_validation_results.json .csv .md      the reference's keys; a row per fold, mean and both deviations
 *   means.csv                        means over folds of the network and the baselines
 *   scores.csv, and all the above without _FOLD, of the test cells of all folds together; each has the network
 *                                    and the threshold of its fold
 *   roc.csv .svg, precision_recall.csv .svg           the mean of the folds' curves with its 95 % interval, and each
 *                                    fold; in the table also the curve of all cells pooled, though the scales of the
 *                                    networks may differ
 *   validation_loss.svg, validation_accuracy.svg      by epoch, a line per fold, its best epoch ringed; none if no fold
 *                                    has them */
bool tested_folds_report(const TestedFold *folds, int n, const char *directory, Error *error);
