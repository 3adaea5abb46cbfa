/* The operations between ranks over MPI, run by tools/run_mpi.sh with 1 to 4 ranks, beside loops over numbers that each
 * rank knows of all. A rank that finds a mistake ends at once, and mpirun ends the others. */
#include "kernels/cpu/mpi.h"

#include <dirent.h>
#include <signal.h>
#include <unistd.h>

#include "kernels/device_open.h"
#include "kernels/reduce.h"
#include "tests/mpi/rig.h"
#include "tests/test.h"

enum { MOST = 100003, GUARD = 8 };

static Group *group;
static Device *cpu, apart; /* apart: a device whose memory the host may not read */

#define require(fact, ...)                                                                                             \
    do {                                                                                                               \
        if (!(fact)) die("rank %d of %d: " #fact ": %s", group->rank, group->size, xformat(__VA_ARGS__));              \
    } while (0)

/* Uploads wait for the next synchronize or download, as they may on a GPU. */
static struct {
    void *to;
    const void *from;
    size_t bytes;
} queued;

static void synchronize_apart(Device *device) {
    (void)device;
    if (queued.to) memcpy(queued.to, queued.from, queued.bytes);
    queued.to = NULL;
}

static void upload_apart(Device *device, void *to, const void *from, size_t bytes) {
    synchronize_apart(device);
    queued.to = to, queued.from = from, queued.bytes = bytes;
}

static void download_apart(Device *device, void *to, const void *from, size_t bytes) {
    synchronize_apart(device);
    memcpy(to, from, bytes);
}

/* Returns the bits of element i of a rank's tensor: finite numbers of many sizes, and now and then NaN or infinity. */
static uint32_t bits_of(DType dtype, int seed, int rank, int64_t i) {
    int64_t key[] = {seed, rank, i};
    uint64_t hash = hash_bytes(HASH_START, key, sizeof key);
    hash ^= hash >> 29;
    uint32_t sign = hash >> 40 & 1, fraction = (uint32_t)hash, exponent = hash >> 48 & 15;
    bool odd = (hash >> 52) % 64 == 0, infinite = odd && fraction & 1;
    if (dtype == DTYPE_I32) return fraction;
    if (dtype == DTYPE_F32)
        return sign << 31 | (odd ? 255 : exponent + 120) << 23 | (infinite ? 0 : fraction >> 9 | odd);
    if (dtype == DTYPE_BF16)
        return sign << 15 | (odd ? 255 : exponent + 120) << 7 | (infinite ? 0 : fraction >> 25 | odd);
    return sign << 15 | (odd ? 31 : exponent + 8) << 10 | (infinite ? 0 : fraction >> 22 | odd);
}

static void fill(void *to, DType dtype, int seed, int rank, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = bits_of(dtype, seed, rank, i);
        memcpy((char *)to + (size_t)i * dtype_size(dtype), &bits, dtype_size(dtype)); /* little endian */
    }
}

static bool is_nan(DType dtype, uint32_t bits) {
    if (dtype == DTYPE_F32) return (bits & 0x7fffffff) > 0x7f800000;
    if (dtype == DTYPE_BF16) return (bits & 0x7fff) > 0x7f80;
    return dtype == DTYPE_F16 && (bits & 0x7fff) > 0x7c00;
}

static void require_same(const char *what, const void *got, const void *want, DType dtype, int64_t n) {
    size_t size = dtype_size(dtype);
    for (int64_t i = 0; i < n; i++) {
        uint32_t a = 0, b = 0;
        memcpy(&a, (const char *)got + (size_t)i * size, size);
        memcpy(&b, (const char *)want + (size_t)i * size, size);
        require(a == b || (is_nan(dtype, a) && is_nan(dtype, b)), "%s %s [%lld]: element %lld is %x, not %x", what,
                dtype_name(dtype), (long long)n, (long long)i, a, b);
    }
}

/* Computes the sum or maximum of n elements of all ranks. 16-bit arithmetic is tested in test_group.c. */
static void *expected(DType dtype, int seed, int64_t n, Reduction reduction) {
    size_t bytes = (size_t)n * dtype_size(dtype);
    char *parts = xmalloc(bytes * (size_t)group->size + 1), *result = xmalloc(bytes + 1);
    for (int rank = 0; rank < group->size; rank++) fill(parts + (size_t)rank * bytes, dtype, seed, rank, n);
    if (dtype != DTYPE_F32) {
        reduce_parts(result, parts, dtype, group->size, n, reduction, 1);
    } else {
        for (int64_t i = 0; i < n; i++) {
            const float *x = (const float *)parts + i;
            float sum = *x;
            for (int rank = 1; rank < group->size; rank++) {
                float next = x[rank * n];
                if (reduction == REDUCE_SUM)
                    sum += next;
                else if (isnan(next) || isnan(sum))
                    sum = NAN;
                else if (next > sum)
                    sum = next;
            }
            ((float *)result)[i] = sum;
        }
    }
    free(parts);
    return result;
}

/* A tensor between guards, with this rank's numbers. */
static Tensor tensor_of(DType dtype, int seed, int64_t n) {
    size_t size = dtype_size(dtype);
    char *at = xmalloc(((size_t)n + 2 * GUARD) * size);
    memset(at, 0x5a, ((size_t)n + 2 * GUARD) * size);
    fill(at + GUARD * size, dtype, seed, group->rank, n);
    return tensor_1d(at + GUARD * size, dtype, n);
}

static void release(const char *what, Tensor t) {
    size_t size = dtype_size(t.dtype), guard = GUARD * size;
    char *at = (char *)t.data - guard;
    for (size_t i = 0; i < guard; i++)
        require(at[i] == 0x5a && at[guard + tensor_bytes(t) + i] == 0x5a, "%s: writes beside the tensor", what);
    free(at);
}

static void check_all_reduce(Device *device, DType dtype, int64_t n, Reduction reduction, int seed) {
    Tensor x = tensor_of(dtype, seed, n);
    OWNED void *want = expected(dtype, seed, n, reduction);
    group_all_reduce(group, device, x, reduction);
    require_same("all_reduce", x.data, want, dtype, n);
    release("all_reduce", x);
}

/* Checks reduce_scatter of parts of n, and all_gather of its results, in place or not. */
static void check_parts(Device *device, DType dtype, int64_t n, Reduction reduction, int seed, bool in_place) {
    int64_t first = n * group->rank;
    size_t size = dtype_size(dtype);
    Tensor all = tensor_of(dtype, seed, n * group->size), before = tensor_of(dtype, seed, n * group->size);
    Tensor elsewhere = tensor_of(dtype, seed + 1, n), mine = in_place ? tensor_rows(all, first, n) : elsewhere;
    OWNED char *want = expected(dtype, seed, n * group->size, reduction);
    group_reduce_scatter(group, device, mine, all, reduction);
    require_same("reduce_scatter", mine.data, want + (size_t)first * size, dtype, n);
    if (in_place) memcpy((char *)before.data + (size_t)first * size, mine.data, tensor_bytes(mine));
    require_same("reduce_scatter, other parts", all.data, before.data, dtype, n * group->size);
    group_all_gather(group, device, all, mine);
    require_same("all_gather", all.data, want, dtype, n * group->size);
    release("all", all), release("before", before), release("mine", elsewhere);
}

static void check_integers(Device *device, int64_t n, int seed) {
    Tensor all = tensor_of(DTYPE_I32, seed, n * group->size), mine = tensor_of(DTYPE_I32, seed, n);
    OWNED int32_t *want = xmalloc((size_t)n * sizeof *want + 1);
    group_all_gather(group, device, all, mine);
    for (int rank = 0; rank < group->size; rank++) {
        fill(want, DTYPE_I32, seed, rank, n);
        require_same("all_gather", (int32_t *)all.data + rank * n, want, DTYPE_I32, n);
    }
    release("all", all), release("mine", mine);
}

static void check_broadcast(Device *device, DType dtype, int64_t n, int seed) {
    OWNED char *want = xmalloc((size_t)n * dtype_size(dtype) + 1);
    for (int root = 0; root < group->size; root++) {
        Tensor x = tensor_of(dtype, seed, n);
        group_broadcast(group, device, x, root);
        fill(want, dtype, seed, root, n);
        require_same("broadcast", x.data, want, dtype, n);
        release("broadcast", x);
    }
}

static void check_operations(Device *device, int64_t n) {
    static const DType types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
    static int seed;
    for (int t = 0; t < 3; t++) {
        for (int max = 0; max < 2; max++) {
            Reduction reduction = max ? REDUCE_MAX : REDUCE_SUM;
            check_all_reduce(device, types[t], n, reduction, seed += 2);
            check_parts(device, types[t], n, reduction, seed += 2, true);
            check_parts(device, types[t], n, reduction, seed += 2, false);
        }
        check_broadcast(device, types[t], n, seed += 2);
    }
    check_broadcast(device, DTYPE_I32, n, seed += 2);
    check_integers(device, n, seed += 2);
}

static void check_sizes(Device *device) {
    static const int64_t sizes[] = {0, 1, 2, 3, 4, 17, 1000, MOST};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) check_operations(device, sizes[i]);
}

TEST(results_are_those_of_a_loop_in_the_order_of_the_ranks) { check_sizes(cpu); }

TEST(a_device_that_the_host_cannot_read_gives_the_same) { check_sizes(&apart); }

TEST(long_tensors_go_in_pieces) {
    int64_t whole = mpi_piece;
    mpi_piece = 7;
    check_operations(cpu, 17);
    mpi_piece = 1; /* fewer than ranks */
    check_operations(&apart, 9);
    mpi_piece = 4096;
    check_operations(cpu, MOST);
    mpi_piece = whole;
}

TEST(what_is_sent_is_counted) {
    double sent = group->sent, others = group->size - 1;
    int64_t calls = group->calls;
    Tensor x = tensor_of(DTYPE_F32, 0, 13);
    group_all_reduce(group, cpu, x, REDUCE_SUM);
    group_broadcast(group, cpu, x, 0);
    double expected_bytes = 2 * others * ((13 + group->size - 1) / group->size) * 4; // NOLINT: whole parts
    require(group->sent - sent == expected_bytes + (group->rank ? 0 : others * 52), "sent %g", group->sent - sent);
    require(group->calls - calls == 2, "calls");
    require(group->size == 1 || group->seconds > 0, "%g seconds", group->seconds);
    release("x", x);
}

TEST(many_operations_in_a_row_stay_in_order) {
    for (int i = 0; i < 300; i++) {
        check_all_reduce(cpu, DTYPE_F32, i % 40, REDUCE_SUM, 2 * i);
        if (i % 3 == 0) check_integers(cpu, i % 20, i);
        if (i % 10 == 0) group_barrier(group);
    }
}

static int waits;

static void count_waiting(void *context) {
    (void)context;
    waits++;
}

TEST(waiting_is_called_while_a_rank_is_late) {
    void (*before)(void *) = group->waiting;
    group_barrier(group);
    group->waiting = count_waiting;
    waits = 0;
    double start = seconds_now();
    bool late = group->rank == group->size - 1;
    if (late) usleep(300000);
    group_barrier(group);
    require(late || waits > 100, "%d calls in %g s", waits, seconds_now() - start);
    group->waiting = before;
}

/* Returns the signals that a thread of this process blocks, bit n - 1 for signal n. */
static unsigned long long blocked_by(const char *thread) {
    char line[256];
    unsigned long long mask = 0;
    OWNED char *path = xformat("/proc/self/task/%s/status", thread);
    FILE *status = fopen(path, "r");
    while (status && fgets(line, sizeof line, status)) sscanf(line, "SigBlk: %llx", &mask);
    if (status) fclose(status);
    return mask;
}

TEST(mpi_takes_over_no_signal_that_ends_a_program) {
    static const int ends[] = {SIGTERM, SIGINT, SIGHUP};
    DIR *threads = opendir("/proc/self/task");
    for (int i = 0; i < 3; i++) {
        struct sigaction now;
        sigaction(ends[i], NULL, &now);
        require(now.sa_handler == SIG_DFL, "signal %d", ends[i]);
        rewinddir(threads);
        for (struct dirent *thread; (thread = readdir(threads));)
            require(thread->d_name[0] == '.' || blocked_by(thread->d_name) >> (ends[i] - 1) & 1, "signal %d, thread %s",
                    ends[i], thread->d_name);
    }
    closedir(threads);
}

TEST(another_rank_than_that_of_mpi_is_refused) {
    Error error;
    require(!mpi_group_open(group->rank + 1, group->size + 1, &error), "opens");
    char want[64];
    snprintf(want, sizeof want, "this is rank %d of %d", group->rank, group->size);
    require(strstr(error.text, want), "%s", error.text);
}

TEST(a_second_group_closes_alone) {
    Error error;
    Group *first = group, *second = mpi_group_open(first->rank, first->size, &error);
    require(second, "%s", error.text);
    group = second;
    check_all_reduce(cpu, DTYPE_F32, 100, REDUCE_SUM, 1);
    group = first;
    group_close(second);
    check_all_reduce(cpu, DTYPE_F32, 100, REDUCE_SUM, 2);
}

static int open_group(void **state) {
    (void)state;
    int rank, size;
    launched_as(&rank, &size);
    if (rank && !freopen("/dev/null", "w", stdout)) die("/dev/null cannot be opened");
    sigset_t blocked;
    heed_signals();
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM), sigaddset(&blocked, SIGINT), sigaddset(&blocked, SIGHUP);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    group = open_launched();
    cpu = cpu_device_open(2);
    apart = *cpu;
    apart.host_memory = false;
    apart.upload = upload_apart, apart.download = download_apart, apart.synchronize = synchronize_apart;
    print_message("%s, %s\n", group->description, mpi_library());
    return 0;
}

static int close_group(void **state) {
    (void)state;
    Error error;
    int rank = group->rank, size = group->size;
    group_close(group);
    device_close(cpu);
    if (mpi_group_open(rank, size, &error) || !strstr(error.text, "MPI was closed")) die("MPI opens again");
    return 0;
}

int main(void) { return tests_run(open_group, close_group); }
