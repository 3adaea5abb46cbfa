/* A stand-in for NCCL on the emulated card: the functions of kernels/cuda/libraries/nccl_functions.h, whose data go
 * between processes over TCP. A program loads build/release/tests/nccl/libnccl.so.2 in NCCL's place (TRAINC_NCCL=PATH);
 * the CUDA runtime and the functions of emulate_streams.h are taken from that program.
 *
 * It refuses what NCCL refuses, with the same statuses. What NCCL would hang on, or compute wrongly, is an error that
 * ncclCommGetAsyncError returns on all ranks: ncclGetLastError names ranks and operations, and so does a line on stderr
 * that begins with "NCCL stand-in: ". Such are operations that differ between ranks in anything (kind, count, type,
 * reduction, root, whether they are captured and where in which capture, counted from 1 on each communicator), a second
 * stream, two operations at once, buffers out of bounds, and buffers that overlap in another way than in place.
 *
 * Sums are taken in f32 in the order of a ring: that of part k, which rank k owns, begins with rank k + 1 and ends with
 * rank k, and is rounded once, at the end. From three ranks on that is not the order of the ranks. The parts of an
 * all_reduce have ceil(count / ranks) elements. The maximum of a NaN and a number is the number, as NCCL's is.
 *
 * An operation ends on no rank before it has begun on all. After an asynchronous error, operations end only by
 * ncclCommAbort, which leaves NaN (bytes 0xFF) in results that are not complete. That and ncclCommDestroy return only
 * when all graphs with operations of the communicator have been destroyed.
 *
 * With an EMULATE_SEED other than 0 an operation begins only when its process calls the runtime, or waits in a call of
 * this library: a process that waits for others in another way should wait for its device first.
 *
 * The environment:
 *   STAND_IN_NCCL_ADDRESS    this host's address for the others; otherwise that of the first interface which is up,
 *                            no loopback and begins with NCCL_SOCKET_IFNAME, or 127.0.0.1
 *   NCCL_HOSTID              tells hosts apart, as in NCCL: two ranks of one host must have different cards
 *   STAND_IN_NCCL_VERSION    22705
 *   STAND_IN_NCCL_SEED       chooses which operations of a non-blocking communicator are put into their stream only
 *                            when ncclCommGetAsyncError has been called some times
 *   STAND_IN_NCCL_GBPS       gigabytes that a rank sends per second at most
 *   STAND_IN_NCCL_HANG_AT    the operation of this number, from 1, never ends; "3@1": on rank 1 only;
 *                            "1.2/9": the second operation of the first capture when that is replayed the 9th time
 *   STAND_IN_NCCL_ERROR_AT   there is a system error in this operation
 *   STAND_IN_NCCL_LEAVES_OLD ncclCommAbort leaves results that are not complete as they were, and not NaN
 *   STAND_IN_NCCL_LOG        a file to which each rank appends a line when it is ready, with NCCL_ALGO and NCCL_PROTO,
 *                            and one when an operation begins */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/cuda/emulate/emulate_streams.h"
#include "kernels/cuda/libraries/nccl_functions.h"

/* Declares all that the library exports. */
#pragma GCC visibility push(default)
#define DECLARE(result, name, arguments) result name arguments;
FOR_EACH_NCCL_FUNCTION(DECLARE)
#undef DECLARE
#pragma GCC visibility pop

enum { SYSTEM_ERROR = 2, INVALID_USAGE = 5 }; /* statuses besides those of nccl_functions.h */
enum { MOST_RANKS = 8, TEXT_BYTES = 400 };

typedef enum { BROADCAST, ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER } Kind;

/* An operation in all that ranks must agree about. */
typedef struct {
    uint64_t number; /* from 1, in the order in which they begin */
    uint64_t count;
    uint32_t kind, type, reduction, root;
    uint32_t capture, place; /* in which capture it is which operation, from 1; 0: it was put into a stream directly */
    uint64_t replay;         /* of the capture, from 1; 0 */
} Header;

typedef struct Operation {
    struct Operation *next; /* of the communicator, or of a group */
    NcclComm *comm;
    Header header;
    const char *from;
    char *to;
    cudaStream_t stream;
    uint64_t capture;                    /* the emulator's number of it; 0 */
    enum { QUEUED, BEGUN, ENDED } state; /* guarded by the communicator's lock */
} Operation;

/* Goes over a control connection. */
typedef struct {
    enum { BEGINS, LEAVES, FAILS } what;
    uint32_t status;
    Header header;
    char text[TEXT_BYTES];
} Message;

/* Introduces a rank to the others when they meet. */
typedef struct {
    uint64_t secret; /* of the communicator's id */
    int32_t ranks, rank, port, channel;
    char address[64], host[64], bus[16];
} Hello;

typedef struct {
    int control, data; /* connections; -1: none */
    Message message;   /* the next one, of which `received` bytes have come */
    size_t received;
    Header begun[4]; /* its operations that this rank has not begun */
    int n_begun;
    bool agrees; /* about the operation that runs */
    bool left;   /* has finalized */
    const char *send;
    char *receive;
    size_t to_send, to_receive; /* bytes that remain in the stage */
    char *scratch;
    size_t scratch_bytes;
} Peer;

struct ncclComm {
    NcclComm *next; /* of all that were ever made: use after the end is told */
    int rank, ranks;
    bool blocking;
    NcclId id;
    Hello hellos[MOST_RANKS];
    pthread_mutex_t lock; /* of what follows, to the progress thread's own */
    enum { OPEN, FINALIZING, FINALIZED, DESTROYED, ABORTED } phase;
    unsigned status; /* COLL_IN_PROGRESS while it is made or finalized, or operations are deferred */
    bool ready;      /* all ranks are connected */
    char text[TEXT_BYTES];
    cudaStream_t stream;
    bool has_stream;
    uint64_t last_capture; /* the emulator's number */
    uint32_t captures, captured;
    Operation *operations;    /* in streams and graphs */
    Operation *deferred;      /* of a non-blocking communicator, not yet in a stream */
    int calls_to_go, pending; /* before the deferred; direct operations in streams */
    Operation *running;       /* begun and not ended */
    bool posted;              /* the progress thread has not seen it */
    uint64_t random, begun;   /* operations so far */
    pthread_t thread;         /* makes the connections and moves data */
    bool has_thread;
    atomic_bool stop;
    int wake;                /* an eventfd */
    pthread_mutex_t sending; /* messages */
    Peer peers[MOST_RANKS];  /* from here on the progress thread's own */
    bool hangs, said_goodbye;
    int stage;    /* of the running operation; -1: the ranks have not agreed yet */
    double begin; /* of its data: seconds */
};

/* ---- calls.c ---- */
/* Remembers a text for ncclGetLastError, prints it, and returns the status. */
unsigned refuse(unsigned status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Sets the asynchronous error of a communicator unless it has one, and tells the other ranks. Returns the status. */
unsigned fail(NcclComm *comm, unsigned status, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Sets it from a text that has been printed by no one here, and tells nobody. */
bool take_failure(NcclComm *comm, unsigned status, const char *text);
bool has_failed(NcclComm *comm);
void wake(NcclComm *comm);

/* ---- operations.c ---- */
size_t element_bytes(unsigned type); /* 0: there is no such type here */
/* Writes an operation as messages and the log have it: "all_reduce of 8 f32, sum". */
void describe(const Header *header, char text[TEXT_BYTES / 4]);
/* Checks the arguments of a call, and takes it into the group that is open, or puts it into its stream. */
unsigned call(NcclComm *comm, Kind kind, const void *from, void *to, size_t count, unsigned type, unsigned reduction,
              int root, cudaStream_t stream);
/* Puts a non-blocking communicator's deferred operations into their streams. Returns the first error. */
unsigned enqueue_deferred(NcclComm *comm);
/* Ends what has begun without its result. */
void spoil_operations(NcclComm *comm);
/* Returns whether the calling thread has opened a group. */
bool in_group(void);

/* ---- meet.c ---- */
/* Makes the listener where all ranks will meet, and serves it until they have. */
unsigned open_meeting(NcclId *id);
/* Connects all ranks with each other. Returns the status, with the reason in text. */
unsigned meet(NcclComm *comm, char text[TEXT_BYTES]);

/* ---- progress.c ---- */
/* Connects the ranks of an argument, an NcclComm, and then moves data until the communicator is stopped. */
void *progress(void *comm);
bool send_message(int socket, const void *message, size_t bytes);
bool setting_names(const char *variable, const NcclComm *comm, const Header *header);
void append_to_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- reduce.c ---- */
/* Writes the sum or maximum of n elements of each rank's part, in the order of the ring that ends with `owner`. */
void reduce(void *out, const void *const parts[], int ranks, int owner, size_t n, unsigned type, unsigned reduction);
