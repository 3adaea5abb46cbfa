/* Cases that bench_step times. A file with a case registers it before main:
 *
 *   __attribute__((constructor)) static void register_cases(void) { bench_register(&my_case); } */
#pragma once

#include "model/model.h"

typedef struct {
    const char *name, *usage; /* usage: the arguments and what they mean */
    int min_arguments;
    /* Opens the model and makes the batch on which its steps are timed. Both live until the program ends. The device
     * dataset, if the model has one, is the tensor behind the batch's fields. */
    Model *(*open)(const char *name, char **arguments, int n_arguments, Batch *batch);
} BenchCase;

/* Adds a case, which must outlive main. */
void bench_register(const BenchCase *bench_case);
