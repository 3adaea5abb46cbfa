/* How far features of speech agree that were computed in two ways. */
#pragma once

#include "base/base.h"

/* Rounding may change this. With the types of products that are fit for codes, TF32 and f16, some 0.3 % are others,
 * with bf16, which is not, 3 % and more: 1 % lies between them. */
static const double ALIKE_CODES = 0.99;
/* Vectors of TF32 and f16 have larger cosines than the first. Those of bf16, or of clips that a batch padded, may be
 * off by some hundred roundings that are independent of each other, 10 * 2^-8: a cosine of 0.9992. Other weights give
 * other vectors altogether. */
static const double ALIKE_COSINE = 0.9999, LEAST_COSINE = 0.999;

/* Returns the cosine of x and y [n]: 1 if both are 0, 0 if one is. */
double agreement_cosine(const float *x, const float *y, int64_t n);
/* Returns |x - y| / |y|; 0 if both are 0. */
double agreement_difference(const float *x, const float *y, int64_t n);
/* Returns whether so many codes of n are too many to be explained by a share of 1 - ALIKE_CODES: more than that, and
 * three standard deviations, which counts of few codes have by chance. */
bool agreement_is_bad(int64_t different, int64_t n);
typedef struct {
    double median, least;
} Agreement;
/* Sorts values [n], which must be finite. Returns 1 and 1 if there are none. */
Agreement agreement_of(double *values, int64_t n);
