/* A number that tests of kernels/cpu/mpi.c make small. */
#pragma once

#include <stdint.h>

/* The most elements, of all ranks together, that one call of MPI moves; longer tensors go in pieces. It bounds counts,
 * which MPI wants below 2^31, and the memory for what other ranks send. */
extern int64_t mpi_piece;
