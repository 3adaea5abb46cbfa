/* A machine to estimate for: a row of kernels/cards.c, rates measured by --calibrate, or both. */
#pragma once

#include "cost/rates.h"
#include "kernels/cards.h"

typedef struct {
    const Card *card;
    DType half; /* the 16-bit type; f32 without --amp */
    bool tf32;
    int workers;        /* threads of the loader */
    const Rates *rates; /* NULL: not measured */
    double available;   /* bytes of memory that a run may use */
    const char *limit;  /* that leaves them, of this machine: HostMemory.limit; NULL: none */
} Machine;

/* The options that decide which machine it is and how it computes. */
typedef struct {
    const char *gpu;         /* a card's key, "all", or "here": the device of this machine */
    const char *device;      /* "auto", "cpu" or "cuda" */
    const char *calibration; /* the file of measured rates; NULL: the user's; "none": no rates are used */
    int threads, workers;
    bool amp, no_tf32;
} MachineOptions;

/* Returns the machines that `gpu` names; free(). Dies if there is none of that name, and lists the known ones. */
Machine *machines_named(const MachineOptions *options, int *n);
/* Describes an open device: its row of the table of cards, its measured rates, or both. A CPU, or a card that is not in
 * the table, gets a Card made of its rates. The card and the rates live as long as the process. False if nothing is
 * known of the device. Warns of a damaged file of rates. */
bool machine_of_device(const Device *device, const MachineOptions *options, Machine *machine);

/* Returns the type of the numbers that matrix products multiply. */
NumberType machine_numbers(const Machine *machine);
/* Returns the stated FLOP/s of matrix products, the denominator of an MFU; where none is stated, the best measured. */
double machine_peak_flops(const Machine *machine);
/* Returns bytes/s of copies from the host; infinite if the device reads the host's memory. */
double machine_copy_rate(const Machine *machine);
