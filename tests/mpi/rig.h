/* A rank of a group over MPI in a test. */
#pragma once

#include "kernels/mpi.h"

/* Returns the rank and the number of ranks that mpirun tells in the environment; 0 of 1 without mpirun. */
void launched_as(int *rank, int *size);
/* Opens the group that mpirun has started, or dies. Waiting for a minute ends the program. */
Group *open_launched(void);
/* Restarts that minute. */
void waiting_begins(void);
