#include "tests/mpi/rig.h"

#include <stdlib.h>

static double begun;

/* Reads a number that mpirun of Open MPI or of MPICH has set. */
static int launched_number(const char *open_mpi, const char *mpich, int otherwise) {
    const char *text = getenv(open_mpi);
    if (!text) text = getenv(mpich);
    return text ? atoi(text) : otherwise;
}

void launched_as(int *rank, int *size) {
    *rank = launched_number("OMPI_COMM_WORLD_RANK", "PMI_RANK", 0);
    *size = launched_number("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", 1);
}

void waiting_begins(void) { begun = seconds_now(); }

static void end_a_long_wait(void *context) {
    const Group *group = context;
    if (seconds_now() - begun > 60) die("rank %d has waited for a minute", group->rank);
}

Group *open_launched(void) {
    int rank, size;
    Error error;
    launched_as(&rank, &size);
    Group *group = mpi_group_open(rank, size, &error);
    if (!group) die("%s", error.text);
    group->waiting = end_a_long_wait;
    group->context = group;
    waiting_begins();
    return group;
}
