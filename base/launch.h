/* Which launcher started this process, and which of its processes it is: from the environment alone, before any
 * library of the launcher is loaded. */
#pragma once

#include "base/base.h"

/* The place of this process among those of its job. */
typedef struct {
    int rank, size;             /* 0 and 1: the only one */
    int local_rank, local_size; /* among those on this machine; local_size 0: not told */
    const char *launcher;       /* "Open MPI", "MPICH", "torchrun", "Slurm", "--gpus"; NULL: none */
    char description[96];       /* the launcher, and what more is known: "--gpus on 2 nodes of SkyPilot" */
    char job[128];              /* tells jobs of one machine apart; "": not told */
    char address[256];          /* where rank 0 listens (MASTER_ADDR); "": not told */
    int port;                   /* (MASTER_PORT); 0: not told */
    bool port_in_use;           /* the launcher itself listens on this port: rank 0 takes one of those after it */
} Launch;

/* Reads the variables that a parent with --gpus (base/spawn.h), Open MPI, MPICH (and what derives from it), torchrun or
 * Slurm's srun set: the first of them that is there counts. MASTER_ADDR and MASTER_PORT are read if there are several
 * processes, whatever the launcher. Returns false with the reason if variables are missing, no numbers, out of range,
 * or contradict each other. */
bool launch_read(Launch *launch, Error *error);

/* Returns which of the cards that this process sees is its own: the one of its number on this machine, or the only one,
 * which the launcher has chosen. Returns -1 with the reason if there are fewer cards than processes. */
int launch_card(const Launch *launch, int visible, Error *error);

/* The place of this machine among those on which the same command is started once, with --gpus on each. */
typedef struct {
    int count, node;      /* 1 and 0: the only one */
    const char *launcher; /* "SkyPilot", "Slurm"; NULL: one machine */
    char job[128];        /* as in Launch */
    char address[256];    /* of the first; MASTER_ADDR if it is set */
    int port;             /* MASTER_PORT; 29500 if it is not set */
} LaunchNodes;

/* Reads the variables that SkyPilot sets for each node, or Slurm's srun if it has started one task on each. Returns
 * false with the reason if they cannot be followed, or a launcher has started several processes otherwise. */
bool launch_nodes(LaunchNodes *nodes, Error *error);
/* Writes why a job may train on less than it has been given: with or without --gpus on each node, it starts fewer
 * processes than Slurm or SkyPilot were asked for. "": nothing is known. Returns text. */
const char *launch_doubt(bool gpus, char text[256]);
