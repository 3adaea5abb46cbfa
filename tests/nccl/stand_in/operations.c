/* Operations: what is checked when they are called, and how they come into streams. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/nccl/stand_in/stand_in.h"

static const char *const kinds[] = {"broadcast", "all_reduce", "reduce_scatter", "all_gather"};

size_t element_bytes(unsigned type) {
    return type == COLL_F32 || type == COLL_I32 ? 4 : type == COLL_F16 || type == COLL_BF16 ? 2 : 0;
}

void describe(const Header *h, char text[TEXT_BYTES / 4]) {
    const char *type = h->type == COLL_F32 ? "f32" : h->type == COLL_F16 ? "f16" : h->type == COLL_I32 ? "i32" : "bf16";
    char how[40] = "";
    if (h->kind == BROADCAST) snprintf(how, sizeof how, " root=%u", h->root);
    if (h->kind == ALL_REDUCE || h->kind == REDUCE_SCATTER)
        snprintf(how, sizeof how, " reduction=%s", h->reduction == COLL_SUM ? "sum" : "max");
    int n = snprintf(text, TEXT_BYTES / 4, "%s count=%llu type=%s%s ", kinds[h->kind], (unsigned long long)h->count,
                     type, how);
    snprintf(text + n, (size_t)(TEXT_BYTES / 4 - n), h->capture ? "captured=%u.%u replay=%llu" : "direct", h->capture,
             h->place, (unsigned long long)h->replay);
}

/* ---- groups, of the calling thread ---- */

static _Thread_local int depth;
static _Thread_local Operation *group, **group_end;
static _Thread_local unsigned group_status;

bool in_group(void) { return depth > 0; }

/* ---- into streams ---- */

/* Writes NaN to what an operation should have written. */
static void spoil(const Operation *op) {
    const Header *h = &op->header;
    size_t bytes = h->count * element_bytes(h->type), ranks = (size_t)op->comm->ranks, rank = (size_t)op->comm->rank;
    if (getenv("STAND_IN_NCCL_LEAVES_OLD") || (h->kind == BROADCAST && h->root == rank && op->from == op->to)) return;
    for (size_t q = 0; q < (h->kind == ALL_GATHER ? ranks : 1); q++)
        if (h->kind != ALL_GATHER || op->from != op->to + q * bytes) memset(op->to + q * bytes, 0xFF, bytes);
}

void spoil_operations(NcclComm *comm) {
    for (Operation *op = comm->operations; op; op = op->next)
        if (op->state == BEGUN) {
            spoil(op);
            op->state = ENDED;
        }
    comm->running = NULL;
}

/* Takes the communicator's lock away with the operation, if that was put into its stream directly. */
static void finish(NcclComm *comm, Operation *op) {
    op->state = QUEUED;
    if (op->header.capture) return;
    Operation **at = &comm->operations;
    while (*at != op) at = &(*at)->next;
    *at = op->next;
    comm->pending--;
    free(op);
}

/* Called by the emulator for work that is first in its stream: begins it, and returns whether it is done. */
static bool poll_operation(void *argument) {
    Operation *op = argument, *other = NULL;
    NcclComm *comm = op->comm;
    pthread_mutex_lock(&comm->lock);
    bool begins = op->state == QUEUED, over = comm->phase >= FINALIZED, done = op->state == ENDED;
    if (begins && over) {
        spoil(op);
        done = true;
    } else if (begins && comm->running) {
        other = comm->running;
        op->state = BEGUN;
    } else if (begins) {
        op->state = BEGUN;
        op->header.replay += op->header.capture > 0;
        op->header.number = ++comm->begun;
        comm->running = op;
        comm->posted = true;
    }
    Header header = op->header;
    if (done) finish(comm, op);
    pthread_mutex_unlock(&comm->lock);
    if (begins && over && comm->phase != ABORTED) {
        char text[TEXT_BYTES / 4];
        describe(&header, text);
        refuse(COLL_INVALID_ARGUMENT, "rank %d: %s begins after the communicator's end", comm->rank, text);
    }
    if (other) {
        char text[TEXT_BYTES / 4];
        describe(&header, text);
        fail(comm, INVALID_USAGE,
             "rank %d: %s begins while operation %llu runs: their streams do not wait for each other", comm->rank, text,
             (unsigned long long)comm->begun);
    }
    if (begins || done) wake(comm);
    return done;
}

static unsigned enqueue(Operation *op) {
    NcclComm *comm = op->comm;
    uint64_t capture = op->capture = emulate_capture_number(op->stream);
    pthread_mutex_lock(&comm->lock);
    if (capture && capture != comm->last_capture) {
        comm->last_capture = capture;
        comm->captures++;
        comm->captured = 0;
    }
    if (capture) {
        op->header.capture = comm->captures;
        op->header.place = ++comm->captured;
    } else {
        comm->pending++;
    }
    op->next = comm->operations;
    comm->operations = op;
    pthread_mutex_unlock(&comm->lock);
    cudaError_t status = emulate_enqueue_poll(op->stream, poll_operation, op);
    if (status == cudaSuccess) return COLL_SUCCESS;
    pthread_mutex_lock(&comm->lock);
    comm->pending -= !capture; /* the operation itself may be in the stream: it stays */
    pthread_mutex_unlock(&comm->lock);
    return fail(comm, COLL_CUDA_ERROR, "rank %d: cannot put %s into the stream: CUDA error %d", comm->rank,
                kinds[op->header.kind], (int)status);
}

/* Takes a list of operations, whose communicators may be different. */
static unsigned submit(Operation *list) {
    unsigned result = COLL_SUCCESS;
    for (Operation *op = list, *next; op; op = next) {
        NcclComm *comm = op->comm;
        next = op->next;
        op->next = NULL;
        comm->random = comm->random * 6364136223846793005u + 1442695040888963407u;
        pthread_mutex_lock(&comm->lock);
        bool deferred = comm->deferred || (!comm->blocking && comm->random >> 33 & 1);
        if (deferred) {
            Operation **at = &comm->deferred;
            if (!*at) comm->calls_to_go = 1 + (int)(comm->random >> 40 & 3);
            while (*at) at = &(*at)->next;
            *at = op;
            if (!comm->status) comm->status = COLL_IN_PROGRESS;
        }
        pthread_mutex_unlock(&comm->lock);
        unsigned status = deferred ? COLL_IN_PROGRESS : enqueue(op);
        if (result == COLL_SUCCESS || result == COLL_IN_PROGRESS) result = status ? status : result;
    }
    return result;
}

unsigned enqueue_deferred(NcclComm *comm) {
    unsigned result = COLL_SUCCESS;
    pthread_mutex_lock(&comm->lock);
    Operation *list = comm->deferred;
    comm->deferred = NULL;
    if (comm->status == COLL_IN_PROGRESS && comm->phase == OPEN) comm->status = COLL_SUCCESS;
    pthread_mutex_unlock(&comm->lock);
    for (Operation *op = list, *next; op; op = next) {
        next = op->next;
        unsigned status = enqueue(op);
        if (!result) result = status;
    }
    return result;
}

unsigned ncclGroupStart(void) {
    if (!depth++) group = NULL, group_end = &group, group_status = COLL_SUCCESS;
    return COLL_SUCCESS;
}

unsigned ncclGroupEnd(void) {
    if (!depth) return refuse(INVALID_USAGE, "ncclGroupEnd: not in a group call");
    if (--depth) return COLL_SUCCESS;
    if (!group_status) return submit(group);
    for (Operation *op = group, *next; op; op = next) {
        next = op->next;
        free(op);
    }
    return group_status;
}

/* ---- checks ---- */

static unsigned check_arguments(NcclComm *comm, const Header *h, int root) {
    const char *name = kinds[h->kind];
    if (!element_bytes(h->type)) return refuse(COLL_INVALID_ARGUMENT, "%s: type %u", name, h->type);
    if (h->reduction != COLL_SUM && h->reduction != COLL_MAX)
        return refuse(COLL_INVALID_ARGUMENT, "%s: reduction %u", name, h->reduction);
    if (root < 0 || root >= comm->ranks)
        return refuse(COLL_INVALID_ARGUMENT, "%s: root %d is none of %d ranks", name, root, comm->ranks);
    return COLL_SUCCESS;
}

/* Checks one of the buffers: of `bytes`, on the device, and within one allocation. */
static unsigned check_buffer(NcclComm *comm, const char *name, const void *buffer, size_t bytes) {
    if (!buffer || !emulate_is_device_memory(buffer, 1))
        return refuse(COLL_INVALID_ARGUMENT, "rank %d, %s: %p is no device memory", comm->rank, name, buffer);
    if (emulate_is_device_memory(buffer, bytes)) return COLL_SUCCESS;
    return fail(comm, INVALID_USAGE, "rank %d, %s: the %zu bytes at %p go beyond their allocation", comm->rank, name,
                bytes, buffer);
}

static unsigned check_buffers(const Operation *op) {
    NcclComm *comm = op->comm;
    const Header *h = &op->header;
    const char *name = kinds[h->kind], *in_place = op->to;
    size_t bytes = h->count * element_bytes(h->type), all = bytes * (size_t)comm->ranks;
    size_t from_bytes = h->kind == REDUCE_SCATTER ? all : bytes, to_bytes = h->kind == ALL_GATHER ? all : bytes;
    bool reads = h->kind != BROADCAST || h->root == (uint32_t)comm->rank;
    unsigned status = check_buffer(comm, name, op->to, to_bytes);
    if (!status && reads) status = check_buffer(comm, name, op->from, from_bytes);
    if (status || !reads) return status;
    if (h->kind == REDUCE_SCATTER) in_place -= bytes * (size_t)comm->rank;
    if (h->kind == ALL_GATHER) in_place += bytes * (size_t)comm->rank;
    bool apart = op->from + from_bytes <= op->to || op->to + to_bytes <= op->from;
    if (apart || op->from == in_place) return COLL_SUCCESS;
    return fail(comm, INVALID_USAGE, "rank %d, %s: the buffers overlap, but not in place", comm->rank, name);
}

/* Returns success if operations may be called now. */
static unsigned check_ready(NcclComm *comm, const char *name) {
    pthread_mutex_lock(&comm->lock);
    unsigned status = comm->status;
    int phase = comm->phase;
    pthread_mutex_unlock(&comm->lock);
    if (phase != OPEN)
        return refuse(COLL_INVALID_ARGUMENT, "rank %d: %s after the communicator was %s", comm->rank, name,
                      phase == ABORTED     ? "aborted"
                      : phase == DESTROYED ? "destroyed"
                                           : "finalized");
    if (status == COLL_IN_PROGRESS)
        return refuse(COLL_INVALID_ARGUMENT,
                      "rank %d: %s: Attempt to use communicator before the previous operation returned ncclSuccess",
                      comm->rank, name);
    return status;
}

static unsigned check_stream(NcclComm *comm, const char *name, cudaStream_t stream) {
    bool other = comm->has_stream && comm->stream != stream;
    if (other)
        return fail(comm, INVALID_USAGE, "rank %d, %s: a second stream on the same communicator", comm->rank, name);
    comm->stream = stream;
    comm->has_stream = true;
    return COLL_SUCCESS;
}

static unsigned check_call(const Operation *op, int root) {
    NcclComm *comm = op->comm;
    const char *name = kinds[op->header.kind];
    unsigned status = check_ready(comm, name);
    if (!status) status = check_arguments(comm, &op->header, root);
    if (!status && op->header.count) status = check_buffers(op);
    if (!status && op->header.count) status = check_stream(comm, name, op->stream);
    return status;
}

unsigned call(NcclComm *comm, Kind kind, const void *from, void *to, size_t count, unsigned type, unsigned reduction,
              int root, cudaStream_t stream) {
    Operation *op = calloc(1, sizeof *op);
    if (!op) abort();
    *op = (Operation){.comm = comm, .from = from, .to = to, .stream = stream};
    op->header.kind = kind;
    op->header.count = count;
    op->header.type = type;
    op->header.reduction = reduction;
    op->header.root = (uint32_t)root;
    unsigned status = comm ? check_call(op, root) : refuse(COLL_INVALID_ARGUMENT, "%s: comm is NULL", kinds[kind]);
    if (depth && status && !group_status) group_status = status;
    if (status || !count) {
        free(op);
        return status;
    }
    if (!depth) return submit(op);
    *group_end = op;
    group_end = &op->next;
    return COLL_SUCCESS;
}
