/* The log lines of train_slm, which begin as the reference's do. */
#pragma once

#include "model/model.h"
#include "train/spec.h"

typedef struct {
    bool printed;      /* print the reference's MFU */
    bool recomputes;   /* the FLOPs include recomputed ones */
    double parameters; /* of the model without the position table, as the reference counts them */
    double peak;       /* measured FLOP/s of matrix products, for a device whose peak is not stated; 0: not known */
    bool bits;         /* the model has bits per byte */
} SlmLines;

/* Returns the reference's MFU: 8 FLOPs per parameter and token, over the 312 TFLOP/s of an A100. `tokens`: per second.
 * 6 and the products of attention are usual, over the peak of the device that computes. */
double slm_printed_mfu(double parameters, double tokens);

/* Print lines, as functions of LogLabels; the context is an SlmLines. */
void slm_print_step(const void *context, const StepLine *line);
void slm_print_validation(const void *context, const ValidationLine *line);
