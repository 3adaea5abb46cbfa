/* Predictions of a fold's best checkpoint, kept in a file beside the checkpoint, so that the test donor of a finished
 * fold is evaluated only once. */
#pragma once

#include "data/cv/dataset.h"

/* The splits whose predictions are cached, and their number. */
enum { CV_VAL, CV_TEST, CV_PREDICTED };

typedef struct {
    int64_t n;     /* cells */
    float *logits; /* [n, CV_VIEWS]; view 0 is the unchanged cell */
    int32_t *ids;  /* [n] */
    double *first; /* [n] logits of view 0 */
    double *p;     /* [n, CV_VIEWS] probabilities */
} CvPredictions;

/* Returns the predictions of the cells `ids` from their logits, [n, CV_VIEWS], and takes ownership of the logits. */
CvPredictions cv_predictions(const CvIds *ids, float *logits);
void cv_predictions_free(CvPredictions *predictions);

/* Returns the checkpoint's name without its folder, and the hash of its weights. free() the result. */
char *cv_weights_name(const char *checkpoint);
/* Returns as text what the predictions depend on: the weights (cv_weights_name) and a checksum of the cells' photon
 * counts. free() the result. */
char *cv_cache_key(const char *weights, const CvCells *cells, const CvIds ids[CV_PREDICTED]);
/* Reads DIRECTORY/predictions.safetensors. Returns false unless the file was written with this key for these cells. */
bool cv_cache_read(const char *directory, const char *key, const CvIds *ids, CvPredictions predictions[CV_PREDICTED]);
/* Writes DIRECTORY/predictions.safetensors. */
bool cv_cache_write(const char *directory, const char *key, const CvPredictions predictions[CV_PREDICTED],
                    Error *error);
