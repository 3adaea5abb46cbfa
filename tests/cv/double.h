/* A second FLIM network in double precision and plain loops, to check the trainer's operations and model where float32
 * cannot tell an error from rounding. It shares no code with kernels/ or model/.
 *
 * A map is [samples, frames, height, width, channels]. Every weight lies in a unit: a convolution and, but for the last
 * one, a batch norm. The linear layers of the head are convolutions of maps with one position. Parameters have torch's
 * order and shapes; in the linear network the slope of leaky ReLU is 1, and pools average. There is no dropout. */
#pragma once

#include "base/base.h"

typedef struct {
    double *v;
    int n, d[3], c;
} Map;

typedef struct {
    char name[48];
    int rank, dims[5];
    int64_t count;
    double *value, *gradient;
} DoubleParam;

/* y = gain (s - mean) rstd + shift, s = weight * x + bias. */
typedef struct {
    int inputs, outputs, taps[3], stride[3];
    char norm[48];                             /* its name; "": none */
    DoubleParam *weight, *bias, *gain, *shift; /* [outputs, inputs, taps]; [outputs] */
    double *running_mean, *running_var;        /* [outputs] */
    double *mean, *rstd;                       /* [outputs], of the last run */
    Map x, s;                                  /* of the last run */
} Unit;

enum {
    STEM,
    DOWNSAMPLE,
    BLOCK1,
    BLOCK2 = BLOCK1 + 2,
    BLOCK3 = BLOCK2 + 3,
    HEAD = BLOCK3 + 3,
    LOGIT,
    UNITS, /* conv1, conv2, shortcut */
    DOUBLE_PARAMS = 4 * (UNITS - 1) + 2
};

typedef struct {
    int channels[3], bins, side;
    bool linear;
    Unit units[UNITS];
    DoubleParam params[DOUBLE_PARAMS];
    int n_params;
    Map stem, downsample, middle[3], block[3], pool[2], mean, head, logits; /* of the last run */
} CvDouble;

/* Returns samples x frames x height x width. */
int64_t cv_map_rows(Map m);
Map cv_map_new(int n, const int d[3], int c);
void cv_map_free(Map *m);
/* Computes net->logits of x, [samples, bins, side, side, 2], which must outlive the gradients. train: with the batch's
 * statistics, which update the running ones. */
void cv_double_forward(CvDouble *net, Map x, bool train);
/* Computes the gradients of the mean loss, log(1 + exp z) - target z, after a forward in training; returns the loss. */
double cv_double_backward(CvDouble *net, const double *targets);
/* Makes a network with all weights 0, which the caller sets. */
CvDouble *cv_double_new(const int channels[3], int bins, int side, bool linear);
void cv_double_close(CvDouble *net);
