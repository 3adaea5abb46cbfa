/* Groups over MPI. The library only carries bytes: kernels/reduce.c adds them, so that sums do not depend on it.
 *
 * All operations are non-blocking and polled, for Group.waiting must be able to leave a wait for a rank that is lost,
 * and ranks that share cores must leave them to each other.
 *
 * A program may end at any time without closing the group: nothing in exit() waits. A rank that ends so, even with
 * status 0, makes mpirun end the others. Open MPI sends SIGCONT at once, SIGTERM after a second and SIGKILL after
 * another (--mca odls_base_sigkill_timeout 1), unless --enable-recovery leaves them alone; MPICH sends SIGKILL at once,
 * unless -disable-auto-cleanup makes that SIGUSR1. A rank that has to write a checkpoint after the loss of another
 * needs these options.
 *
 * MPI_Init of Open MPI replaces the handlers of SIGSEGV, SIGBUS, SIGFPE and SIGABRT alone. Its threads block the
 * signals that the caller blocks. */
#include "kernels/cpu/mpi.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/threads.h"
#include "kernels/mpi.h"
#include "kernels/reduce.h"

int64_t mpi_piece = (int64_t)1 << 20; /* larger pieces leave the caches before they are added */

typedef struct {
    char *at;
    size_t bytes;
} Room;

typedef struct {
    MPI_Comm comm;
    const char *op; /* the operation that goes on, or that Group.waiting has left */
    Room parts;     /* what all ranks sent */
    Room tail;      /* the elements of an all_reduce that cannot be divided among the ranks */
    Room host;      /* a copy of a tensor that the host cannot read in place */
} MpiState;

static bool initialised_here;
static int open_groups; /* the last one finalises MPI, if it was initialised here */

static bool succeeded(int status, const char *what, Error *error) {
    if (status == MPI_SUCCESS) return true;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    MPI_Error_string(status, text, &length);
    return error_set(error, "MPI, %s: %s", what, text);
}

static void must(const Group *group, int status) {
    const MpiState *state = group->state;
    enum { TENTHS = 250 };
    for (int i = 0; status != MPI_SUCCESS && group->waiting && i < TENTHS; i++) { /* is a rank lost? */
        group->waiting(group->context);
        usleep(100000);
    }
    MUST_OR(succeeded(status, state->op, &error), "rank %d of %d: %s", group->rank, group->size, error.text);
}

static char *room(Room *room, size_t bytes) {
    if (bytes > room->bytes) {
        free(room->at);
        *room = (Room){xuntouched(bytes), bytes};
    }
    return room->at;
}

static void begin(Group *group, const char *op) {
    MpiState *state = group->state;
    if (state->op) die("%s: the group cannot be used again, since its %s was left", op, state->op);
    state->op = op;
}

static void end(Group *group) { ((MpiState *)group->state)->op = NULL; }

static void wait_for(Group *group, MPI_Request *request) {
    for (int64_t tries = 0;; tries++) {
        int done;
        must(group, MPI_Test(request, &done, MPI_STATUS_IGNORE));
        if (done) return;
        if (group->waiting) group->waiting(group->context);
        rest_between_tries(tries);
    }
}

static MPI_Datatype type_of(DType dtype) { return dtype_size(dtype) == 2 ? MPI_UINT16_T : MPI_UINT32_T; }

/* Returns the type of `count` elements of a part of n: the next of this type begins at the next part. */
static MPI_Datatype part_type(Group *group, DType dtype, int64_t count, int64_t n) {
    MPI_Datatype elements, part;
    must(group, MPI_Type_contiguous((int)count, type_of(dtype), &elements));
    must(group, MPI_Type_create_resized(elements, 0, (MPI_Aint)n * (MPI_Aint)dtype_size(dtype), &part));
    must(group, MPI_Type_commit(&part));
    must(group, MPI_Type_free(&elements));
    return part;
}

/* Returns how many of the elements from `begin` on go in one call, of n in each part. */
static int64_t piece_of(int64_t begin, int64_t n, int parts) {
    int64_t most = mpi_piece / parts > 1 ? mpi_piece / parts : 1;
    return n - begin < most ? n - begin : most;
}

/* Computes the rank-th of the parts of n elements from the host's memory. */
static void reduce_part(Group *group, int threads, char *mine, const char *all, DType dtype, int64_t n,
                        Reduction reduction) {
    MpiState *state = group->state;
    int64_t size = (int64_t)dtype_size(dtype);
    for (int64_t begin = 0, count; begin < n; begin += count) {
        count = piece_of(begin, n, group->size);
        char *parts = room(&state->parts, (size_t)(count * size * group->size));
        MPI_Datatype part = part_type(group, dtype, count, n);
        MPI_Request request;
        must(group,
             MPI_Ialltoall(all + begin * size, 1, part, parts, (int)count, type_of(dtype), state->comm, &request));
        wait_for(group, &request);
        must(group, MPI_Type_free(&part));
        reduce_parts(mine + begin * size, parts, dtype, group->size, count, reduction, threads);
    }
}

/* Fills in the other ranks' parts of n elements. */
static void gather_parts(Group *group, char *all, DType dtype, int64_t n) {
    MpiState *state = group->state;
    for (int64_t begin = 0, count; begin < n; begin += count) {
        count = piece_of(begin, n, group->size);
        MPI_Datatype part = part_type(group, dtype, count, n);
        MPI_Request request;
        must(group, MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all + begin * (int64_t)dtype_size(dtype), 1,
                                   part, state->comm, &request));
        wait_for(group, &request);
        must(group, MPI_Type_free(&part));
    }
}

static void reduce_and_gather(Group *group, int threads, char *x, DType dtype, int64_t n, Reduction reduction) {
    if (!n) return;
    reduce_part(group, threads, x + group->rank * n * (int64_t)dtype_size(dtype), x, dtype, n, reduction);
    gather_parts(group, x, dtype, n);
}

/* Returns where the host finds t: in place, or with room for a copy. */
static char *host_of(Group *group, const Device *device, Tensor t) {
    MpiState *state = group->state;
    return device->host_memory ? t.data : room(&state->host, tensor_bytes(t));
}

/* Fetch a tensor from the device to the host, and put it back, unless the host has it in place. */
static void fetch(Device *device, char *host, Tensor t) {
    if (!device->host_memory) device->download(device, host, t.data, tensor_bytes(t));
}

static void put(Device *device, Tensor t, const char *host) {
    if (device->host_memory) return;
    device->upload(device, t.data, host, tensor_bytes(t));
    device->synchronize(device); /* until then the copy must stay as it is */
}

static int threads_of(const Device *device) { return device->n_threads > 0 ? device->n_threads : 1; }

static void mpi_all_reduce(Group *group, Device *device, Tensor x, Reduction reduction) {
    MpiState *state = group->state;
    begin(group, "all_reduce");
    char *host = host_of(group, device, x);
    fetch(device, host, x);
    int64_t each = x.dims[0] / group->size;
    size_t size = dtype_size(x.dtype), divided = (size_t)(each * group->size) * size, bytes = tensor_bytes(x) - divided;
    reduce_and_gather(group, threads_of(device), host, x.dtype, each, reduction);
    if (bytes) {
        char *tail = room(&state->tail, (size_t)group->size * size);
        memset(tail, 0, (size_t)group->size * size);
        memcpy(tail, host + divided, bytes);
        reduce_and_gather(group, 1, tail, x.dtype, 1, reduction);
        memcpy(host + divided, tail, bytes);
    }
    put(device, x, host);
    end(group);
}

static void mpi_reduce_scatter(Group *group, Device *device, Tensor mine, Tensor all, Reduction reduction) {
    begin(group, "reduce_scatter");
    char *host = host_of(group, device, all);
    char *part = device->host_memory ? mine.data : host + (size_t)group->rank * tensor_bytes(mine);
    fetch(device, host, all);
    reduce_part(group, threads_of(device), part, host, mine.dtype, mine.dims[0], reduction);
    put(device, mine, part);
    end(group);
}

static void mpi_all_gather(Group *group, Device *device, Tensor all, Tensor mine) {
    begin(group, "all_gather");
    char *host = host_of(group, device, all), *part = host + (size_t)group->rank * tensor_bytes(mine);
    fetch(device, part, mine);
    if (device->host_memory && part != mine.data) memcpy(part, mine.data, tensor_bytes(mine));
    gather_parts(group, host, mine.dtype, mine.dims[0]);
    put(device, all, host);
    end(group);
}

static void mpi_broadcast(Group *group, Device *device, Tensor x, int root) {
    MpiState *state = group->state;
    begin(group, "broadcast");
    char *host = host_of(group, device, x);
    if (group->rank == root) fetch(device, host, x);
    for (int64_t at = 0, count; at < x.dims[0]; at += count) {
        count = piece_of(at, x.dims[0], 1);
        MPI_Request request;
        must(group, MPI_Ibcast(host + (size_t)at * dtype_size(x.dtype), (int)count, type_of(x.dtype), root, state->comm,
                               &request));
        wait_for(group, &request);
    }
    if (group->rank != root) put(device, x, host);
    end(group);
}

static void wait_for_all(Group *group, const char *op) {
    MpiState *state = group->state;
    begin(group, op);
    MPI_Request request;
    must(group, MPI_Ibarrier(state->comm, &request));
    wait_for(group, &request);
    end(group);
}

static void mpi_barrier(Group *group) { wait_for_all(group, "barrier"); }

/* Waits for all ranks first, since MPI_Finalize does so without Group.waiting. After an operation that was left it
 * would wait for ever, and other ranks may still read from what would be freed. */
static void mpi_close(Group *group) {
    MpiState *state = group->state;
    if (!state->op) {
        wait_for_all(group, "close");
        MPI_Comm_free(&state->comm);
        if (!--open_groups && initialised_here) MPI_Finalize();
        FREE(state->parts.at, state->tail.at, state->host.at, state);
    }
    free(group);
}

/* Starts MPI, unless the program has done so. */
static bool start(Error *error) {
    int initialised, finalised, level = MPI_THREAD_SINGLE;
    MPI_Initialized(&initialised);
    MPI_Finalized(&finalised);
    if (finalised) return error_set(error, "MPI was closed, and cannot be opened again in the same process");
    int status = initialised ? MPI_Query_thread(&level) : MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level);
    if (!succeeded(status, "start", error)) return false;
    if (!initialised) initialised_here = true;
    if (level < MPI_THREAD_FUNNELED)
        return error_set(error, "%s: not started for programs with threads (MPI_THREAD_FUNNELED)", mpi_library());
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    return true;
}

Group *mpi_group_open(int rank, int size, Error *error) {
    if (!start(error)) return NULL;
    int found_rank, found_size;
    if (!succeeded(MPI_Comm_rank(MPI_COMM_WORLD, &found_rank), "rank", error) ||
        !succeeded(MPI_Comm_size(MPI_COMM_WORLD, &found_size), "size", error))
        return NULL;
    if (found_rank != rank || found_size != size) {
        error_set(error, "rank %d of %d: for %s this is rank %d of %d; start the program with the mpirun of that MPI",
                  rank, size, mpi_library(), found_rank, found_size);
        return NULL;
    }
    MPI_Comm comm;
    if (!succeeded(MPI_Comm_dup(MPI_COMM_WORLD, &comm), "open", error)) return NULL;
    MpiState *state = xcalloc(1, sizeof *state);
    state->comm = comm;
    open_groups++;
    Group *group = xcalloc(1, sizeof *group);
    *group = (Group){.rank = rank,
                     .size = size,
                     .all_reduce = mpi_all_reduce,
                     .reduce_scatter = mpi_reduce_scatter,
                     .all_gather = mpi_all_gather,
                     .broadcast = mpi_broadcast,
                     .barrier = mpi_barrier,
                     .close = mpi_close,
                     .state = state};
    snprintf(group->description, sizeof group->description, "MPI: %s", mpi_library());
    return group;
}

/* Shortens "Open MPI v4.1.4, package: ..." and "MPICH Version:      4.0.2\n...". */
const char *mpi_library(void) {
    static char name[96];
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "", *number;
    int length;
    MPI_Get_library_version(text, &length);
    text[strcspn(text, ",\n")] = '\0';
    number = strpbrk(text, "0123456789");
    char *word_end = text + strcspn(text, number && strncmp(text, "MPICH", 5) ? "0123456789" : " ");
    if (word_end > text && word_end[-1] == 'v') word_end--;
    while (word_end > text && word_end[-1] == ' ') word_end--;
    snprintf(name, sizeof name, "%.*s %s", (int)(word_end - text), text, number ? number : "");
    return name;
}
