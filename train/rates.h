/* How fast a device has been measured to be: --calibrate measures it, and keeps it in a file by the device's name; with
 * it --estimate, and the last lines of a run, compute instead of with shares of what a data sheet states. */
#ifndef TRAIN_RATES_H
#define TRAIN_RATES_H

#include "kernels/device.h"

/* What keeps a device busy in an operation. Those of one kind reach similar rates at similar sizes. */
typedef enum {
    WORK_PRODUCT,
    WORK_PRODUCT_BACKWARD,
    WORK_GELU_PRODUCT, /* with GELU in the same pass */
    WORK_GELU_PRODUCT_BACKWARD,
    WORK_ATTENTION,
    WORK_ATTENTION_BACKWARD,
    WORK_CONVOLUTION,
    WORK_CONVOLUTION_BACKWARD,
    WORK_STEM,
    WORK_STEM_BACKWARD,
    WORK_NORM, /* layer norms */
    WORK_NORM_BACKWARD,
    WORK_ACTIVATION, /* batch norms and what follows them */
    WORK_ACTIVATION_BACKWARD,
    WORK_STATISTICS, /* of batch norms */
    WORK_LOSS,
    WORK_UPDATE, /* AdamW */
    WORK_OTHER,  /* moves numbers, above all */
    WORK_KINDS
} WorkKind;
extern const char *const work_names[WORK_KINDS];
WorkKind work_kind(int op);
double op_kernels(int op); /* that the cuda device launches for a call of it, usually */

/* The numbers that it multiplies; sums are f32 always. */
typedef enum { NUMBERS_F32, NUMBERS_TF32, NUMBERS_16_BITS, NUMBER_TYPES } NumberType;

/* A rate by the size of a call, of calls that do about so much work with each byte: narrow products and short sequences
 * do less than wide and long ones, and reach less. */
enum { CURVE_POINTS = 12, CURVES = 3 };
typedef struct {
    int n;                                         /* 0: not measured */
    double density;                                /* FLOPs a byte */
    double size[CURVE_POINTS], rate[CURVE_POINTS]; /* the sizes grow */
} Curve;

typedef struct {
    char device[128]; /* "NVIDIA L4", "AMD EPYC, 2 threads" */
    char date[16];    /* "2026-11-21" */
    double memory;    /* bytes that it has in all */
    DType half;       /* the 16-bit type; f32: there is none */
    /* Rates of the work alone: what a kernel takes besides is not in them. */
    Curve flops[WORK_KINDS][NUMBER_TYPES][CURVES]; /* FLOP/s by the FLOPs of a call; the densities grow */
    Curve bytes;                                   /* bytes/s, read and written, by the bytes of a call */
    double launch;                                 /* seconds that a kernel takes besides */
    double copy;                                   /* bytes/s from the host; 0: its memory is the device's */
    double seconds;                                /* that all this took */
} Rates;

/* Between two points by straight lines over the logarithms; beyond the ends as at the ends. */
double curve_at(const Curve *curve, double size);
/* The same between two of CURVES curves by their densities; 0: none is measured. */
double curves_at(const Curve *curves, double flops, double bytes);
/* The best FLOP/s of matrix products in numbers of a type; 0: not measured. */
double rates_best(const Rates *rates, NumberType type);

/* How the file calls a device: a GPU as its driver does, a CPU by its model and threads. */
void rates_device_name(const Device *device, char name[128]);
/* `path`, or the file of this user where it is NULL: $XDG_CACHE_HOME/train.c/rates.json, else in ~/.cache; free().
 * NULL: neither that nor HOME is set, so there is none. */
char *rates_path(const char *path);
/* Whether the path is the word that stands for no file. */
bool rates_are_none(const char *path);
/* What has been measured of a device. False: nothing has, and error is ""; or the file is damaged, and it says where.
 * path NULL: the user's file, which need not be there. */
bool rates_read(const char *path, const char *device, Rates *rates, Error *error);
/* The names of all devices of the file; -1: it is damaged. */
int rates_devices(const char *path, char names[][128], int most, Error *error);
/* Puts it in the place of what the file had of this device; other devices' stay. */
bool rates_write(const char *path, const Rates *rates, Error *error);

/* Measures a device by its own operations and copies in about so many seconds: less precisely in fewer. */
Rates rates_measure(Device *device, double seconds);

#endif
