/* Maps of logits that make a classifier's probabilities true, fitted on rows that it was not trained on.
 *
 * Each fit is the minimum of the NLL, summed over rows, found to convergence. Vector scaling and the SNR-aware
 * temperature add to the sum 1/2 of the squared distance of their parameters from "change nothing" (scale 1, bias 0,
 * slope 0): the weight of a row or so. Without it there is no minimum where a class has no rows, or where rows are
 * right on one side of some SNR only. */
#ifndef TRAIN_CALIBRATION_H
#define TRAIN_CALIBRATION_H

#include "train/evaluation.h"

typedef enum {
    CALIBRATION_TEMPERATURE, /* logits / T */
    CALIBRATION_VECTOR,      /* scale[c] * logit[c] + bias[c] */
    CALIBRATION_SNR,         /* logits / T(snr), ln T = intercept + slope * z, z = (snr - snr_mean) / snr_deviation */
} CalibrationKind;

typedef struct {
    CalibrationKind kind;
    int classes;
    double temperature;             /* of every kind: the best single one */
    double *scale, *bias;           /* vector: [classes] */
    double intercept, slope;        /* SNR */
    double snr_mean, snr_deviation; /* of the rows of the fit, divisor n; 0: all have the same, and z is 0 */
    double snr_low, snr_high;       /* of the fit: beyond, the temperature stays what it is there */
    int iterations;                 /* Newton steps */
} Calibration;

/* An error if there is nothing to fit: no temperature is best (metrics_fit_temperature), or SNR is missing. */
bool calibration_fit(Calibration *calibration, CalibrationKind kind, const Predictions *predictions, Error *error);
/* probabilities[n, classes] */
bool calibration_apply(const Calibration *calibration, const Predictions *predictions, double *probabilities,
                       Error *error);
double calibration_temperature(const Calibration *calibration, double snr); /* SNR: T(snr) */
void calibration_free(Calibration *calibration);

#endif
