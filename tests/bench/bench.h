/* Cases that bench_step times. A file with a case registers it before main:
 *
 *   __attribute__((constructor)) static void register_cases(void) { bench_register(&my_case); } */
#pragma once

#include "train/spec.h"

/* The least number of micro-batches in an epoch of made-up samples. */
enum { BENCH_BATCHES = 4 };

typedef struct {
    const char *name, *usage; /* usage: the arguments and what they mean */
    int n_arguments;
    int64_t batch, accumulation; /* those of the guide: the defaults of -b and -g */
    Batch (*largest)(const Dataset *dataset, int64_t batch_size, int64_t token_budget); /* see BatchSpec */
    /* Sets spec->model, with the dropout that the trainer has by default, and spec->train, of at least spec->options->
     * batch_size samples. Both live until the program ends. */
    void (*open)(const char *name, const char *const *arguments, TrainSpec *spec);
} BenchCase;

/* Measures what connects cards: link.c. Returns the exit status. */
int bench_link(int argc, char **argv);

/* Adds a case, which must outlive main. */
void bench_register(const BenchCase *bench_case);
