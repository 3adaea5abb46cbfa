/* Which launcher started this process, and which of its processes it is: from the environment alone, before any
 * library of the launcher is loaded. */
#pragma once

#include "base/base.h"

/* The place of this process among those of its job. */
typedef struct {
    int rank, size;             /* 0 and 1: the only one */
    int local_rank, local_size; /* among those on this machine; local_size 0: not told */
    const char *launcher;       /* "Open MPI", "MPICH", "torchrun", "Slurm"; NULL: none */
    char job[128];              /* tells jobs of one machine apart; "": not told */
    char address[256];          /* where rank 0 listens (MASTER_ADDR); "": not told */
    int port;                   /* (MASTER_PORT); 0: not told */
    bool port_in_use;           /* the launcher itself listens on this port: rank 0 takes one of those after it */
} Launch;

/* Reads the variables that Open MPI, MPICH (and what derives from it), torchrun or Slurm's srun set: the first of them
 * that is there counts. MASTER_ADDR and MASTER_PORT are read if there are several processes, whatever the launcher.
 * Returns false with the reason if variables are missing, no numbers, out of range, or contradict each other. */
bool launch_read(Launch *launch, Error *error);
