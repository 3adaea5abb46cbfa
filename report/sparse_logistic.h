/* Logistic regression on sparse rows of counts: a baseline for classifiers. */
#pragma once

#include "base/base.h"
#include "data/sparse_rows.h"

typedef struct {
    int classes;
    int64_t features;
    double *weights; /* [classes][features + 1], the last of each its bias; of two classes only those of the second */
    int steps;       /* of the fit */
} SparseLogistic;

/* Minimises inverse_penalty * sum of -ln p(label) + |weights|^2 / 2 over the weights, with biases free of the penalty,
 * until no component of the gradient of the mean over rows is above 1e-6. False if it does not get there. */
bool sparse_logistic_fit(const SparseRows *rows, const int32_t *labels, int classes, int64_t features,
                         double inverse_penalty, SparseLogistic *out, Error *error);
void sparse_logistic_free(SparseLogistic *model);
/* Computes logits[n, classes]. */
void sparse_logistic_logits(const SparseLogistic *model, const SparseRows *rows, double *logits);
