/* The place of a process in its job, as launchers tell it. */
#include "base/launch.h"
#include "tests/test.h"

/* Sets these variables alone: {"NAME=VALUE", ..., NULL}. */
static void set_alone(const char *const *set) {
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
                                        "SLURM_STEP_NUM_NODES",
                                        "SLURM_STEP_NODELIST",
                                        "SLURM_NNODES",
                                        "SLURM_JOB_NODELIST",
                                        "SLURM_NODELIST",
                                        "SKYPILOT_NODE_RANK",
                                        "SKYPILOT_NODE_IPS",
                                        "SKYPILOT_NUM_NODES",
                                        "TRAINC_STARTED_BY",
                                        "TRAINC_JOB",
                                        "MASTER_ADDR",
                                        "MASTER_PORT"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unsetenv(names[i]);
    for (; *set; set++) putenv((char *)*set);
}

static Launch launch;
static LaunchNodes nodes;
static Error error;

static bool read_with(const char *const *set, bool of_nodes) {
    set_alone(set);
    *error.text = 0;
    return of_nodes ? launch_nodes(&nodes, &error) : launch_read(&launch, &error);
}
#define READ_WITH(...)  read_with((const char *const[]){__VA_ARGS__, NULL}, false)
#define NODES_WITH(...) read_with((const char *const[]){__VA_ARGS__, NULL}, true)

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
    assert_true(read_with((const char *const[]){NULL}, false));
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

/* ---- --gpus ---- */

TEST(a_parent_with_gpus_counts_before_any_launcher_around_it) {
    assert_true(READ_WITH("TRAINC_STARTED_BY=--gpus on 2 nodes of Slurm", "RANK=3", "WORLD_SIZE=4", "LOCAL_RANK=1",
                          "LOCAL_WORLD_SIZE=2", "TRAINC_JOB=77", "MASTER_ADDR=a1", "MASTER_PORT=29500",
                          "SLURM_STEP_NUM_TASKS=2", "SLURM_PROCID=1", "SLURM_LOCALID=0"));
    assert_place(3, 4, 1, 2, "--gpus", "77");
    assert_string_equal(launch.description, "--gpus on 2 nodes of Slurm");
    assert_false(launch.port_in_use);
    assert_true(READ_WITH("TRAINC_STARTED_BY=--gpus", "RANK=0", "WORLD_SIZE=1", "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1"));
    assert_place(0, 1, 0, 1, "--gpus", "");
    assert_true(READ_WITH("PMI_RANK=1", "PMI_SIZE=4", "MPI_LOCALRANKID=1"));
    assert_string_equal(launch.description, "MPICH");
    assert_false(READ_WITH("TRAINC_STARTED_BY=--gpus", "WORLD_SIZE=4"));
    assert_refused("WORLD_SIZE=4, but RANK is not set");
}

static void assert_nodes(int count, int node, const char *launcher, const char *address, int port) {
    assert_string_equal(error.text, "");
    assert_int_equal(nodes.count, count);
    assert_int_equal(nodes.node, node);
    assert_string_equal(nodes.launcher ? nodes.launcher : "none", launcher);
    assert_string_equal(nodes.address, address);
    assert_int_equal(nodes.port, port);
}

TEST(one_machine_has_no_other_nodes) {
    assert_true(read_with((const char *const[]){NULL}, true));
    assert_nodes(1, 0, "none", "", 0);
    assert_true(NODES_WITH("SKYPILOT_NODE_RANK=0", "SKYPILOT_NUM_NODES=1", "SKYPILOT_NODE_IPS=10.0.0.1"));
    assert_nodes(1, 0, "none", "", 0);
    assert_true(NODES_WITH("SLURM_STEP_NUM_TASKS=1", "SLURM_PROCID=0", "SLURM_LOCALID=0", "SLURM_STEP_NUM_NODES=1"));
    assert_nodes(1, 0, "none", "", 0);
    assert_true(NODES_WITH("SLURM_NNODES=2", "SLURM_NODEID=0", "SLURM_PROCID=0")); /* of sbatch */
    assert_nodes(1, 0, "none", "", 0);
}

TEST(skypilot_tells_the_nodes) {
    assert_true(NODES_WITH("SKYPILOT_NODE_RANK=1", "SKYPILOT_NUM_NODES=2", "SKYPILOT_NODE_IPS=10.0.0.1\n10.0.0.2"));
    assert_nodes(2, 1, "SkyPilot", "10.0.0.1", 29500);
    assert_true(
        NODES_WITH("SKYPILOT_NODE_RANK=2", "SKYPILOT_NODE_IPS=10.0.0.1\n10.0.0.2\n10.0.0.3\n", "MASTER_PORT=8008"));
    assert_nodes(3, 2, "SkyPilot", "10.0.0.1", 8008);
    assert_true(NODES_WITH("SKYPILOT_NODE_RANK=0", "SKYPILOT_NUM_NODES=2", "SKYPILOT_NODE_IPS=10.0.0.1\n10.0.0.2",
                           "MASTER_ADDR=head", "MASTER_PORT=8008"));
    assert_nodes(2, 0, "SkyPilot", "head", 8008);
}

TEST(what_skypilot_leaves_out_is_named) {
    assert_false(NODES_WITH("SKYPILOT_NUM_NODES=2", "SKYPILOT_NODE_IPS=10.0.0.1\n10.0.0.2"));
    assert_refused("SKYPILOT_NODE_RANK is not set");
    assert_false(NODES_WITH("SKYPILOT_NODE_RANK=0"));
    assert_refused("SKYPILOT_NUM_NODES is not set");
    assert_false(NODES_WITH("SKYPILOT_NODE_RANK=2", "SKYPILOT_NUM_NODES=2", "SKYPILOT_NODE_IPS=10.0.0.1\n10.0.0.2"));
    assert_refused("SKYPILOT_NODE_RANK=2: expected a number of 0 to 1");
    assert_false(NODES_WITH("SKYPILOT_NODE_RANK=0", "SKYPILOT_NUM_NODES=2", "SKYPILOT_NODE_IPS=10.0.0.1"));
    assert_refused("SKYPILOT_NUM_NODES=2, but SKYPILOT_NODE_IPS has 1 address");
    assert_false(NODES_WITH("SKYPILOT_NODE_RANK=0", "SKYPILOT_NUM_NODES=2", "SKYPILOT_NODE_IPS=10.0.0.1\n10.0.0.2",
                            "MASTER_PORT=none"));
    assert_refused("MASTER_PORT=none: expected a whole number");
}

/* A step of Slurm with one task on each of two nodes, and a list of them. */
#define STEP_OF_NODES(list)                                                                                            \
    "SLURM_STEP_NUM_TASKS=2", "SLURM_PROCID=1", "SLURM_LOCALID=0", "SLURM_STEP_NUM_NODES=2", "SLURM_NODEID=1",         \
        "SLURM_JOB_ID=12", "SLURM_STEP_ID=3", list

TEST(slurm_tells_the_nodes_of_a_step_with_one_task_on_each) {
    static const char *const lists[][2] = {
        {"SLURM_STEP_NODELIST=a[01-03,7],b", "a01"},    {"SLURM_STEP_NODELIST=b,a[01-03,7]", "b"},
        {"SLURM_STEP_NODELIST=node7", "node7"},         {"SLURM_STEP_NODELIST=r[2,5]n[08-09]-ib,x", "r2n08-ib"},
        {"SLURM_JOB_NODELIST=gnode[10,20]", "gnode10"}, {"SLURM_NODELIST=gnode[7]", "gnode7"}};
    for (int i = 0; i < 6; i++) {
        assert_true(NODES_WITH(STEP_OF_NODES(lists[i][0])));
        assert_nodes(2, 1, "Slurm", lists[i][1], 29500);
        assert_string_equal(nodes.job, "12.3");
    }
}

TEST(lists_of_nodes_that_cannot_be_read_are_named) {
    static const char *const lists[] = {"SLURM_STEP_NODELIST=a[01", "SLURM_STEP_NODELIST=a[]", "SLURM_STEP_NODELIST=,b",
                                        "SLURM_STEP_NODELIST=a[01-03"};
    for (int i = 0; i < 4; i++) {
        assert_false(NODES_WITH(STEP_OF_NODES(lists[i])));
        assert_refused(kept_format("%s: expected a list of nodes such as a[01-03,7],b", lists[i]));
    }
    assert_false(NODES_WITH(STEP_OF_NODES("SLURM_CLUSTER_NAME=x")));
    assert_refused("SLURM_JOB_NODELIST is not set");
}

TEST(gpus_and_a_launcher_of_several_processes_exclude_each_other) {
    assert_false(NODES_WITH("RANK=1", "WORLD_SIZE=4", "LOCAL_RANK=1", "TORCHELASTIC_RUN_ID=x"));
    assert_refused("torchrun has started this process as rank 1 of 4: leave --gpus out, or the launcher");
    assert_false(NODES_WITH("OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_RANK=0"));
    assert_refused("Open MPI has started this process as rank 0 of 2");
    assert_false(NODES_WITH("SLURM_STEP_NUM_TASKS=4", "SLURM_PROCID=1", "SLURM_LOCALID=1", "SLURM_STEP_NUM_NODES=2"));
    assert_refused("Slurm has started 4 tasks on 2 nodes: with --gpus give it one task for each node");
}

static const char *doubt_with(bool with_gpus, const char *const *set) {
    static char text[256];
    set_alone(set);
    return launch_doubt(with_gpus, text);
}
#define DOUBT_WITH(with_gpus, ...) doubt_with(with_gpus, (const char *const[]){__VA_ARGS__, NULL})

TEST(a_job_that_trains_on_less_than_it_was_given_is_told) {
    assert_string_equal(doubt_with(false, (const char *const[]){NULL}), "");
    assert_contains(DOUBT_WITH(false, "SLURM_NTASKS=4", "SLURM_PROCID=0", "SLURM_NNODES=1"),
                    "Slurm has been asked for 4 tasks, and without srun this process trains by itself");
    assert_string_equal(DOUBT_WITH(true, "SLURM_NTASKS=4", "SLURM_PROCID=0", "SLURM_NNODES=1"), "");
    for (int with_gpus = 0; with_gpus < 2; with_gpus++)
        assert_contains(DOUBT_WITH(with_gpus, "SLURM_NTASKS=4", "SLURM_PROCID=0", "SLURM_NNODES=2"),
                        "Slurm has given this job 2 nodes, and without srun only this one trains");
    assert_string_equal(DOUBT_WITH(false, "SLURM_NTASKS=2", "SLURM_STEP_NUM_TASKS=2", "SLURM_PROCID=0",
                                   "SLURM_LOCALID=0", "SLURM_NNODES=2"),
                        "");
    assert_contains(DOUBT_WITH(false, "SKYPILOT_NUM_NODES=2", "SKYPILOT_NODE_RANK=0"),
                    "SkyPilot has started this command on each of 2 nodes");
    assert_string_equal(DOUBT_WITH(true, "SKYPILOT_NUM_NODES=2", "SKYPILOT_NODE_RANK=0"), "");
    assert_string_equal(
        DOUBT_WITH(false, "SKYPILOT_NUM_NODES=2", "SKYPILOT_NODE_RANK=0", "WORLD_SIZE=16", "RANK=0", "LOCAL_RANK=0"),
        "");
}

TEST(each_rank_has_a_card_or_hears_why_not) {
    Launch third = {.rank = 6, .size = 8, .local_rank = 2, .local_size = 4, .launcher = "torchrun"};
    assert_int_equal(launch_card(&third, 4, &error), 2);
    assert_int_equal(launch_card(&third, 8, &error), 2);
    assert_int_equal(launch_card(&third, 1, &error), 0);
    assert_int_equal(launch_card(&third, 3, &error), -1);
    assert_refused("rank 6 is number 2 of 4 processes that torchrun has started on this machine, and sees 3 GPUs");
    assert_int_equal(launch_card(&third, 0, &error), -1);
    third.local_size = 0; /* not told */
    assert_int_equal(launch_card(&third, 3, &error), 2);
    assert_int_equal(launch_card(&third, 2, &error), -1);
    assert_refused("number 2 of 3 or more processes that torchrun has started on this machine, and sees 2 GPUs");
}
