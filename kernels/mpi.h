/* A group of ranks over MPI: kernels/cpu/mpi.c in programs built with `make MPI=1`, else kernels/mpi_absent.c. */
#pragma once

#include "kernels/group.h"

/* Opens a group over MPI, with the rank and size that the launcher has told. Only the calling thread may use it.
 * Returns NULL with the reason: MPI tells another rank or size, or the program was built without MPI. */
Group *mpi_group_open(int rank, int size, Error *error);
/* Returns the library and its version, "Open MPI 4.1.4"; NULL: the program was built without MPI. */
const char *mpi_library(void);
