/* One fold of the cross-validation: its donors' cells, the training of one network on them, and its predictions. */
#pragma once

#include "commands/cv/options.h"
#include "commands/cv/prediction_cache.h"
#include "commands/cv/report/epoch_curves.h"

typedef struct {
    CvCells cells;
    CvColumns columns;
    CvFolds folds;
    bool synthetic; /* one training batch, for --estimate without data */
} CvData;

enum { CV_FACTS = 2 };

/* The validation metrics. The one that --monitor names selects the best epoch. */
enum { CV_AUROC, CV_F1, CV_BALANCED_ACCURACY, CV_PRECISION, CV_RECALL, CV_METRICS };

typedef struct {
    CvRun run; /* with the fold's own --output-dir */
    const CvData *data;
    const CvDonors *fold;
    CvFilter filter;
    CvSplits splits;
    CvSampler sampler;
    Fact facts[CV_FACTS];        /* for config.json: the size of a cell */
    Dataset *train, *validation; /* validation: NULL if that split is empty */
    TrainSpec spec;              /* without the model, which run_fold and cv_estimate open */
    int metrics[CV_METRICS];     /* in the order of the log: the one of --monitor, then the others */
    const char *metric_names[CV_METRICS];
    CvPredictions predictions[CV_PREDICTED];
    unsigned char *kept[CV_PREDICTED]; /* [n]: 1 if the filter keeps the cell; NULL: no filter */
    EpochCurves curves;
    int best_epoch;            /* from 1 */
    int64_t copies[CV_SPLITS]; /* cells of the split with the counts of some training cell */
    char *cause;               /* chance_cause of its best weights; NULL: not known */
} CvFold;

/* Returns the data set of a split of the fold, with `views` samples per cell: 1, or CV_VIEWS to evaluate with --tta.
 */
Dataset *cv_fold_dataset(const CvFold *f, int split, int views);
/* Opens the fold's cells. Dies if anything would later stop its training or its test. */
void cv_fold_open(CvFold *f, const CvRun *run, const CvData *data, const CvDonors *fold);
void cv_fold_close(CvFold *f);
/* Returns the checkpoint of the fold's best weights; of its last if the best are gone and their training had ended, so
 * that no later ones could become the best. free(); NULL with an error. */
char *cv_fold_best(const CvFold *f, Error *error);
/* Prints the donors, cells and classes of each split, the filter and the sampler. */
void cv_fold_print(const CvFold *f);

/* Warns, in one line for all folds, of cells that are in training and in another split. */
void cv_folds_warn_of_copies(const CvFold *folds, int n);

/* Dies if --folds names an unknown fold, or one twice. */
void cv_folds_check(const CvRun *run, const CvFolds *folds);
/* Returns whether --folds names the fold or is not given. */
bool cv_fold_selected(const CvRun *run, const CvDonors *fold);
