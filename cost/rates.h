/* The measured rates of devices. --calibrate measures them and keeps them in a file, by the name of the device;
 * --estimate and the last lines of a run use them in place of shares of the data sheet's rates. */
#pragma once

#include "cost/work.h"

/* The type of the numbers that are multiplied; sums are always f32. */
typedef enum { NUMBERS_F32, NUMBERS_TF32, NUMBERS_16_BITS, NUMBER_TYPES } NumberType;

/* The rate by the size of a call, for calls of about one density: narrow products and short sequences do less work per
 * byte than wide and long ones, and reach lower rates. */
enum { CURVE_POINTS = 12, CURVES = 3 };
typedef struct {
    int n;                                         /* 0: not measured */
    double density;                                /* FLOPs per byte */
    double size[CURVE_POINTS], rate[CURVE_POINTS]; /* by ascending size */
} RateCurve;

typedef struct {
    char device[128]; /* "NVIDIA L4", "AMD EPYC, 2 threads" */
    char date[16];    /* "2026-11-21" */
    double memory;    /* bytes in total */
    DType half;       /* the 16-bit type; f32: none */
    /* Rates of the work alone, without the launches of kernels. */
    RateCurve flops[WORK_KINDS][NUMBER_TYPES][CURVES]; /* FLOP/s by the FLOPs of a call; by ascending density */
    RateCurve bytes;                                   /* bytes/s, read and written, by the bytes of a call */
    double launch;                                     /* seconds of one kernel's launch */
    double copy;    /* bytes/s from the host; 0: the device reads the host's memory */
    double seconds; /* that the measurement took */
} Rates;

/* Returns the rate at a size: interpolates linearly over the logarithms, and takes the rates at the ends beyond them.
 */
double rate_curve_at(const RateCurve *curve, double size);
/* Interpolates between two of CURVES curves by their densities, too; 0 if none is measured. */
double rate_curves_at(const RateCurve *curves, double flops, double bytes);
/* Returns the best FLOP/s of matrix products in numbers of a type; 0 if not measured. */
double rates_best(const Rates *rates, NumberType type);

/* Writes the name of a device in the file: of a GPU its driver's name, of a CPU its model and threads. */
void rates_device_name(const Device *device, char name[128]);
/* Returns a copy of `path`; if it is NULL, the user's file, $XDG_CACHE_HOME/train.c/rates.json or the same in ~/.cache.
 * free(). NULL if neither that variable nor HOME is set. */
char *rates_path(const char *path);
/* Returns whether the path is "none", which stands for no file. */
bool rates_are_none(const char *path);
/* Reads the rates of a device. False with an empty error if the file has none of it, or is missing; with a reason if
 * the file is damaged. path NULL: the user's file. */
bool rates_read(const char *path, const char *device, Rates *rates, Error *error);
/* Reads the names of all devices of the file and returns their number; -1 if it is damaged. */
int rates_devices(const char *path, char names[][128], int most, Error *error);
/* Writes the rates of a device in place of its earlier ones. Other devices' rates stay. */
bool rates_write(const char *path, const Rates *rates, Error *error);
