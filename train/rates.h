/* How fast a device has been measured to be: --calibrate measures it, and keeps it in a file by the device's name; with
 * it --estimate, and the last lines of a run, compute instead of with shares of what a data sheet states. */
#ifndef TRAIN_RATES_H
#define TRAIN_RATES_H

#include "kernels/device.h"

/* What keeps a device busy in an operation. Those of one kind reach similar rates at similar sizes. */
typedef enum { WORK_PRODUCT, WORK_CONVOLUTION, WORK_ATTENTION, WORK_OTHER, WORK_KINDS } WorkKind;
WorkKind work_kind(int op);
double op_kernels(int op); /* that the cuda device launches for a call of it, usually */

/* The numbers that it multiplies; sums are f32 always. */
typedef enum { NUMBERS_F32, NUMBERS_TF32, NUMBERS_16_BITS, NUMBER_TYPES } NumberType;

/* A rate by the size of a call. */
enum { CURVE_POINTS = 12 };
typedef struct {
    int n;                                         /* 0: not measured */
    double size[CURVE_POINTS], rate[CURVE_POINTS]; /* the sizes grow */
} Curve;

typedef struct {
    char device[128]; /* "NVIDIA L4", "AMD EPYC, 2 threads" */
    double memory;    /* bytes that it has in all */
    DType half;       /* the 16-bit type; f32: there is none */
    /* Rates of the work alone: what a kernel takes besides is not in them. */
    Curve flops[WORK_KINDS][NUMBER_TYPES]; /* FLOP/s by the FLOPs of a call */
    Curve bytes;                           /* bytes/s, read and written, by the bytes of a call */
    double launch;                         /* seconds that a kernel takes besides */
    double seconds;                        /* that all this took */
} Rates;

/* Between two points by straight lines over the logarithms; beyond the ends as at the ends. */
double curve_at(const Curve *curve, double size);

#endif
