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
/* Set by base/spawn.c. TRAINC_STARTED_BY holds the description. */
static const char STARTED_BY[] = "TRAINC_STARTED_BY";
static const Variables gpus = {
    .launcher = "--gpus",
    .rank = "RANK",
    .size = "WORLD_SIZE",
    .local_rank = "LOCAL_RANK",
    .local_size = "LOCAL_WORLD_SIZE",
    .jobs = {"TRAINC_JOB"},
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
    if (variable(STARTED_BY)) return read_place(&gpus, launch, error);
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
    bool own = launch->launcher == gpus.launcher;
    if (launch->launcher)
        snprintf(launch->description, sizeof launch->description, "%s", own ? variable(STARTED_BY) : launch->launcher);
    return launch->size == 1 || read_meeting_place(launch, error);
}

int launch_card(const Launch *launch, int visible, Error *error) {
    int least = launch->local_size > launch->local_rank ? launch->local_size : launch->local_rank + 1;
    if (visible >= least) return launch->local_rank;
    if (visible == 1) return 0;
    error_set(error,
              "rank %d is number %d of %d%s processes that %s has started on this machine, and sees %d GPUs: start a "
              "process for each GPU, or let each see the one that is its own (CUDA_VISIBLE_DEVICES)",
              launch->rank, launch->local_rank, least, launch->local_size ? "" : " or more",
              launch->launcher ? launch->launcher : "a launcher", visible);
    return -1;
}

/* ---- one process on each node ---- */

/* Copies the first of lines. Returns how many there are. */
static int first_line(const char *lines, char *first, size_t room) {
    size_t length = strcspn(lines, "\n");
    int n = 0;
    snprintf(first, room, "%.*s", (int)length, lines);
    for (; *lines; lines += strspn(lines, "\n")) {
        lines += strcspn(lines, "\n");
        n++;
    }
    return n;
}

static bool read_skypilot(LaunchNodes *nodes, Error *error) {
    const char *addresses = variable("SKYPILOT_NODE_IPS");
    nodes->launcher = "SkyPilot";
    int told = addresses ? first_line(addresses, nodes->address, sizeof nodes->address) : 0;
    if (told && !variable("SKYPILOT_NUM_NODES"))
        nodes->count = told; /* of early versions */
    else if (!read_number("SKYPILOT_NUM_NODES", 1, MOST_RANKS, &nodes->count, error))
        return false;
    if (!read_number("SKYPILOT_NODE_RANK", 0, nodes->count - 1, &nodes->node, error)) return false;
    if (nodes->count > 1 && told != nodes->count)
        return error_set(error, "SKYPILOT_NUM_NODES=%d, but SKYPILOT_NODE_IPS has %d address%s", nodes->count, told,
                         told == 1 ? "" : "es");
    return true;
}

/* Copies the first name of a list such as "a[01-03,7],b": "a01". Returns false if it is no such list. */
static bool first_host(const char *list, char *host, size_t room) {
    size_t n = 0;
    while (*list && *list != ',') {
        bool range = *list == '[';
        size_t length = range ? strcspn(++list, "-,]") : 1;
        if (n + length >= room || !length || !*list) return false;
        memcpy(host + n, list, length);
        n += length;
        list += range ? strcspn(list, "]") : length;
        if (range && *list++ != ']') return false;
    }
    host[n] = 0;
    return n > 0;
}

static bool read_slurm_nodes(const Launch *launch, LaunchNodes *nodes, Error *error) {
    const char *names[] = {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"};
    const char *count = variable("SLURM_STEP_NUM_NODES") ? "SLURM_STEP_NUM_NODES" : "SLURM_NNODES";
    int i = 0;
    nodes->launcher = slurm.launcher;
    memcpy(nodes->job, launch->job, sizeof nodes->job);
    if (!read_number(count, 1, MOST_RANKS, &nodes->count, error)) return false;
    if (nodes->count != launch->size)
        return error_set(error,
                         "Slurm has started %d tasks on %d nodes: with --gpus give it one task for each node (srun "
                         "--ntasks-per-node=1), or leave --gpus out",
                         launch->size, nodes->count);
    if (!read_number("SLURM_NODEID", 0, nodes->count - 1, &nodes->node, error)) return false;
    while (i < 2 && !variable(names[i])) i++;
    const char *list = variable(names[i]);
    if (!list) return error_set(error, "%s is not set", names[1]);
    return first_host(list, nodes->address, sizeof nodes->address) ||
           error_set(error, "%s=%s: expected a list of nodes such as a[01-03,7],b", names[i], list);
}

/* Takes the place of meeting that the user has chosen. */
static bool read_chosen_place(LaunchNodes *nodes, Error *error) {
    const char *address = variable("MASTER_ADDR");
    nodes->port = 29500;
    if (address && strlen(address) >= sizeof nodes->address)
        return error_set(error, "MASTER_ADDR has %zu characters: more than %zu", strlen(address),
                         sizeof nodes->address - 1);
    if (address) memcpy(nodes->address, address, strlen(address) + 1);
    return !variable("MASTER_PORT") || read_number("MASTER_PORT", 1, 65535, &nodes->port, error);
}

bool launch_nodes(LaunchNodes *nodes, Error *error) {
    Launch launch;
    *nodes = (LaunchNodes){.count = 1};
    if (!launch_read(&launch, error)) return false;
    if (launch.size > 1 && launch.launcher != slurm.launcher)
        return error_set(error, "%s has started this process as rank %d of %d: leave --gpus out, or the launcher",
                         launch.launcher, launch.rank, launch.size);
    bool several = launch.size > 1 ? read_slurm_nodes(&launch, nodes, error)
                                   : !(variable("SKYPILOT_NODE_RANK") || variable("SKYPILOT_NUM_NODES")) ||
                                         read_skypilot(nodes, error);
    if (!several) return false;
    if (nodes->count > 1) return read_chosen_place(nodes, error);
    *nodes = (LaunchNodes){.count = 1};
    return true;
}

const char *launch_doubt(bool with_gpus, char text[256]) {
    Launch launch;
    int given = 1;
    *text = 0;
    if (!launch_read(&launch, NULL) || launch.launcher) return text;
    if (!with_gpus && read_number("SKYPILOT_NUM_NODES", 2, INT_MAX, &given, NULL))
        snprintf(text, 256,
                 "SkyPilot has started this command on each of %d nodes, and this one trains by itself: --gpus auto "
                 "lets all train together",
                 given);
    else if (read_number("SLURM_NNODES", 2, INT_MAX, &given, NULL))
        snprintf(text, 256,
                 "Slurm has given this job %d nodes, and without srun only this one trains: start the program with "
                 "srun",
                 given);
    else if (!with_gpus && read_number("SLURM_NTASKS", 2, INT_MAX, &given, NULL))
        snprintf(text, 256,
                 "Slurm has been asked for %d tasks, and without srun this process trains by itself: start the program "
                 "with srun",
                 given);
    return text;
}
