/* The numbers that specify the arrays of the FLIM tests: a hash, and the photon counts of four synthetic cells. */
#pragma once

#include <stdint.h>

/* Returns number k of tensor j, uniform in -1 .. 1. */
double cv_golden_uniform(uint64_t j, uint64_t k);
/* Returns a count of cell n, 0 .. 3, of 256 bins and 21 x 21 pixels. */
int cv_golden_count(int n, int t, int y, int x);
