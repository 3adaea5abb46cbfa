/* Maps of logits that make a classifier's probabilities true, fitted on rows that it was not trained on.
 *
 * Each fit is the minimum of the NLL, summed over rows, found to convergence. Vector scaling and the temperature by a
 * covariate add to the sum 1/2 of the squared distance of their parameters from "change nothing" (scale 1, bias 0,
 * slope 0), which weighs about as much as one row. Without it there is no minimum where a class has no rows, or where
 * all rows above or below some value of the covariate are right. */
#pragma once

#include "report/evaluation.h"

typedef enum {
    CALIBRATION_TEMPERATURE, /* logits / T */
    CALIBRATION_VECTOR,      /* scale[c] * logit[c] + bias[c] */
    CALIBRATION_COVARIATE,   /* logits / T(v), ln T = intercept + slope * z, z = (v - mean) / deviation */
    CALIBRATION_KINDS
} CalibrationKind;
extern const char *const CALIBRATION_NAMES[CALIBRATION_KINDS]; /* "temperature", "vector", "covariate" */

typedef struct {
    CalibrationKind kind;
    int classes;
    double temperature;   /* the best single one, for every kind */
    double *scale, *bias; /* vector: [classes] */
    /* covariate: */
    double intercept, slope;
    double mean, deviation; /* of the rows of the fit, divisor n; deviation 0: all have the same value, and z is 0 */
    double low, high;       /* of the fit; the temperature is constant below and above */
    int iterations;         /* Newton steps */
} Calibration;

/* Fits a calibration. Fails if there is nothing to fit: no temperature is best (metrics_fit_temperature), or the
 * covariate is missing.
 */
bool calibration_fit(Calibration *calibration, CalibrationKind kind, const Predictions *predictions, Error *error);
/* probabilities[n, classes] */
bool calibration_apply(const Calibration *calibration, const Predictions *predictions, double *probabilities,
                       Error *error);
/* Returns T(value) of a temperature by a covariate. */
double calibration_temperature(const Calibration *calibration, double value);
void calibration_free(Calibration *calibration);

/* Returns what calibration_apply needs, with the name of the kind under "kind". */
json_t *calibration_to_json(const Calibration *calibration);
/* Reads it back. An error says which number is missing or has no meaning; then there is nothing to free. */
bool calibration_from_json(const json_t *json, int classes, Calibration *calibration, Error *error);
