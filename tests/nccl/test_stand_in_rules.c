/* The stand-in for NCCL: each rule, broken once and reported; faults; and how communicators end. */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "tests/nccl/rig.h"

/* ---- what the library exports ---- */

TEST(the_library_exports_the_functions_and_nothing_else) {
    static const char *const names[] = {
#define NAME(result, name, arguments) #name,
        FOR_EACH_NCCL_FUNCTION(NAME)
#undef NAME
    };
    char output[4096];
    const char *build = getenv("BUILD");
    assert_int_equal(run_command(output, sizeof output, "nm -D --defined-only %s/tests/nccl/libnccl.so.2 | wc -l",
                                 build ? build : "build/release"),
                     0);
    assert_int_equal(atoi(output), sizeof names / sizeof names[0]);
}

/* ---- ranks that do not do the same ---- */

/* One of them is the turn of rank 1, the first that of rank 0. */
typedef struct {
    int kind, count;
    unsigned type, reduction;
    int root;
    bool captured;
} Turn;

static Turn turns[2];
static const char *expected[2]; /* parts of the text */

static unsigned take_turn(const Turn *turn, NcclComm *comm, cudaStream_t stream, float *x) {
    size_t n = (size_t)turn->count;
    char *mine = (char *)x + n * (size_t)rank * (turn->type == COLL_F32 ? 4 : 2);
    return turn->kind == 0   ? nccl.ncclBroadcast(x, x, n, turn->type, turn->root, comm, stream)
           : turn->kind == 1 ? nccl.ncclAllReduce(x, x, n, turn->type, turn->reduction, comm, stream)
           : turn->kind == 2 ? nccl.ncclReduceScatter(x, mine, n, turn->type, turn->reduction, comm, stream)
                             : nccl.ncclAllGather(mine, x, n, turn->type, comm, stream);
}

static cudaGraphExec_t record(const Turn *turn, NcclComm *comm, cudaStream_t stream, float *x) {
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed) == cudaSuccess);
    OK(take_turn(turn, comm, stream, x));
    REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
    REQUIRE(cudaGraphInstantiateWithFlags(&executable, graph, 0) == cudaSuccess);
    cudaGraphDestroy(graph);
    return executable;
}

static void require_spoilt(const float *x, int n) {
    for (int i = 0; i < n; i++) REQUIRE(isnan(x[i]));
}

static void check_turns(void) {
    NcclComm *comm = communicator(1);
    cudaStream_t stream = new_stream();
    float *x = numbers(64);
    const Turn *turn = &turns[rank == 1];
    cudaGraphExec_t graph = turn->captured ? record(turn, comm, stream, x) : NULL;
    if (graph)
        REQUIRE(cudaGraphLaunch(graph, stream) == cudaSuccess);
    else if (take_turn(turn, comm, stream, x) != COLL_SUCCESS)
        await_failure(comm, INVALID_USAGE, ""); /* it is known already */
    await_failure(comm, INVALID_USAGE, expected[0]);
    await_failure(comm, INVALID_USAGE, expected[1]);
    for (int i = 0; i < 20; i++) emulate_advance_streams();
    EXPECT(INVALID_USAGE, nccl.ncclAllReduce(x, x, 1, COLL_F32, COLL_SUM, comm, stream));
    EXPECT(INVALID_USAGE, nccl.ncclCommDestroy(comm));
    all_ranks();
    if (graph) cudaGraphExecDestroy(graph);
    OK(nccl.ncclCommAbort(comm));
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    bool kept = !isnan(x[0]);
    REQUIRE(!kept || x[0] == (float)(1000 * rank + 1)); /* nothing has been written but NaN */
}

TEST(ranks_that_do_not_do_the_same_are_told) {
    const Turn of_rank_0 = {1, 8, COLL_F32, COLL_SUM, 0, false};
    const struct {
        Turn of_rank_0, of_rank_1;
        const char *parts[2];
    } cases[] = {
        {of_rank_0, {3, 8, COLL_F32, COLL_SUM, 0, false}, {"all_reduce count=8", "all_gather count=8"}},
        {of_rank_0,
         {1, 9, COLL_F32, COLL_SUM, 0, false},
         {"count=8 type=f32 reduction=sum direct on rank ", "count=9"}},
        {of_rank_0, {1, 8, COLL_I32, COLL_SUM, 0, false}, {"type=f32", "type=i32"}},
        {of_rank_0, {1, 8, COLL_F32, COLL_MAX, 0, false}, {"reduction=sum", "reduction=max direct on rank 1"}},
        {of_rank_0, {1, 8, COLL_F32, COLL_SUM, 0, true}, {"direct on rank ", "captured=1.1 replay=1 on rank 1"}},
        {{0, 8, COLL_F32, COLL_SUM, 0, false}, {0, 8, COLL_F32, COLL_SUM, 1, false}, {"root=0", "root=1"}},
        {{2, 8, COLL_BF16, COLL_SUM, 0, false}, {2, 8, COLL_F16, COLL_SUM, 0, false}, {"type=bf16", "type=f16"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int count = 2; count <= 3; count++) {
            turns[0] = cases[i].of_rank_0;
            turns[1] = cases[i].of_rank_1;
            memcpy(expected, cases[i].parts, sizeof expected);
            assert_contains(run_ranks(count, NULL, check_turns), "NCCL stand-in: on rank 1: operation 1 is ");
        }
}

static void check_captures_in_another_order(void) {
    NcclComm *comm = communicator(1);
    cudaStream_t stream = new_stream();
    float *x = numbers(8);
    const Turn turn = {1, 8, COLL_F32, COLL_SUM, 0, true};
    cudaGraphExec_t graphs[2] = {record(&turn, comm, stream, x), record(&turn, comm, stream, x)};
    REQUIRE(cudaGraphLaunch(graphs[0], stream) == cudaSuccess);
    REQUIRE(cudaGraphLaunch(graphs[rank], stream) == cudaSuccess);
    await_failure(comm, INVALID_USAGE, "captured=1.1 replay=2 on rank 0");
    await_failure(comm, INVALID_USAGE, "captured=2.1 replay=1 on rank 1");
    all_ranks();
    for (int i = 0; i < 2; i++) cudaGraphExecDestroy(graphs[i]);
    OK(nccl.ncclCommAbort(comm));
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
}

TEST(replays_meet_those_of_the_same_capture) { run_ranks(2, NULL, check_captures_in_another_order); }

/* ---- mistakes of one rank, of which all hear ---- */

static void (*mistake)(NcclComm *comm, cudaStream_t stream, float *x);

static void check_mistake(void) {
    NcclComm *comm = communicator(1);
    cudaStream_t stream = new_stream();
    if (rank == 1) mistake(comm, stream, numbers(8));
    await_failure(comm, INVALID_USAGE, expected[0]);
    all_ranks();
    OK(nccl.ncclCommAbort(comm));
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
}

static void use_second_stream(NcclComm *comm, cudaStream_t stream, float *x) {
    OK(nccl.ncclAllReduce(x, x, 8, COLL_F32, COLL_SUM, comm, stream));
    EXPECT(INVALID_USAGE, nccl.ncclAllReduce(x, x, 8, COLL_F32, COLL_SUM, comm, new_stream()));
}
static void go_beyond(NcclComm *comm, cudaStream_t stream, float *x) {
    EXPECT(INVALID_USAGE, nccl.ncclAllReduce(x, x, 9, COLL_F32, COLL_SUM, comm, stream));
}
static void gather_beyond(NcclComm *comm, cudaStream_t stream, float *x) {
    EXPECT(INVALID_USAGE, nccl.ncclAllGather(x + 5, x, 5, COLL_F32, comm, stream));
}
static void overlap(NcclComm *comm, cudaStream_t stream, float *x) {
    EXPECT(INVALID_USAGE, nccl.ncclAllReduce(x, x + 1, 4, COLL_F32, COLL_SUM, comm, stream));
}
static void scatter_to_another_part(NcclComm *comm, cudaStream_t stream, float *x) {
    EXPECT(INVALID_USAGE, nccl.ncclReduceScatter(x, x, 4, COLL_F32, COLL_SUM, comm, stream));
}
static void gather_from_another_part(NcclComm *comm, cudaStream_t stream, float *x) {
    EXPECT(INVALID_USAGE, nccl.ncclAllGather(x, x, 4, COLL_F32, comm, stream));
}
static void launch_beside(NcclComm *comm, cudaStream_t stream, float *x) {
    const Turn turn = {1, 8, COLL_F32, COLL_SUM, 0, true};
    cudaGraphExec_t graph = record(&turn, comm, stream, x);
    OK(nccl.ncclAllReduce(x, x, 8, COLL_F32, COLL_SUM, comm, stream));
    REQUIRE(cudaGraphLaunch(graph, new_stream()) == cudaSuccess); /* does not wait for the communicator's stream */
    cudaGraphExecDestroy(graph);
    emulate_advance_streams();
}

TEST(all_ranks_hear_of_the_mistakes_of_one) {
    static const struct {
        void (*mistake)(NcclComm *comm, cudaStream_t stream, float *x);
        const char *part;
    } mistakes[] = {{use_second_stream, "rank 1, all_reduce: a second stream"},
                    {go_beyond, "rank 1, all_reduce: the 36 bytes"},
                    {gather_beyond, "rank 1, all_gather: the 40 bytes"},
                    {overlap, "rank 1, all_reduce: the buffers overlap"},
                    {scatter_to_another_part, "rank 1, reduce_scatter: the buffers overlap"},
                    {gather_from_another_part, "rank 1, all_gather: the buffers overlap"},
                    {launch_beside, "begins while operation 1 runs"}};
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        mistake = mistakes[i].mistake;
        expected[0] = mistakes[i].part;
        assert_contains(run_ranks(2, NULL, check_mistake), "NCCL stand-in: on rank 0: ");
    }
}

/* ---- what is refused at once, and harms nothing ---- */

static void check_refusals(void) {
    NcclComm *comm = communicator(1);
    cudaStream_t stream = new_stream();
    float *x = numbers(8), host[8];
    unsigned status;
    EXPECT(COLL_INVALID_ARGUMENT, nccl.ncclAllReduce(host, host, 8, COLL_F32, COLL_SUM, comm, stream));
    EXPECT(COLL_INVALID_ARGUMENT, nccl.ncclAllReduce(x, NULL, 8, COLL_F32, COLL_SUM, comm, stream));
    EXPECT(COLL_INVALID_ARGUMENT, nccl.ncclAllReduce(x, x, 8, 99, COLL_SUM, comm, stream));
    EXPECT(COLL_INVALID_ARGUMENT, nccl.ncclAllReduce(x, x, 8, COLL_F32, 1, comm, stream));
    EXPECT(COLL_INVALID_ARGUMENT, nccl.ncclBroadcast(x, x, 8, COLL_F32, -1, comm, stream));
    EXPECT(COLL_INVALID_ARGUMENT, nccl.ncclBroadcast(x, x, 8, COLL_F32, ranks, comm, stream));
    EXPECT(COLL_INVALID_ARGUMENT, nccl.ncclAllGather(x, x, 1, COLL_F32, NULL, stream));
    EXPECT(INVALID_USAGE, nccl.ncclGroupEnd());
    EXPECT(COLL_INVALID_ARGUMENT, nccl.ncclCommGetAsyncError(NULL, &status));
    OK(nccl.ncclAllReduce(x, x, 8, COLL_F32, COLL_SUM, comm, stream));
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess && x[0] == 1002);
    OK(nccl.ncclCommFinalize(comm));
    EXPECT(COLL_INVALID_ARGUMENT, nccl.ncclAllReduce(x, x, 8, COLL_F32, COLL_SUM, comm, stream));
    EXPECT(COLL_INVALID_ARGUMENT, nccl.ncclCommFinalize(comm));
    OK(nccl.ncclCommDestroy(comm));
    EXPECT(COLL_INVALID_ARGUMENT, nccl.ncclAllReduce(x, x, 8, COLL_F32, COLL_SUM, comm, stream));
    EXPECT(COLL_INVALID_ARGUMENT, nccl.ncclCommDestroy(comm));
    EXPECT(COLL_INVALID_ARGUMENT, nccl.ncclCommAbort(comm));
    EXPECT(COLL_INVALID_ARGUMENT, nccl.ncclCommGetAsyncError(comm, &status));
}

TEST(wrong_calls_are_refused) { run_ranks(2, NULL, check_refusals); }

static void check_settings(void) {
    NcclConfig good = {sizeof good, COLL_CONFIG_MAGIC, COLL_CONFIG_VERSION, 1}, bad;
    NcclComm *comm;
    NcclId id = shared_id(), nonsense = {"nonsense"};
    int version;
    OK(nccl.ncclGetVersion(&version));
    REQUIRE(version == 21602);
    bad = good, bad.magic++;
    EXPECT(COLL_INVALID_ARGUMENT, nccl.ncclCommInitRankConfig(&comm, 1, id, 0, &bad));
    bad = good, bad.size = 4;
    EXPECT(COLL_INVALID_ARGUMENT, nccl.ncclCommInitRankConfig(&comm, 1, id, 0, &bad));
    bad = good, bad.version++;
    EXPECT(COLL_INVALID_ARGUMENT, nccl.ncclCommInitRankConfig(&comm, 1, id, 0, &bad));
    bad = good, bad.blocking = 2;
    EXPECT(COLL_INVALID_ARGUMENT, nccl.ncclCommInitRankConfig(&comm, 1, id, 0, &bad));
    EXPECT(COLL_INVALID_ARGUMENT, nccl.ncclCommInitRankConfig(&comm, 1, id, 1, &good));
    EXPECT(COLL_INVALID_ARGUMENT, nccl.ncclCommInitRankConfig(&comm, 1, nonsense, 0, &good));
    OK(nccl.ncclCommInitRankConfig(&comm, 1, id, 0, &good));
    OK(nccl.ncclCommDestroy(comm));
    EXPECT(SYSTEM_ERROR, nccl.ncclCommInitRankConfig(&comm, 1, id, 0, &good)); /* nobody listens any more */
}

TEST(settings_are_checked) { run_ranks(1, "STAND_IN_NCCL_VERSION=21602", check_settings); }

static void check_one_card(void) {
    NcclComm *comm;
    REQUIRE(cudaSetDevice(0) == cudaSuccess);
    NcclId id = shared_id();
    EXPECT(INVALID_USAGE, nccl.ncclCommInitRankConfig(&comm, ranks, id, rank, NULL));
    REQUIRE(strstr(nccl.ncclGetLastError(NULL), "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device"));
    if (rank) setenv("NCCL_HOSTID", "another", 1);
    id = shared_id();
    OK(nccl.ncclCommInitRankConfig(&comm, ranks, id, rank, NULL));
    OK(nccl.ncclCommDestroy(comm));
}

TEST(two_ranks_do_not_share_a_card) { run_ranks(2, NULL, check_one_card); }

static void check_meeting(void) {
    NcclComm *comm;
    NcclId id = shared_id();
    unsigned status = nccl.ncclCommInitRankConfig(&comm, rank + 2, id, rank, NULL);
    REQUIRE(status == INVALID_USAGE || status == COLL_REMOTE_ERROR || status == SYSTEM_ERROR);
    all_ranks();
}

TEST(ranks_agree_about_their_number) { assert_contains(run_ranks(2, NULL, check_meeting), "ranks, others"); }

static void check_beginning(void) {
    NcclConfig config = {sizeof config, COLL_CONFIG_MAGIC, COLL_CONFIG_VERSION, 0};
    NcclComm *comm;
    NcclId id = shared_id();
    unsigned status;
    float *x = numbers(8);
    if (rank == 0) {
        EXPECT(COLL_IN_PROGRESS, nccl.ncclCommInitRankConfig(&comm, ranks, id, rank, &config));
        EXPECT(COLL_INVALID_ARGUMENT, nccl.ncclAllReduce(x, x, 8, COLL_F32, COLL_SUM, comm, new_stream()));
        EXPECT(COLL_INVALID_ARGUMENT, nccl.ncclCommDestroy(comm));
        OK(nccl.ncclCommGetAsyncError(comm, &status));
        REQUIRE(status == COLL_IN_PROGRESS);
        OK(nccl.ncclCommAbort(comm)); /* while others do not come */
    }
    all_ranks();
}

TEST(a_communicator_that_begins_can_only_be_asked_or_aborted) { run_ranks(2, NULL, check_beginning); }

/* ---- faults ---- */

static void check_hang(void) {
    NcclComm *comm = communicator(1);
    cudaStream_t stream = new_stream();
    float *x = numbers(8), *y = numbers(8);
    unsigned status;
    OK(nccl.ncclAllReduce(x, x, 8, COLL_F32, COLL_SUM, comm, stream));
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    OK(nccl.ncclAllReduce(y, y, 8, COLL_F32, COLL_SUM, comm, stream));
    for (int i = 0; i < 100; i++) {
        REQUIRE(cudaStreamQuery(stream) == cudaErrorNotReady);
        usleep(500);
    }
    OK(nccl.ncclCommGetAsyncError(comm, &status));
    REQUIRE(status == COLL_SUCCESS);
    all_ranks();
    OK(nccl.ncclCommAbort(comm));
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess && x[0] == 1002);
    require_spoilt(y, 8);
}

TEST(an_operation_that_hangs_ends_by_abort_without_its_result) {
    run_ranks(2, "STAND_IN_NCCL_HANG_AT=2", check_hang);
    run_ranks(2, "STAND_IN_NCCL_HANG_AT=2@1 EMULATE_SEED=3", check_hang);
}

static atomic_bool aborted;

static void *abort_it(void *comm) {
    usleep(20000);
    OK(nccl.ncclCommAbort(comm));
    aborted = true;
    return NULL;
}

/* Aborts as a program does that has heard of a lost rank in another thread than the one that waits for the device. The
 * abort returns when the graph has been destroyed. */
static void check_abort_elsewhere(void) {
    NcclComm *comm = communicator(1);
    cudaStream_t stream = new_stream();
    float *x = numbers(8);
    pthread_t thread;
    const Turn turn = {1, 8, COLL_F32, COLL_SUM, 0, true};
    cudaGraphExec_t graph = record(&turn, comm, stream, x);
    REQUIRE(cudaGraphLaunch(graph, stream) == cudaSuccess);
    REQUIRE(pthread_create(&thread, NULL, abort_it, comm) == 0);
    REQUIRE(cudaGraphLaunch(graph, stream) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    usleep(20000);
    REQUIRE(!aborted);
    cudaGraphExecDestroy(graph);
    pthread_join(thread, NULL);
    require_spoilt(x, 8);
}

TEST(another_thread_can_abort_what_one_waits_for) {
    run_ranks(2, "STAND_IN_NCCL_HANG_AT=1@1", check_abort_elsewhere);
    run_ranks(1, "STAND_IN_NCCL_HANG_AT=1 EMULATE_SEED=1", check_abort_elsewhere);
}

static void check_error(void) {
    NcclComm *comm = communicator(1);
    cudaStream_t stream = new_stream();
    float *x = numbers(8);
    OK(nccl.ncclAllReduce(x, x, 8, COLL_F32, COLL_SUM, comm, stream));
    OK(nccl.ncclAllReduce(x, x, 8, COLL_F32, COLL_SUM, comm, stream));
    await_failure(comm, SYSTEM_ERROR, "rank 1, operation 2");
    all_ranks();
    OK(nccl.ncclCommAbort(comm));
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    require_spoilt(x, 8);
}

TEST(errors_can_be_planted) { run_ranks(3, "STAND_IN_NCCL_ERROR_AT=2@1", check_error); }

static void check_dead_rank(void) {
    NcclComm *comm = communicator(0);
    cudaStream_t stream = new_stream();
    float *x = numbers(8);
    if (rank == 1) _exit(0);
    (void)nccl.ncclAllReduce(x, x, 8, COLL_F32, COLL_SUM, comm, stream);
    await_failure(comm, COLL_REMOTE_ERROR, "rank 1 (host ");
    for (int i = 0; i < 20; i++) emulate_advance_streams();
    OK(nccl.ncclCommAbort(comm));
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
}

TEST(the_death_of_a_rank_is_an_error_of_the_others) { run_ranks(3, NULL, check_dead_rank); }

static void check_early_leaver(void) {
    NcclComm *comm = communicator(0);
    cudaStream_t stream = new_stream();
    float *x = numbers(8);
    if (rank == 1) {
        EXPECT(COLL_IN_PROGRESS, nccl.ncclCommFinalize(comm));
        EXPECT(COLL_REMOTE_ERROR, settled(comm));
    } else {
        (void)nccl.ncclAllReduce(x, x, 8, COLL_F32, COLL_SUM, comm, stream);
        await_failure(comm, COLL_REMOTE_ERROR, "rank 1 has left the communicator; rank 0 waits for it");
    }
    all_ranks();
    OK(nccl.ncclCommAbort(comm));
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
}

TEST(a_rank_that_leaves_early_is_told) { run_ranks(2, NULL, check_early_leaver); }

/* Replays after ncclCommFinalize are reported, and give no result. */
static void check_late_replay(void) {
    NcclComm *comm = communicator(1);
    cudaStream_t stream = new_stream();
    float *x = numbers(8);
    const Turn turn = {1, 8, COLL_F32, COLL_SUM, 0, true};
    cudaGraphExec_t graph = record(&turn, comm, stream, x);
    OK(nccl.ncclCommFinalize(comm));
    REQUIRE(cudaGraphLaunch(graph, stream) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    require_spoilt(x, 8);
    cudaGraphExecDestroy(graph);
    OK(nccl.ncclCommDestroy(comm));
}

TEST(replays_after_the_end_are_reported) {
    assert_contains(run_ranks(2, NULL, check_late_replay), "begins after the communicator's end");
}
