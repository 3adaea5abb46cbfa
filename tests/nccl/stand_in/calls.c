/* The functions that the program calls, but for groups. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "tests/nccl/stand_in/stand_in.h"

static char last_error[TEXT_BYTES];
static pthread_mutex_t last_error_lock = PTHREAD_MUTEX_INITIALIZER;
static NcclComm *all_communicators;
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- errors ---- */

static void remember(const char *text) {
    pthread_mutex_lock(&last_error_lock);
    snprintf(last_error, sizeof last_error, "%s", text);
    pthread_mutex_unlock(&last_error_lock);
}

unsigned refuse(unsigned status, const char *format, ...) {
    char text[TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    remember(text);
    fprintf(stderr, "NCCL stand-in: %s\n", text);
    return status;
}

bool take_failure(NcclComm *comm, unsigned status, const char *text) {
    pthread_mutex_lock(&comm->lock);
    bool first = comm->status == COLL_SUCCESS || comm->status == COLL_IN_PROGRESS;
    first &= comm->phase != ABORTED && comm->phase != DESTROYED;
    if (first) {
        comm->status = status;
        snprintf(comm->text, sizeof comm->text, "%s", text);
    }
    pthread_mutex_unlock(&comm->lock);
    if (first) fprintf(stderr, "NCCL stand-in: on rank %d: %s\n", comm->rank, text);
    return first;
}

bool has_failed(NcclComm *comm) {
    pthread_mutex_lock(&comm->lock);
    bool failed = comm->status != COLL_SUCCESS && comm->status != COLL_IN_PROGRESS;
    pthread_mutex_unlock(&comm->lock);
    return failed;
}

void wake(NcclComm *comm) {
    uint64_t one = 1;
    if (write(comm->wake, &one, sizeof one) < 0) return; /* it is full: awake */
}

const char *ncclGetErrorString(unsigned status) {
    static const char *const texts[] = {"no error",
                                        "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
                                        "unhandled system error (run with NCCL_DEBUG=INFO for details)",
                                        "internal error - please report this issue to the NCCL developers",
                                        "invalid argument (run with NCCL_DEBUG=WARN for details)",
                                        "invalid usage (run with NCCL_DEBUG=WARN for details)",
                                        "remote process exited or there was a network error",
                                        "NCCL operation in progress"};
    return status < sizeof texts / sizeof texts[0] ? texts[status] : "unknown result code";
}

/* Returns the text of a communicator's asynchronous error, otherwise the last one of this process. */
const char *ncclGetLastError(NcclComm *comm) {
    static _Thread_local char text[TEXT_BYTES];
    if (comm && has_failed(comm)) return comm->text;
    pthread_mutex_lock(&last_error_lock);
    memcpy(text, last_error, sizeof text);
    pthread_mutex_unlock(&last_error_lock);
    return text;
}

/* ---- how a communicator begins ---- */

static int own_version(void) {
    const char *text = getenv("STAND_IN_NCCL_VERSION");
    return text ? atoi(text) : 22705;
}

unsigned ncclGetVersion(int *version) {
    if (!version) return refuse(COLL_INVALID_ARGUMENT, "ncclGetVersion: version is NULL");
    *version = own_version();
    return COLL_SUCCESS;
}

unsigned ncclGetUniqueId(NcclId *id) {
    return id ? open_meeting(id) : refuse(COLL_INVALID_ARGUMENT, "ncclGetUniqueId: out is NULL");
}

static unsigned check_config(const NcclConfig *config, bool *blocking) {
    *blocking = true;
    if (!config) return COLL_SUCCESS;
    if (config->size < offsetof(NcclConfig, blocking) || config->magic != COLL_CONFIG_MAGIC)
        return refuse(COLL_INVALID_ARGUMENT, "ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER");
    if (config->version > (unsigned)own_version())
        return refuse(COLL_INVALID_ARGUMENT, "the config's version %u is newer than the library's %d", config->version,
                      own_version());
    if (config->version < 21400 || config->size < sizeof *config) return COLL_SUCCESS; /* has no such setting */
    if (config->blocking != 0 && config->blocking != 1)
        return refuse(COLL_INVALID_ARGUMENT, "Invalid config blocking attribute value %d", config->blocking);
    *blocking = config->blocking != 0;
    return COLL_SUCCESS;
}

static NcclComm *create(int ranks, const NcclId *id, int rank, bool blocking) {
    const char *host = getenv("NCCL_HOSTID"), *seed = getenv("STAND_IN_NCCL_SEED");
    NcclComm *comm = calloc(1, sizeof *comm);
    if (!comm) abort();
    *comm = (NcclComm){.rank = rank, .ranks = ranks, .blocking = blocking, .id = *id, .status = COLL_IN_PROGRESS};
    comm->random = (seed ? strtoull(seed, NULL, 10) : 0) * 0x9E3779B97F4A7C15u + (uint64_t)rank;
    Hello *own = &comm->hellos[rank];
    own->ranks = ranks;
    own->rank = rank;
    if (host)
        snprintf(own->host, sizeof own->host, "%s", host);
    else
        gethostname(own->host, sizeof own->host - 1);
    for (int q = 0; q < MOST_RANKS; q++) comm->peers[q].control = comm->peers[q].data = -1;
    pthread_mutex_init(&comm->lock, NULL);
    pthread_mutex_init(&comm->sending, NULL);
    comm->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    pthread_mutex_lock(&all_lock);
    comm->next = all_communicators;
    all_communicators = comm;
    pthread_mutex_unlock(&all_lock);
    return comm;
}

/* Ends the thread, the connections, and the memory for data. */
static void stop(NcclComm *comm) {
    comm->stop = true;
    wake(comm);
    if (comm->has_thread) pthread_join(comm->thread, NULL);
    comm->has_thread = false;
    pthread_mutex_lock(&comm->sending);
    for (int q = 0; q < MOST_RANKS; q++) {
        Peer *peer = &comm->peers[q];
        if (peer->control >= 0) close(peer->control);
        if (peer->data >= 0) close(peer->data);
        free(peer->scratch);
        *peer = (Peer){.control = -1, .data = -1};
    }
    pthread_mutex_unlock(&comm->sending);
}

static unsigned current_status(NcclComm *comm) {
    pthread_mutex_lock(&comm->lock);
    unsigned status = comm->status;
    pthread_mutex_unlock(&comm->lock);
    return status;
}

/* Waits for what the thread does, while the streams get on. Returns the status. */
static unsigned wait_for_thread(NcclComm *comm) {
    while (current_status(comm) == COLL_IN_PROGRESS) {
        emulate_advance_streams();
        usleep(50);
    }
    return current_status(comm);
}

unsigned ncclCommInitRankConfig(NcclComm **out, int ranks, NcclId id, int rank, NcclConfig *config) {
    bool blocking;
    int device;
    unsigned status = check_config(config, &blocking);
    if (status) return status;
    if (!out) return refuse(COLL_INVALID_ARGUMENT, "ncclCommInitRankConfig: comm is NULL");
    *out = NULL;
    if (ranks < 1 || rank < 0 || rank >= ranks)
        return refuse(COLL_INVALID_ARGUMENT, "Invalid rank requested : %d/%d", rank, ranks);
    if (ranks > MOST_RANKS || in_group())
        return refuse(COLL_INVALID_ARGUMENT, "the stand-in has %d ranks at most, and none made in a group", MOST_RANKS);
    NcclComm *comm = create(ranks, &id, rank, blocking);
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetPCIBusId(comm->hellos[rank].bus, sizeof comm->hellos[rank].bus, device) != cudaSuccess)
        return refuse(COLL_CUDA_ERROR, "ncclCommInitRankConfig: the device is not known");
    if (pthread_create(&comm->thread, NULL, progress, comm))
        return refuse(SYSTEM_ERROR, "ncclCommInitRankConfig: cannot begin a thread");
    comm->has_thread = true;
    *out = comm;
    if (!blocking) return COLL_IN_PROGRESS;
    status = wait_for_thread(comm);
    if (comm->ready) return COLL_SUCCESS; /* even if another rank has failed since */
    remember(comm->text);
    stop(comm);
    comm->phase = ABORTED;
    *out = NULL;
    return status;
}

/* ---- how it goes on, and ends ---- */

unsigned ncclCommGetAsyncError(NcclComm *comm, unsigned *status) {
    if (!comm || !status) return refuse(COLL_INVALID_ARGUMENT, "ncclCommGetAsyncError: an argument is NULL");
    pthread_mutex_lock(&comm->lock);
    bool enqueues = comm->deferred && --comm->calls_to_go <= 0, finalizing = comm->phase == FINALIZING;
    bool over = comm->phase == DESTROYED || comm->phase == ABORTED;
    pthread_mutex_unlock(&comm->lock);
    if (over) return refuse(COLL_INVALID_ARGUMENT, "ncclCommGetAsyncError after the communicator's end");
    if (enqueues) (void)enqueue_deferred(comm);
    if (finalizing) emulate_advance_streams();
    *status = current_status(comm);
    return COLL_SUCCESS;
}

/* Returns success if the communicator is whole and nothing is in progress. */
static unsigned begin_end(NcclComm *comm, const char *function) {
    if (!comm) return refuse(COLL_INVALID_ARGUMENT, "%s: comm is NULL", function);
    unsigned status = current_status(comm);
    if (comm->phase == DESTROYED || comm->phase == ABORTED)
        return refuse(COLL_INVALID_ARGUMENT, "rank %d: %s after the communicator's end", comm->rank, function);
    if (status == COLL_IN_PROGRESS)
        return refuse(COLL_INVALID_ARGUMENT,
                      "rank %d: %s: Attempt to use communicator before the previous operation returned ncclSuccess",
                      comm->rank, function);
    if (status)
        return refuse(status, "rank %d: %s would wait for ever after an error: call ncclCommAbort", comm->rank,
                      function);
    return COLL_SUCCESS;
}

static void start_finalizing(NcclComm *comm) {
    pthread_mutex_lock(&comm->lock);
    comm->phase = FINALIZING;
    comm->status = COLL_IN_PROGRESS;
    pthread_mutex_unlock(&comm->lock);
    wake(comm);
}

/* Waits for operations in streams and for the other ranks to come here, too. */
unsigned ncclCommFinalize(NcclComm *comm) {
    unsigned status = begin_end(comm, "ncclCommFinalize");
    if (status) return status;
    if (comm->phase != OPEN) return refuse(COLL_INVALID_ARGUMENT, "rank %d: ncclCommFinalize: twice", comm->rank);
    start_finalizing(comm);
    return comm->blocking ? wait_for_thread(comm) : COLL_IN_PROGRESS;
}

/* Waits until no graph has operations of the communicator any more: NCCL's hold references to it. */
static void wait_for_graphs(const NcclComm *comm) {
    for (const Operation *op = comm->operations; op;)
        if (op->capture && emulate_capture_is_alive(op->capture)) {
            emulate_advance_streams();
            usleep(1000);
        } else {
            op = op->next;
        }
}

unsigned ncclCommDestroy(NcclComm *comm) {
    unsigned status = begin_end(comm, "ncclCommDestroy");
    if (status) return status;
    if (comm->phase == OPEN) {
        start_finalizing(comm);
        status = wait_for_thread(comm);
        if (status) return status;
    }
    pthread_mutex_lock(&comm->lock);
    comm->phase = DESTROYED;
    pthread_mutex_unlock(&comm->lock);
    stop(comm);
    wait_for_graphs(comm);
    return COLL_SUCCESS;
}

unsigned ncclCommAbort(NcclComm *comm) {
    if (!comm) return refuse(COLL_INVALID_ARGUMENT, "ncclCommAbort: comm is NULL");
    pthread_mutex_lock(&comm->lock);
    bool over = comm->phase == DESTROYED || comm->phase == ABORTED;
    if (!over) comm->phase = ABORTED;
    pthread_mutex_unlock(&comm->lock);
    if (over) return refuse(COLL_INVALID_ARGUMENT, "rank %d: ncclCommAbort after the communicator's end", comm->rank);
    stop(comm);
    pthread_mutex_lock(&comm->lock);
    spoil_operations(comm);
    while (comm->deferred) {
        Operation *op = comm->deferred;
        comm->deferred = op->next;
        free(op);
    }
    pthread_mutex_unlock(&comm->lock);
    wait_for_graphs(comm);
    return COLL_SUCCESS;
}

/* ---- operations ---- */

unsigned ncclBroadcast(const void *from, void *to, size_t count, unsigned type, int root, NcclComm *comm,
                       cudaStream_t stream) {
    return call(comm, BROADCAST, from, to, count, type, COLL_SUM, root, stream);
}

unsigned ncclAllReduce(const void *from, void *to, size_t count, unsigned type, unsigned reduction, NcclComm *comm,
                       cudaStream_t stream) {
    return call(comm, ALL_REDUCE, from, to, count, type, reduction, 0, stream);
}

unsigned ncclReduceScatter(const void *from, void *to, size_t count, unsigned type, unsigned reduction, NcclComm *comm,
                           cudaStream_t stream) {
    return call(comm, REDUCE_SCATTER, from, to, count, type, reduction, 0, stream);
}

unsigned ncclAllGather(const void *from, void *to, size_t count, unsigned type, NcclComm *comm, cudaStream_t stream) {
    return call(comm, ALL_GATHER, from, to, count, type, COLL_SUM, 0, stream);
}
