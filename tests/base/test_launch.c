/* The place of a process in its job, as launchers tell it. */
#include "base/launch.h"
#include "tests/test.h"

/* Reads a launch with these variables alone: {"NAME=VALUE", ..., NULL}. */
static bool read_with(const char *const *set, Launch *launch, Error *error) {
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK",
                                        "OMPI_COMM_WORLD_SIZE",
                                        "OMPI_COMM_WORLD_LOCAL_RANK",
                                        "OMPI_COMM_WORLD_LOCAL_SIZE",
                                        "PMIX_NAMESPACE",
                                        "OMPI_MCA_ess_base_jobid",
                                        "PMI_RANK",
                                        "PMI_SIZE",
                                        "PMI_JOBID",
                                        "MPI_LOCALRANKID",
                                        "MPI_LOCALNRANKS",
                                        "RANK",
                                        "WORLD_SIZE",
                                        "LOCAL_RANK",
                                        "LOCAL_WORLD_SIZE",
                                        "TORCHELASTIC_RUN_ID",
                                        "TORCHELASTIC_USE_AGENT_STORE",
                                        "SLURM_PROCID",
                                        "SLURM_STEP_NUM_TASKS",
                                        "SLURM_LOCALID",
                                        "SLURM_NTASKS",
                                        "SLURM_STEP_ID",
                                        "SLURM_JOB_ID",
                                        "SLURM_STEP_TASKS_PER_NODE",
                                        "SLURM_NODEID",
                                        "MASTER_ADDR",
                                        "MASTER_PORT"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unsetenv(names[i]);
    for (; *set; set++) putenv((char *)*set);
    *error->text = 0;
    return launch_read(launch, error);
}
#define READ_WITH(...) read_with((const char *const[]){__VA_ARGS__, NULL}, &launch, &error)

static Launch launch;
static Error error;

static void assert_place(int rank, int size, int local_rank, int local_size, const char *launcher, const char *job) {
    assert_string_equal(error.text, "");
    assert_int_equal(launch.rank, rank);
    assert_int_equal(launch.size, size);
    assert_int_equal(launch.local_rank, local_rank);
    assert_int_equal(launch.local_size, local_size);
    assert_string_equal(launch.launcher ? launch.launcher : "none", launcher);
    assert_string_equal(launch.job, job);
}

TEST(a_process_that_nothing_is_told_is_the_only_one) {
    assert_true(read_with((const char *const[]){NULL}, &launch, &error));
    assert_place(0, 1, 0, 0, "none", "");
    assert_true(READ_WITH("WORLD_SIZE=1", "RANK=0"));
    assert_place(0, 1, 0, 0, "none", "");
    assert_true(READ_WITH("SLURM_PROCID=0", "SLURM_LOCALID=0", "SLURM_NTASKS=4", "SLURM_JOB_ID=12")); /* of sbatch */
    assert_place(0, 1, 0, 0, "none", "");
    assert_true(READ_WITH("MASTER_ADDR=node1", "MASTER_PORT=none")); /* nobody to meet */
    assert_place(0, 1, 0, 0, "none", "");
}

TEST(open_mpi_tells_the_place) {
    assert_true(READ_WITH("OMPI_COMM_WORLD_RANK=5", "OMPI_COMM_WORLD_SIZE=8", "OMPI_COMM_WORLD_LOCAL_RANK=1",
                          "OMPI_COMM_WORLD_LOCAL_SIZE=4", "PMIX_NAMESPACE=2041970689", "MASTER_ADDR=node1",
                          "MASTER_PORT=29500"));
    assert_place(5, 8, 1, 4, "Open MPI", "2041970689");
    assert_string_equal(launch.address, "node1");
    assert_int_equal(launch.port, 29500);
    assert_false(launch.port_in_use);
    assert_true(READ_WITH("OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_RANK=1",
                          "OMPI_COMM_WORLD_LOCAL_SIZE=2", "OMPI_MCA_ess_base_jobid=77"));
    assert_place(1, 2, 1, 2, "Open MPI", "77");
    assert_int_equal(launch.port, 0);
}

TEST(mpich_tells_the_place) {
    assert_true(READ_WITH("PMI_RANK=1", "PMI_SIZE=4", "MPI_LOCALRANKID=1", "MPI_LOCALNRANKS=2"));
    assert_place(1, 4, 1, 2, "MPICH", "");
}

TEST(torchrun_tells_the_place_and_that_it_listens_there) {
    assert_true(READ_WITH("RANK=3", "WORLD_SIZE=4", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2", "TORCHELASTIC_RUN_ID=none",
                          "TORCHELASTIC_USE_AGENT_STORE=True", "MASTER_ADDR=10.0.0.1", "MASTER_PORT=29500"));
    assert_place(3, 4, 1, 2, "torchrun", "none");
    assert_true(launch.port_in_use);
    assert_true(READ_WITH("RANK=3", "WORLD_SIZE=4", "LOCAL_RANK=1"));
    assert_place(3, 4, 1, 0, "torchrun", "");
}

TEST(slurm_tells_the_place) {
    assert_true(READ_WITH("SLURM_PROCID=6", "SLURM_STEP_NUM_TASKS=7", "SLURM_LOCALID=1", "SLURM_JOB_ID=12",
                          "SLURM_STEP_ID=3", "SLURM_STEP_TASKS_PER_NODE=2(x2),3", "SLURM_NODEID=2"));
    assert_place(6, 7, 1, 3, "Slurm", "12.3");
    assert_true(READ_WITH("SLURM_PROCID=1", "SLURM_NTASKS=2", "SLURM_LOCALID=1", "SLURM_JOB_ID=12", "SLURM_STEP_ID=0"));
    assert_place(1, 2, 1, 0, "Slurm", "12.0");
    assert_true(READ_WITH("SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=2", "SLURM_LOCALID=1", /* with --mpi=pmi2 */
                          "SLURM_STEP_TASKS_PER_NODE=2", "PMI_RANK=1", "PMI_SIZE=2"));
    assert_place(1, 2, 1, 2, "Slurm", "");
    assert_true(READ_WITH("SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=2", "SLURM_LOCALID=1",
                          "SLURM_STEP_TASKS_PER_NODE=2(x", "SLURM_NODEID=0"));
    assert_place(1, 2, 1, 0, "Slurm", "");
}

TEST(the_launcher_that_is_nearest_to_the_process_counts) {
    assert_true(READ_WITH("SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=2", "SLURM_LOCALID=0", "OMPI_COMM_WORLD_RANK=3",
                          "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_RANK=1", "WORLD_SIZE=1", "RANK=0"));
    assert_place(3, 4, 1, 0, "Open MPI", "");
    assert_true(READ_WITH("SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=2", "SLURM_LOCALID=0", "RANK=3", "WORLD_SIZE=4",
                          "LOCAL_RANK=1"));
    assert_place(3, 4, 1, 0, "torchrun", "");
}

TEST(a_long_name_of_a_job_is_replaced_by_its_hash) {
    static char a[400] = "TORCHELASTIC_RUN_ID=", b[400]; /* the environment keeps them */
    char first[128];
    memset(a + strlen(a), 'x', 300);
    strcpy(b, a);
    b[310] = 'y';
    assert_true(READ_WITH("RANK=1", "WORLD_SIZE=4", "LOCAL_RANK=1", a));
    strcpy(first, launch.job);
    assert_int_equal(strlen(first), 16);
    assert_true(READ_WITH("RANK=1", "WORLD_SIZE=4", "LOCAL_RANK=1", b));
    assert_string_not_equal(launch.job, first);
}

static void assert_refused(const char *why) {
    assert_string_not_equal(error.text, "");
    assert_contains(error.text, why);
}

TEST(what_is_missing_is_named) {
    assert_false(READ_WITH("OMPI_COMM_WORLD_RANK=1"));
    assert_refused("OMPI_COMM_WORLD_SIZE is not set");
    assert_false(READ_WITH("WORLD_SIZE=4"));
    assert_refused("WORLD_SIZE=4, but RANK is not set");
    assert_false(READ_WITH("WORLD_SIZE=4", "RANK=1"));
    assert_refused("LOCAL_RANK is not set");
    assert_false(READ_WITH("WORLD_SIZE=4", "RANK=1", "LOCAL_RANK=1", "MASTER_ADDR=a"));
    assert_refused("MASTER_ADDR is set, but not MASTER_PORT");
    assert_false(READ_WITH("WORLD_SIZE=4", "RANK=1", "LOCAL_RANK=1", "MASTER_PORT=29500"));
    assert_refused("MASTER_PORT is set, but not MASTER_ADDR");
}

TEST(numbers_out_of_range_are_named) {
    assert_false(READ_WITH("WORLD_SIZE=4", "RANK=4", "LOCAL_RANK=1"));
    assert_refused("WORLD_SIZE=4, but RANK=4: expected a number of 0 to 3");
    assert_false(READ_WITH("WORLD_SIZE=4", "RANK=-1", "LOCAL_RANK=1"));
    assert_refused("RANK=-1: expected a number of 0 to 3");
    assert_false(READ_WITH("WORLD_SIZE=0", "RANK=0", "LOCAL_RANK=0"));
    assert_refused("WORLD_SIZE=0: expected a number of 1");
    assert_false(READ_WITH("WORLD_SIZE=99999999999999999999", "RANK=0", "LOCAL_RANK=0"));
    assert_refused("WORLD_SIZE=99999999999999999999: expected a number");
    assert_false(READ_WITH("WORLD_SIZE=4", "RANK=1", "LOCAL_RANK=2", "LOCAL_WORLD_SIZE=2"));
    assert_refused("LOCAL_WORLD_SIZE=2, but LOCAL_RANK=2");
    assert_false(READ_WITH("WORLD_SIZE=4", "RANK=1", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=5"));
    assert_refused("LOCAL_WORLD_SIZE=5: expected a number of 1 to 4");
    assert_false(READ_WITH("WORLD_SIZE=4", "RANK=1", "LOCAL_RANK=1", "MASTER_ADDR=a", "MASTER_PORT=65536"));
    assert_refused("MASTER_PORT=65536: expected a number of 1 to 65535");
}

TEST(texts_that_are_no_numbers_are_named) {
    assert_false(READ_WITH("WORLD_SIZE=4", "RANK=one", "LOCAL_RANK=1"));
    assert_refused("RANK=one: expected a whole number");
    assert_false(READ_WITH("WORLD_SIZE=4", "RANK= 1", "LOCAL_RANK=1"));
    assert_refused("RANK= 1: expected a whole number");
    assert_false(READ_WITH("WORLD_SIZE=4", "RANK=1x", "LOCAL_RANK=1"));
    assert_refused("RANK=1x: expected a whole number");
}

TEST(launchers_that_contradict_each_other_are_named) {
    assert_false(READ_WITH("OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_RANK=1",
                           "WORLD_SIZE=8", "RANK=1"));
    assert_refused("OMPI_COMM_WORLD_SIZE=4 (Open MPI) contradicts WORLD_SIZE=8 (torchrun)");
    assert_false(READ_WITH("PMI_RANK=1", "PMI_SIZE=4", "MPI_LOCALRANKID=1", "WORLD_SIZE=4", "RANK=2"));
    assert_refused("PMI_RANK=1 (MPICH) contradicts RANK=2 (torchrun)");
    assert_true(READ_WITH("PMI_RANK=1", "PMI_SIZE=4", "MPI_LOCALRANKID=1", "WORLD_SIZE=4", "RANK=1"));
}
