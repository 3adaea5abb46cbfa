/* The parts of train_cv: its options (train_cv_options.c), what is done for each fold and over all of them
 * (train_cv.c), and what a finished fold leaves for the next start (train_cv_kept.c). */
#ifndef TRAIN_CV_H
#define TRAIN_CV_H

#include "data/flim_dataset.h"
#include "model/flim.h"
#include "train/binary_report.h"
#include "train/loop.h"

typedef struct {
    TrainOptions train; /* first: the loop's options * is ours */
    const Option *rows;
    int n_rows;
    Device *device;
    const char *device_why; /* why it is no GPU, or NULL */
    const char *protocol, *train_donors, *val_donors, *test_donors, *cv_donors, *folds;
    const char *filter, *sampler, *threshold, *monitor, *init, *channels;
    int64_t shift, patience, extension_epochs, extensions, cosine_epochs;
    double filter_sigmas, smoothing, dropout, head_dropout, min_learning_rate;
    bool compat, augment, mixup, dilated, tta;
    FlimConfig model; /* made of channels, init and the rest; bins and side are the data's */
    ThresholdRule rule;
} CvRun;

/* The options table; returns how many rows. */
int cv_option_rows(CvRun *o, Option *rows);
/* Replaces 0 by its value, applies --compat to what is not given, and refuses what makes no sense. */
void cv_options_resolve(CvRun *o, Option *rows, int n);

/* What the best weights of a fold said of its cells, in all views, so that a fold that is done need not be asked again:
 * a test donor is looked at as seldom as can be. */
typedef struct {
    int64_t n;     /* cells */
    float *logits; /* [n, FLIM_VIEWS], the cell as it is first */
    int32_t *ids;  /* [n] */
    double *first; /* [n] logits of the cell as it is */
    double *p;     /* [n, FLIM_VIEWS] probabilities */
} CvSaid;
enum { CV_VAL, CV_TEST, CV_SAID };

/* Returns what was said of which by what, as text: these weights (cv_weights_name), and the counts of these cells.
 * free() */
char *cv_said_key(const char *weights, const FlimCells *cells, const FlimIds ids[CV_SAID]);
/* Reads DIRECTORY/said.safetensors, if it was written with this key and is of these cells. */
bool cv_said_read(const char *directory, const char *key, const FlimIds *ids, CvSaid said[CV_SAID]);
bool cv_said_write(const char *directory, const char *key, const CvSaid said[CV_SAID], Error *error);
/* Of these cells' logits, which are taken over. */
CvSaid cv_said_of(const FlimIds *ids, float *logits);
void cv_said_free(CvSaid *said);
/* A checkpoint's name and the hash of its weights, wherever it lies. free() */
char *cv_weights_name(const char *checkpoint);

#endif
