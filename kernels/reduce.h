/* The arithmetic of a reduction between ranks, for libraries that only carry bytes. */
#pragma once

#include "kernels/group.h"

/* Writes to `to` [n] the sum or maximum of parts [n_parts, n], f32, bf16, f16 or i32: in the order of the parts, in
 * f32, rounded once, or as integers, which wrap around. `to` lies apart from them. The bits do not depend on n_threads.
 */
void reduce_parts(void *to, const void *parts, DType dtype, int n_parts, int64_t n, Reduction reduction, int n_threads);
