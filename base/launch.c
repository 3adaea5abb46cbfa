#include "base/launch.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 8192 };

/* The names of a launcher's variables. */
typedef struct {
    const char *launcher, *rank, *size, *local_rank, *local_size;
    const char *jobs[2]; /* the first that is set names the job */
} Variables;

static const Variables open_mpi = {
    .launcher = "Open MPI",
    .rank = "OMPI_COMM_WORLD_RANK",
    .size = "OMPI_COMM_WORLD_SIZE",
    .local_rank = "OMPI_COMM_WORLD_LOCAL_RANK",
    .local_size = "OMPI_COMM_WORLD_LOCAL_SIZE",
    .jobs = {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"},
};
static const Variables mpich = {
    .launcher = "MPICH",
    .rank = "PMI_RANK",
    .size = "PMI_SIZE",
    .local_rank = "MPI_LOCALRANKID",
    .local_size = "MPI_LOCALNRANKS",
    .jobs = {"PMI_JOBID"},
};
static const Variables torchrun = {
    .launcher = "torchrun",
    .rank = "RANK",
    .size = "WORLD_SIZE",
    .local_rank = "LOCAL_RANK",
    .local_size = "LOCAL_WORLD_SIZE",
    .jobs = {"TORCHELASTIC_RUN_ID"},
};
static const Variables slurm = {
    .launcher = "Slurm",
    .rank = "SLURM_PROCID",
    .size = "SLURM_STEP_NUM_TASKS",
    .local_rank = "SLURM_LOCALID",
};

/* Returns the value of a variable; NULL: it is not set, or empty. */
static const char *variable(const char *name) {
    const char *value = name ? getenv(name) : NULL;
    return value && *value ? value : NULL;
}

/* Reads a whole number of low .. high. */
static bool read_number(const char *name, int low, int high, int *value, Error *error) {
    const char *text = variable(name);
    char *end;
    if (!text) return error_set(error, "%s is not set", name);
    errno = 0;
    long number = strtol(text, &end, 10);
    if (*end || end == text || (*text < '0' && *text != '-') || *text > '9')
        return error_set(error, "%s=%s: expected a whole number", name, text);
    if (errno || number < low || number > high)
        return error_set(error, "%s=%s: expected a number of %d to %d", name, text, low, high);
    *value = (int)number;
    return true;
}

static void read_job(const Variables *names, Launch *launch) {
    for (int i = 0; i < 2 && !*launch->job; i++) {
        const char *job = variable(names->jobs[i]);
        if (!job) continue;
        /* A longer one is as good by its hash. */
        if (strlen(job) < sizeof launch->job)
            memcpy(launch->job, job, strlen(job) + 1);
        else
            snprintf(launch->job, sizeof launch->job, "%016llx",
                     (unsigned long long)hash_bytes(HASH_START, job, strlen(job)));
    }
}

/* Reads what a launcher has set, and whether it fits together. */
static bool read_place(const Variables *names, Launch *launch, Error *error) {
    const char *counted = names->local_size && variable(names->local_size) ? names->local_size : NULL;
    launch->launcher = names->launcher;
    if (!read_number(names->size, 1, MOST_RANKS, &launch->size, error)) return false;
    if (!read_number(names->rank, 0, launch->size - 1, &launch->rank, error))
        return error_before(error, "%s=%d, but ", names->size, launch->size);
    if (counted && !read_number(counted, 1, launch->size, &launch->local_size, error))
        return error_before(error, "%s=%d, but ", names->size, launch->size);
    int most = (counted ? launch->local_size : launch->size) - 1;
    if ((launch->size > 1 || variable(names->local_rank)) &&
        !read_number(names->local_rank, 0, most, &launch->local_rank, error))
        return error_before(error, "%s=%d, but ", counted ? counted : names->size, most + 1);
    read_job(names, launch);
    return true;
}

/* Returns how many tasks a list such as "4(x2),3" has on a node; 0: the list does not say. */
static int slurm_tasks(const char *list, int node) {
    while (list && *list) {
        char *end;
        long tasks = strtol(list, &end, 10), nodes = 1;
        if (end == list || tasks < 1 || tasks > MOST_RANKS) return 0;
        if (!strncmp(end, "(x", 2)) {
            nodes = strtol(end + 2, &end, 10);
            if (*end++ != ')' || nodes < 1 || nodes > INT_MAX) return 0;
        }
        if (node < nodes) return (int)tasks;
        node -= (int)nodes;
        list = *end == ',' ? end + 1 : NULL;
    }
    return 0;
}

static bool read_slurm(Launch *launch, Error *error) {
    Variables names = slurm;
    int node = 0;
    if (!variable(names.size)) names.size = "SLURM_NTASKS";
    if (!read_place(&names, launch, error)) return false;
    const char *list = variable("SLURM_STEP_TASKS_PER_NODE"), *job = variable("SLURM_JOB_ID"),
               *step = variable("SLURM_STEP_ID");
    if (list && (!variable("SLURM_NODEID") || read_number("SLURM_NODEID", 0, MOST_RANKS, &node, NULL)))
        launch->local_size = slurm_tasks(list, node);
    if (launch->local_size > launch->size || launch->local_size <= launch->local_rank) launch->local_size = 0;
    if (job) snprintf(launch->job, sizeof launch->job, "%.60s.%.60s", job, step ? step : "");
    return true;
}

/* Compares RANK and WORLD_SIZE, which another launcher may have left, with what the chosen one says. */
static bool agrees_with_torchrun(const Launch *launch, const Variables *names, Error *error) {
    int size = 0, rank = 0;
    if (!read_number(torchrun.size, 2, MOST_RANKS, &size, NULL)) return true;
    bool same_rank = !read_number(torchrun.rank, 0, MOST_RANKS, &rank, NULL) || rank == launch->rank;
    if (size == launch->size && same_rank) return true;
    bool of_size = size != launch->size;
    return error_set(error,
                     "%s=%d (%s) contradicts %s=%d (torchrun): unset those of the launcher that did not start this "
                     "process",
                     of_size ? names->size : names->rank, of_size ? launch->size : launch->rank, names->launcher,
                     of_size ? torchrun.size : torchrun.rank, of_size ? size : rank);
}

static bool read_meeting_place(Launch *launch, Error *error) {
    const char *address = variable("MASTER_ADDR"), *port = variable("MASTER_PORT"),
               *in_use = variable("TORCHELASTIC_USE_AGENT_STORE");
    if (!address && !port) return true;
    if (!address || !port)
        return error_set(error, "%s is set, but not %s: expected both or neither",
                         address ? "MASTER_ADDR" : "MASTER_PORT", address ? "MASTER_PORT" : "MASTER_ADDR");
    launch->port_in_use = in_use && !strcmp(in_use, "True");
    if (strlen(address) >= sizeof launch->address)
        return error_set(error, "MASTER_ADDR has %zu characters: more than %zu", strlen(address),
                         sizeof launch->address - 1);
    memcpy(launch->address, address, strlen(address) + 1);
    return read_number("MASTER_PORT", 1, 65535, &launch->port, error);
}

static bool in_slurm_step(void) {
    return variable(slurm.size) || (variable("SLURM_STEP_ID") && variable("SLURM_NTASKS"));
}

/* Returns the MPI whose launcher has started this process; NULL: none. Slurm sets variables of MPICH too, but not all.
 */
static const Variables *which_mpi(void) {
    if (variable(open_mpi.rank) || variable(open_mpi.size)) return &open_mpi;
    if (in_slurm_step() && !variable(mpich.local_rank)) return NULL;
    return variable(mpich.rank) || variable(mpich.size) ? &mpich : NULL;
}

/* Reads what the first launcher that has set anything says. */
static bool read_launcher(Launch *launch, Error *error) {
    const Variables *mpi = which_mpi();
    if (mpi) return read_place(mpi, launch, error) && agrees_with_torchrun(launch, mpi, error);
    if (variable(torchrun.rank) || variable(torchrun.size)) return read_place(&torchrun, launch, error);
    return !in_slurm_step() || read_slurm(launch, error);
}

bool launch_read(Launch *launch, Error *error) {
    *launch = (Launch){.size = 1};
    if (!read_launcher(launch, error)) return false;
    if (launch->size == 1 && launch->launcher == torchrun.launcher && !variable("TORCHELASTIC_RUN_ID"))
        launch->launcher = NULL;
    return launch->size == 1 || read_meeting_place(launch, error);
}
