/* Rates for tests, as if they had been measured. */
#pragma once

#include "cost/rates.h"

/* Returns rates of some kinds of work on `device`: products in f32 and in 16 bits, norms, memory, copies, launches. */
Rates rates_synthetic(const char *device);
