/* The tolerance of sums in f32. U = 2^-24 is the rounding error of one float operation. A sum of K terms of random
 * sign, added in any order, has partial sums as large as sqrt(K) terms, each rounded once: a relative error of about U
 * sqrt(K) / 1.4 where the terms do not cancel further; 4 U sqrt(K) is taken for the largest of many elements. A chain
 * of c roundings adds c U. */
#pragma once

#include <math.h>
#include <stdint.h>

#define U 0x1p-24

/* Returns the tolerance, relative to the size of the elements, of sums of so many terms followed by so many roundings.
 */
static inline double sum_error(int64_t terms, double roundings) { return (roundings + 4 * sqrt((double)terms)) * U; }
