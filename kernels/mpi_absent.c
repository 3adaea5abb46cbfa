/* Stands in for groups over MPI in a program that is linked without kernels/cpu/mpi.c. */
#include "kernels/mpi.h"

#include <stddef.h>

Group *mpi_group_open(int rank, int size, Error *error) {
    error_set(error,
              "rank %d of %d: this program was built without MPI, through which ranks on CPUs talk: build it with make "
              "MPI=1",
              rank, size);
    return NULL;
}

const char *mpi_library(void) { return NULL; }
