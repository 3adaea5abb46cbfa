/* The stand-in for NCCL: results of its operations, direct, in groups, captured and replayed, and their order. */
#include <unistd.h>

#include "tests/nccl/rig.h"

/* ---- results ---- */

static const struct {
    unsigned type;
    size_t bytes;
} types[] = {{COLL_F32, 4}, {COLL_BF16, 2}, {COLL_F16, 2}, {COLL_I32, 4}};

/* Returns a small number, which all types have, of one rank at a place: sums of 4 are exact in all types. */
static int value(int of_rank, size_t i) { return (int)((i * 7 + (size_t)of_rank * 5) % 23) - 11; }

static void store(void *memory, size_t i, unsigned type, int x) {
    float real = (float)x;
    uint32_t bits;
    memcpy(&bits, &real, sizeof bits);
    if (type == COLL_F32) ((float *)memory)[i] = real;
    if (type == COLL_I32) ((int *)memory)[i] = x;
    if (type == COLL_BF16) ((uint16_t *)memory)[i] = (uint16_t)(bits >> 16);
    if (type == COLL_F16) /* such numbers are none but normal ones */
        ((uint16_t *)memory)[i] = x ? (uint16_t)((bits >> 16 & 0x8000) | ((bits >> 13 & 0x3FFFF) - (112 << 10))) : 0;
}

/* Requires n elements from `first` on to be want(i). */
static void require_values(const char *memory, size_t bytes, size_t n, unsigned type, size_t first,
                           int (*want)(size_t i)) {
    for (size_t i = 0; i < n; i++) {
        char element[4] = {0};
        store(element, 0, type, want(first + i));
        REQUIRE(!memcmp(memory + i * bytes, element, bytes));
    }
}

static int sum(size_t i) {
    int all = 0;
    for (int q = 0; q < ranks; q++) all += value(q, i);
    return all;
}
static int greatest(size_t i) {
    int all = value(0, i);
    for (int q = 1; q < ranks; q++) all = value(q, i) > all ? value(q, i) : all;
    return all;
}
static int of_last(size_t i) { return value(ranks - 1, i); }
static size_t count_per_rank;
static int gathered(size_t i) { return value((int)(i / count_per_rank), i % count_per_rank); }

static char *filled(size_t n, unsigned type, size_t bytes, int of_rank) {
    char *memory;
    REQUIRE(cudaMalloc((void **)&memory, n * bytes) == cudaSuccess);
    for (size_t i = 0; of_rank >= 0 && i < n; i++) store(memory, i, type, value(of_rank, i));
    return memory;
}

/* Calls every operation, in place or not, for one type and size, and compares. */
static void call_all(NcclComm *comm, cudaStream_t stream, unsigned type, size_t bytes, size_t n, bool in_place) {
    size_t all = n * (size_t)ranks, mine = n * (size_t)rank * bytes;
    count_per_rank = n;
    for (unsigned reduction = COLL_SUM; reduction <= COLL_MAX; reduction += COLL_MAX) {
        char *from = filled(all, type, bytes, rank), *to = in_place ? from : filled(all, type, bytes, -1);
        OK(nccl.ncclAllReduce(from, to, all - 1, type, reduction, comm, stream));
        REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
        require_values(to, bytes, all - 1, type, 0, reduction == COLL_SUM ? sum : greatest);
        cudaFree(from);
        if (!in_place) cudaFree(to);
        from = filled(all, type, bytes, rank);
        to = in_place ? from + mine : filled(n, type, bytes, -1);
        OK(nccl.ncclReduceScatter(from, to, n, type, reduction, comm, stream));
        REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
        require_values(to, bytes, n, type, n * (size_t)rank, reduction == COLL_SUM ? sum : greatest);
        cudaFree(from);
        if (!in_place) cudaFree(to);
    }
    char *from = filled(n, type, bytes, rank), *to = filled(all, type, bytes, -1);
    if (in_place) memcpy(to + mine, from, n * bytes);
    OK(nccl.ncclAllGather(in_place ? to + mine : from, to, n, type, comm, stream));
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    require_values(to, bytes, all, type, 0, gathered);
    OK(nccl.ncclBroadcast(in_place ? to : from, to, n, type, ranks - 1, comm, stream));
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    if (!in_place) require_values(to, bytes, n, type, 0, of_last);
    cudaFree(from);
    cudaFree(to);
}

static void check_results(void) {
    NcclComm *comm = communicator(1);
    cudaStream_t stream = new_stream();
    for (size_t t = 0; t < 4; t++)
        for (int in_place = 0; in_place < 2; in_place++) {
            call_all(comm, stream, types[t].type, types[t].bytes, 2, in_place);
            call_all(comm, stream, types[t].type, types[t].bytes, 601, in_place);
        }
    call_all(comm, stream, COLL_F32, 4, 300000, false); /* more than connections hold */
    OK(nccl.ncclCommDestroy(comm));
}

TEST(results_are_those_of_a_plain_computation) {
    for (int count = 1; count <= 4; count++) run_ranks(count, NULL, check_results);
    run_ranks(2, "EMULATE_SEED=1", check_results);
    run_ranks(3, "EMULATE_SEED=7 STAND_IN_NCCL_GBPS=1 STAND_IN_NCCL_ADDRESS=127.0.0.1", check_results);
}

/* 2^24 + 1 is 2^24 in f32: the order of additions shows. That of part k ends with rank k. */
static void check_ring(void) {
    NcclComm *comm = communicator(1);
    cudaStream_t stream = new_stream();
    static const float of_rank[3] = {1, 0x1p24f, 1};
    static const float want[3] = {0x1p24f, 0x1p24f + 2, 0x1p24f}; /* (big + 1) + 1, (1 + 1) + big, (1 + big) + 1 */
    float *x = numbers(3), *part = numbers(1);
    for (int i = 0; i < 3; i++) x[i] = of_rank[rank];
    OK(nccl.ncclReduceScatter(x, part, 1, COLL_F32, COLL_SUM, comm, stream));
    OK(nccl.ncclAllReduce(x, x, 3, COLL_F32, COLL_SUM, comm, stream));
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    REQUIRE(*part == want[rank]);
    for (int i = 0; i < 3; i++) REQUIRE(x[i] == want[i]);
    x[0] = rank ? 1.5f : NAN;
    OK(nccl.ncclAllReduce(x, x, 1, COLL_F32, COLL_MAX, comm, stream));
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    REQUIRE(x[0] == 1.5f);
    OK(nccl.ncclCommDestroy(comm));
}

TEST(sums_follow_the_ring_and_maxima_drop_nan) { run_ranks(3, NULL, check_ring); }

/* Bits of 16-bit numbers of two ranks and of their rounded sum: ties, the smallest and the largest numbers, NaN. */
static const struct {
    uint16_t of_rank[2], f16;
} sums[] = {{{0x6800, 0x3C00}, 0x6800}, {{0x6801, 0x3C00}, 0x6802}, {{0x0001, 0x0001}, 0x0002},
            {{0x03FF, 0x0001}, 0x0400}, {{0x8001, 0x0003}, 0x0002}, {{0x7BFF, 0x7BFF}, 0x7C00},
            {{0xFBFF, 0xFBFF}, 0xFC00}, {{0x7C00, 0xFC00}, 0x7E00}, {{0x7BFF, 0x4BFF}, 0x7BFF}};

static void check_rounding(void) {
    enum { N = sizeof sums / sizeof sums[0] };
    NcclComm *comm = communicator(1);
    cudaStream_t stream = new_stream();
    uint16_t *x = (uint16_t *)numbers(N), bf16[4] = {0x4380, 0x4381, 0x7F7F, 0x7F80}; /* 256, 258, largest, infinity */
    for (int i = 0; i < N; i++) x[i] = sums[i].of_rank[rank];
    OK(nccl.ncclAllReduce(x, x, N, COLL_F16, COLL_SUM, comm, stream));
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    for (int i = 0; i < N; i++) REQUIRE((x[i] & (sums[i].f16 == 0x7E00 ? 0x7E00 : 0xFFFF)) == sums[i].f16);
    for (int i = 0; i < 4; i++) x[i] = rank == 0 ? bf16[i] : i < 2 ? 0x3F80 : i == 2 ? 0x7F7F : 0xFF80;
    OK(nccl.ncclAllReduce(x, x, 4, COLL_BF16, COLL_SUM, comm, stream));
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    REQUIRE(x[0] == 0x4380 && x[1] == 0x4382 && x[2] == 0x7F80 && (x[3] & 0x7FC0) == 0x7FC0);
    OK(nccl.ncclCommDestroy(comm));
}

TEST(sums_are_rounded_to_the_nearest_even_number) { run_ranks(2, NULL, check_rounding); }

/* ---- groups, captures ---- */

static void check_groups(void) {
    NcclComm *comm = communicator(1);
    cudaStream_t stream = new_stream();
    float *x = numbers(4), *y = numbers(4);
    OK(nccl.ncclGroupStart());
    OK(nccl.ncclAllReduce(x, x, 4, COLL_F32, COLL_SUM, comm, stream));
    OK(nccl.ncclGroupStart());
    OK(nccl.ncclAllReduce(y, y, 4, COLL_F32, COLL_MAX, comm, stream));
    OK(nccl.ncclGroupEnd());
    REQUIRE(cudaStreamQuery(stream) == cudaSuccess); /* nothing has come into the stream */
    OK(nccl.ncclGroupEnd());
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    REQUIRE(x[3] == 1008 && y[3] == 1004);
    OK(nccl.ncclAllReduce(x, x, 0, COLL_F32, COLL_SUM, comm, stream)); /* nothing to be done */
    REQUIRE(cudaStreamQuery(stream) == cudaSuccess);
    OK(nccl.ncclGroupStart()); /* one that is refused takes the others with it */
    OK(nccl.ncclAllReduce(x, x, 4, COLL_F32, COLL_SUM, comm, stream));
    EXPECT(COLL_INVALID_ARGUMENT, nccl.ncclBroadcast(x, x, 4, COLL_F32, 2, comm, stream));
    EXPECT(COLL_INVALID_ARGUMENT, nccl.ncclGroupEnd());
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess && x[3] == 1008);
    EXPECT(INVALID_USAGE, nccl.ncclGroupEnd());
    OK(nccl.ncclCommDestroy(comm));
}

TEST(groups_are_queued_at_their_end) { run_ranks(2, NULL, check_groups); }

/* Captures two sums in a side stream, between which the main stream adds nothing: it is joined at the end. */
static cudaGraphExec_t capture(NcclComm *comm, cudaStream_t main, cudaStream_t side, float *x, float *y) {
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    cudaEvent_t event;
    cudaEventCreate(&event);
    REQUIRE(cudaStreamBeginCapture(main, cudaStreamCaptureModeRelaxed) == cudaSuccess);
    cudaEventRecord(event, main);
    cudaStreamWaitEvent(side, event, 0);
    OK(nccl.ncclAllReduce(x, x, 8, COLL_F32, COLL_SUM, comm, side));
    cudaMemsetAsync(y, 0, 4, main);
    OK(nccl.ncclAllReduce(x, x, 8, COLL_F32, COLL_MAX, comm, side));
    cudaEventRecord(event, side);
    cudaStreamWaitEvent(main, event, 0);
    cudaMemcpyAsync(y + 1, x, 4, cudaMemcpyDeviceToDevice, main);
    REQUIRE(cudaStreamEndCapture(main, &graph) == cudaSuccess);
    REQUIRE(cudaGraphInstantiateWithFlags(&executable, graph, 0) == cudaSuccess);
    cudaGraphDestroy(graph);
    cudaEventDestroy(event);
    return executable;
}

static void check_captures(void) {
    NcclComm *comm = communicator(1);
    cudaStream_t main = new_stream(), side = new_stream();
    float *x = numbers(8), *y = numbers(2), want = 0;
    cudaGraphExec_t graphs[2] = {capture(comm, main, side, x, y), capture(comm, main, side, x, y)};
    all_ranks();
    x[0] = (float)(rank + 1);
    for (int q = 0; q < ranks; q++) want += (float)(q + 1);
    if (rank == 0 && ranks > 1) { /* alone: the exchange waits for the others, the rest does not */
        REQUIRE(cudaGraphLaunch(graphs[0], main) == cudaSuccess);
        emulate_advance_streams();
        REQUIRE(y[0] == 0 && x[0] == 1 && y[1] == 2);
        REQUIRE(cudaStreamQuery(main) == cudaErrorNotReady);
    }
    all_ranks();
    if (rank || ranks == 1) REQUIRE(cudaGraphLaunch(graphs[0], main) == cudaSuccess);
    for (int replay = 0; replay < 3; replay++) {
        REQUIRE(cudaGraphLaunch(graphs[(replay + 1) % 2], main) == cudaSuccess);
        want *= (float)ranks;
    }
    REQUIRE(cudaStreamSynchronize(main) == cudaSuccess);
    REQUIRE(x[0] == want && y[1] == want);
    OK(nccl.ncclAllReduce(x, x, 1, COLL_F32, COLL_MAX, comm, side));
    for (int i = 0; i < 2; i++) cudaGraphExecDestroy(graphs[i]);
    OK(nccl.ncclCommDestroy(comm)); /* waits for what is in the stream */
    REQUIRE(cudaStreamSynchronize(side) == cudaSuccess && x[0] == want);
}

TEST(captured_operations_meet_those_of_other_ranks_at_each_replay) {
    const char *log = kept_path(run_directory(), "order");
    run_ranks(2, kept_format("STAND_IN_NCCL_LOG=%s NCCL_ALGO=Ring", log), check_captures);
    const char *text = kept_text(log);
    assert_contains(text, "ready rank=0 ranks=2 NCCL_ALGO=Ring NCCL_PROTO=\n");
    assert_contains(text,
                    "operation rank=1 number=1 all_reduce count=8 type=f32 reduction=sum captured=1.1 replay=1\n");
    assert_contains(text,
                    "operation rank=0 number=4 all_reduce count=8 type=f32 reduction=max captured=2.2 replay=1\n");
    assert_contains(text,
                    "operation rank=0 number=8 all_reduce count=8 type=f32 reduction=max captured=2.2 replay=2\n");
    assert_contains(text, "operation rank=1 number=9 all_reduce count=1 type=f32 reduction=max direct\n");
    run_ranks(1, NULL, check_captures);
    run_ranks(4, "EMULATE_SEED=1", check_captures);
    run_ranks(3, "EMULATE_SEED=5", check_captures);
}

/* ---- communicators that do not block ---- */

static bool is_set(void *flag) { return *(bool *)flag; }

static void check_non_blocking(void) {
    NcclComm *comm = communicator(0);
    cudaStream_t stream = new_stream();
    float *x = numbers(4), want = 0;
    unsigned status;
    bool goes_on = false;
    int later = 0;
    for (int q = 0; q < ranks; q++) want += (float)(1000 * q) + 4;
    for (int i = 0; i < 40; i++) {
        status = nccl.ncclAllReduce(x, x, 4, COLL_F32, i ? COLL_MAX : COLL_SUM, comm, stream);
        REQUIRE(status == COLL_SUCCESS || status == COLL_IN_PROGRESS);
        if (status == COLL_IN_PROGRESS) {
            EXPECT(COLL_INVALID_ARGUMENT, nccl.ncclAllReduce(x, x, 4, COLL_F32, COLL_SUM, comm, stream));
            EXPECT(COLL_INVALID_ARGUMENT, nccl.ncclCommFinalize(comm));
            later++;
        }
        EXPECT(COLL_SUCCESS, settled(comm));
    }
    REQUIRE(later > 5 && later < 35);
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess && x[3] == want);
    emulate_enqueue_poll(stream, is_set, &goes_on);
    (void)nccl.ncclAllReduce(x, x, 4, COLL_F32, COLL_MAX, comm, stream);
    EXPECT(COLL_SUCCESS, settled(comm));
    EXPECT(COLL_IN_PROGRESS, nccl.ncclCommFinalize(comm));
    for (int i = 0; i < 50; i++) { /* waits for what the stream holds */
        OK(nccl.ncclCommGetAsyncError(comm, &status));
        REQUIRE(status == COLL_IN_PROGRESS);
        usleep(200);
    }
    goes_on = true;
    EXPECT(COLL_SUCCESS, settled(comm));
    EXPECT(COLL_INVALID_ARGUMENT, nccl.ncclAllReduce(x, x, 4, COLL_F32, COLL_SUM, comm, stream));
    OK(nccl.ncclCommDestroy(comm));
}

TEST(non_blocking_communicators_go_on_later) {
    run_ranks(2, NULL, check_non_blocking);
    run_ranks(3, "STAND_IN_NCCL_SEED=3 EMULATE_SEED=1", check_non_blocking);
    run_ranks(2, "STAND_IN_NCCL_SEED=4 EMULATE_SEED=9", check_non_blocking);
}

static void check_two_communicators(void) {
    NcclComm *first = communicator(1), *second = communicator(1);
    cudaStream_t streams[2] = {new_stream(), new_stream()};
    float *x = numbers(8), *y = numbers(8);
    for (int i = 0; i < 2; i++) { /* in another order on each rank, which streams of their own allow */
        bool is_first = i == rank % 2;
        OK(nccl.ncclAllReduce(is_first ? x : y, is_first ? x : y, 8, COLL_F32, COLL_SUM, is_first ? first : second,
                              streams[is_first]));
    }
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess && x[0] == 1002 && y[7] == 1016);
    OK(nccl.ncclCommDestroy(first));
    OK(nccl.ncclCommDestroy(second));
}

TEST(two_communicators_do_not_wait_for_each_other) {
    run_ranks(2, NULL, check_two_communicators);
    run_ranks(2, "EMULATE_SEED=1", check_two_communicators);
}
