/* Loads NCCL, and opens groups over it. Communicators do not block: the host never waits in the library, but asks it
 * for its state and looks after the other ranks meanwhile. Operations run in the device's second queue, which other
 * operations leave alone but for casts of what is sent: NCCL wants one stream for a communicator. */
#include "kernels/cuda/libraries/nccl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/threads.h"
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/libraries/nccl_functions.h"
#include "kernels/nccl.h"

enum { OLDEST = 21600, SECONDS = 600 };
/* Bytes a second that even a slow network carries, where the rate is not known, and how many times as long as it takes
 * at that rate an exchange may last. */
static const double SLOWEST_RATE = 50e6, PATIENCE = 20;

_Static_assert(sizeof(NcclId) == NCCL_ID_BYTES, "it is given to others as bytes");

#define NAME(result, function, arguments) #function,
static const LibrarySpec SPEC = {
    "TRAINC_NCCL",
    (const char *[]){"libnccl.so.2", NULL},
    "NCCL (libnccl.so.2)",
    "GPUs cannot exchange anything",
    "install NVIDIA's package for Python, nvidia-nccl-cu12 or nvidia-nccl-cu13, as the driver's CUDA is, or libnccl2",
    NULL,
    (const char *[]){FOR_EACH_NCCL_FUNCTION(NAME) NULL}};
#undef NAME

static NcclFunctions call;

typedef struct {
    NcclComm *comm;
    Device *device;
    void *flag;     /* f32 on the device, for the barrier */
    const char *op; /* the latest */
    bool entered;   /* the second queue, for this operation alone */
    bool left;
    double limit;    /* seconds that a wait may take besides its bytes */
    double waited;   /* of the wait that goes on, or the last */
    double sent[2];  /* Group.sent when the wait before this one began, and when this one did */
    double asked_at; /* for the state, which is not asked for more often than every millisecond */
} State;

/* ---- loading ---- */

static char *version_text(int version, char text[LIBRARY_VERSION]) {
    snprintf(text, LIBRARY_VERSION, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
    return text;
}

/* Loads the library. Returns its version, or 0 with the reason in the description. */
static int load(char description[LIBRARY_DESCRIPTION]) {
    char text[LIBRARY_VERSION], path[LIBRARY_FILE];
    int version = 0;
    if (!library_load(&SPEC, &call, description)) return 0;
    snprintf(path, sizeof path, "%.*s", LIBRARY_FILE - 1, description);
    bool told = call.ncclGetVersion(&version) == COLL_SUCCESS;
    if (told && version >= OLDEST) {
        snprintf(description, LIBRARY_DESCRIPTION, "%s: %s", version_text(version, text), path);
        return version;
    }
    snprintf(description, LIBRARY_DESCRIPTION, "%s: %s is NCCL %s, older than 2.16", SPEC.substitute, path,
             told ? version_text(version, text) : "of no known version");
    return 0;
}

void nccl_find(char text[LIBRARY_DESCRIPTION]) { load(text); }

/* Returns the version; 0 with the reason and with what to do. */
static int load_or_advise(Error *error) {
    char text[LIBRARY_DESCRIPTION];
    int version = load(text);
    if (!version) error_set(error, "%s; %s", text, SPEC.advice);
    return version;
}

bool nccl_make_id(char id[NCCL_ID_BYTES], Error *error) {
    NcclId made;
    if (!load_or_advise(error)) return false;
    unsigned status = call.ncclGetUniqueId(&made);
    if (status != COLL_SUCCESS) return error_set(error, "NCCL: making a group: %s", call.ncclGetErrorString(status));
    memcpy(id, made.bytes, NCCL_ID_BYTES);
    return true;
}

/* ---- waiting ---- */

/* Returns what the library said last, to be put behind a message; free(). */
static char *last_words(const NcclComm *comm) {
    const char *words = call.ncclGetLastError((NcclComm *)comm);
    return words && *words ? xformat("; its last words: %s", words) : xstrdup("");
}

static void fail(const Group *group, const char *why) {
    if (group->failed) group->failed(group->context, why);
    die("%s", why);
}

/* Ends the use of a group whose library has failed, after some time in which Group.waiting may find that a rank is
 * lost. */
static void fail_with_status(const Group *group, unsigned status) {
    const State *s = group->state;
    enum { TENTHS = 250 };
    for (int i = 0; group->waiting && i < TENTHS; i++) {
        group->waiting(group->context);
        usleep(100000);
    }
    OWNED char *words = last_words(s->comm), *why = xformat("rank %d of %d: NCCL, %s: %s%s", group->rank, group->size,
                                                            s->op, call.ncclGetErrorString(status), words);
    fail(group, why);
}

static bool is_fault(unsigned status) { return status != COLL_SUCCESS && status != COLL_IN_PROGRESS; }

/* Returns the seconds that a wait may take: more, the more has been queued since the wait before. */
static double limit_of(const Group *group) {
    const State *s = group->state;
    return s->limit + PATIENCE * (s->sent[1] - s->sent[0]) / (group->rate > 0 ? group->rate : SLOWEST_RATE);
}

static void check_limit(const Group *group) {
    const State *s = group->state;
    double limit = limit_of(group);
    if (s->waited < limit) return;
    OWNED char *words = last_words(s->comm),
               *why = xformat(
                   "rank %d of %d: NCCL has not ended its operations for %.0f s (%.1f MB to send, the latest is %s); "
                   "TRAINC_NCCL_LIMIT=seconds gives them longer than %.0f%s",
                   group->rank, group->size, s->waited, (s->sent[1] - s->sent[0]) * 1e-6, s->op ? s->op : "none",
                   s->limit, words);
    fail(group, why);
}

/* Looks after NCCL and the other ranks while the host waits, which it has done for some seconds. */
static void watch(void *context, double waited) {
    const Group *group = context;
    State *s = group->state;
    unsigned status = COLL_SUCCESS;
    if (waited < s->waited || waited == 0) {
        s->sent[0] = s->sent[1];
        s->sent[1] = group->sent;
    }
    s->waited = waited;
    double now = seconds_now();
    if (now - s->asked_at < 1e-3) return;
    s->asked_at = now;
    unsigned asked = call.ncclCommGetAsyncError(s->comm, &status);
    if (asked != COLL_SUCCESS) status = asked;
    if (is_fault(status)) fail_with_status(group, status);
    if (group->waiting) group->waiting(group->context);
    check_limit(group);
}

/* Waits until the host's part of a call is done. Returns its status. */
static unsigned settle(const Group *group, unsigned status) {
    const State *s = group->state;
    double start = seconds_now();
    for (int64_t tries = 0; status == COLL_IN_PROGRESS; tries++) {
        unsigned asked = call.ncclCommGetAsyncError(s->comm, &status);
        if (asked != COLL_SUCCESS) return asked;
        if (status != COLL_IN_PROGRESS) break;
        if (group->waiting) group->waiting(group->context);
        if (seconds_now() - start > s->limit) return COLL_IN_PROGRESS;
        rest_between_tries(tries);
    }
    return status;
}

/* ---- operations ---- */

static unsigned type_of(DType dtype) {
    switch (dtype) {
    case DTYPE_F32:
        return COLL_F32;
    case DTYPE_BF16:
        return COLL_BF16;
    case DTYPE_F16:
        return COLL_F16;
    default:
        return COLL_I32; /* the door lets no other type in */
    }
}

static unsigned reduction_of(Reduction reduction) { return reduction == REDUCE_SUM ? COLL_SUM : COLL_MAX; }

/* Returns the stream that an operation is to be queued in. */
static cudaStream_t begin(const Group *group, Device *device, const char *op) {
    State *s = group->state;
    if (s->left) die("%s: the group was left", op);
    if (device != s->device) die("%s: the group was opened for another device", op);
    s->op = op;
    s->entered = !cuda_state(device)->is_beside;
    if (s->entered) device_beside(device, true);
    return cuda_stream(device);
}

/* Has the first queue wait for the operation, unless more is to come in the second. */
static void end(const Group *group, unsigned status) {
    const State *s = group->state;
    status = settle(group, status);
    if (status != COLL_SUCCESS) fail_with_status(group, status);
    if (!s->entered) return;
    device_beside(s->device, false);
    device_mark(s->device, GROUP_MARK);
    device_await(s->device, GROUP_MARK);
}

static NcclComm *comm_of(const Group *group) { return ((const State *)group->state)->comm; }

static void all_reduce(Group *group, Device *device, Tensor x, Reduction reduction) {
    cudaStream_t stream = begin(group, device, "all_reduce");
    end(group, call.ncclAllReduce(x.data, x.data, (size_t)x.dims[0], type_of(x.dtype), reduction_of(reduction),
                                  comm_of(group), stream));
}

static void reduce_scatter(Group *group, Device *device, Tensor mine, Tensor all, Reduction reduction) {
    cudaStream_t stream = begin(group, device, "reduce_scatter");
    end(group, call.ncclReduceScatter(all.data, mine.data, (size_t)mine.dims[0], type_of(mine.dtype),
                                      reduction_of(reduction), comm_of(group), stream));
}

static void all_gather(Group *group, Device *device, Tensor all, Tensor mine) {
    cudaStream_t stream = begin(group, device, "all_gather");
    end(group,
        call.ncclAllGather(mine.data, all.data, (size_t)mine.dims[0], type_of(mine.dtype), comm_of(group), stream));
}

static void broadcast(Group *group, Device *device, Tensor x, int root) {
    cudaStream_t stream = begin(group, device, "broadcast");
    end(group, call.ncclBroadcast(x.data, x.data, (size_t)x.dims[0], type_of(x.dtype), root, comm_of(group), stream));
}

static void barrier(Group *group) {
    const State *s = group->state;
    all_reduce(group, s->device, tensor_1d(s->flag, DTYPE_F32, 1), REDUCE_SUM);
    s->device->synchronize(s->device);
}

/* ---- opening and closing ---- */

static void unwatch(Device *device) {
    device->waiting = NULL;
    device->context = NULL;
}

static void leave(Group *group) {
    State *s = group->state;
    if (s->left) return;
    s->left = true;
    unwatch(s->device);
    if (s->device->abandon) s->device->abandon(s->device);
    call.ncclCommAbort(s->comm);
}

static void close_group(Group *group) {
    State *s = group->state;
    if (!s->left) {
        s->device->forget(s->device);
        s->op = "close";
        unsigned status = settle(group, call.ncclCommFinalize(s->comm));
        if (status != COLL_SUCCESS) fail_with_status(group, status);
        unwatch(s->device);
        call.ncclCommDestroy(s->comm);
        s->device->release(s->device, s->flag, sizeof(float));
    }
    FREE(s, group);
}

/* Returns the seconds of $TRAINC_NCCL_LIMIT, or the usual ones. */
static double limit_from_environment(void) {
    const char *text = getenv("TRAINC_NCCL_LIMIT");
    char *end;
    if (!text || !*text) return SECONDS;
    double seconds = strtod(text, &end);
    if (*end || end == text || !(seconds > 0) || !isfinite(seconds))
        die_usage("TRAINC_NCCL_LIMIT=%s: expected seconds, more than 0", text);
    return seconds;
}

/* Chooses an order of sums for NCCL, where the user has not: one that does not depend on its own measurements. */
static const char *choose(const char *variable, const char *value) {
    setenv(variable, value, 0);
    return getenv(variable);
}

enum { LONGEST = 31 }; /* name of an order, as the format below reads it */

void nccl_choose_as(const char *description) {
    char algorithm[LONGEST + 1], protocol[LONGEST + 1];
    if (sscanf(description, "NCCL %*[0-9.]; %31[^;]; %31[^;]", algorithm, protocol) != 2) return;
    choose("NCCL_ALGO", algorithm);
    choose("NCCL_PROTO", protocol);
}

bool nccl_describe(char text[GROUP_DESCRIPTION], Error *error) {
    char number[LIBRARY_VERSION];
    int version = load_or_advise(error);
    if (!version) return false;
    const char *const chosen[] = {choose("NCCL_ALGO", "Ring"), choose("NCCL_PROTO", "Simple")};
    for (int i = 0; i < 2; i++)
        if (!*chosen[i] || strlen(chosen[i]) > LONGEST || strchr(chosen[i], ';'))
            return error_set(error,
                             "%s=%s: expected 1 to %d characters without a semicolon, as it is kept in checkpoints",
                             i ? "NCCL_PROTO" : "NCCL_ALGO", chosen[i], LONGEST);
    choose("NCCL_GRAPH_REGISTER", "0"); /* memory of a recording may be another's in the next training */
    snprintf(text, GROUP_DESCRIPTION, "NCCL %s; %s; %s", version_text(version, number), chosen[0], chosen[1]);
    return true;
}

/* Connects the ranks. Returns false with the reason. */
static bool connect_ranks(Group *group, const char id[NCCL_ID_BYTES], Error *error) {
    State *s = group->state;
    NcclId made;
    NcclConfig config = {sizeof config, COLL_CONFIG_MAGIC, COLL_CONFIG_VERSION, 0};
    memcpy(made.bytes, id, NCCL_ID_BYTES);
    unsigned status = settle(group, call.ncclCommInitRankConfig(&s->comm, group->size, made, group->rank, &config));
    if (status == COLL_SUCCESS) return true;
    OWNED char *words = last_words(s->comm);
    error_set(error, "%s: connecting the ranks: %s%s", group->description,
              status == COLL_IN_PROGRESS ? "not done in time (TRAINC_NCCL_LIMIT)" : call.ncclGetErrorString(status),
              words);
    if (s->comm) call.ncclCommAbort(s->comm);
    return false;
}

Group *nccl_group_open(int rank, int size, const char id[NCCL_ID_BYTES], Device *device, void (*waiting)(void *context),
                       void *context, Error *error) {
    char described[GROUP_DESCRIPTION];
    if (!nccl_describe(described, error)) return NULL;
    State *s = xcalloc(1, sizeof *s);
    *s = (State){.device = device, .limit = limit_from_environment()};
    Group *group = xcalloc(1, sizeof *group);
    *group = (Group){.rank = rank,
                     .size = size,
                     .queues = true,
                     .waiting = waiting,
                     .context = context,
                     .all_reduce = all_reduce,
                     .reduce_scatter = reduce_scatter,
                     .all_gather = all_gather,
                     .broadcast = broadcast,
                     .barrier = barrier,
                     .leave = leave,
                     .close = close_group,
                     .state = s};
    memcpy(group->description, described, sizeof described);
    if (!connect_ranks(group, id, error)) {
        FREE(s, group);
        return NULL;
    }
    s->flag = device->allocate(device, sizeof(float));
    device->waiting = watch;
    device->context = group;
    return group;
}
