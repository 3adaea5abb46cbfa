/* Rates for tests, as if they had been measured. */
#ifndef TESTS_ESTIMATE_RATES_RIG_H
#define TESTS_ESTIMATE_RATES_RIG_H

#include "cost/rates.h"

/* Returns rates of some kinds of work on `device`: products in f32 and in 16 bits, norms, memory, copies, launches. */
Rates rates_synthetic(const char *device);

#endif
