/* The thread of a communicator that connects the ranks, compares their operations, and moves data. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/nccl/stand_in/stand_in.h"

bool send_message(int socket, const void *message, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        ssize_t n = send(socket, (const char *)message + done, bytes - done, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR) return false;
        if (n > 0) done += (size_t)n;
    }
    return true;
}

/* Returns whether a variable ("3" or "3@1") names an operation of this rank. */
bool setting_names(const char *variable, const NcclComm *comm, const Header *header) {
    const char *text = getenv(variable);
    unsigned capture, place;
    unsigned long long replay;
    char *end = NULL;
    if (!text) return false;
    if (sscanf(text, "%u.%u/%llu", &capture, &place, &replay) == 3) {
        if (capture != header->capture || place != header->place || replay != header->replay) return false;
        end = strchr(text, '/') + 1 + strspn(strchr(text, '/') + 1, "0123456789");
    } else if (strtoull(text, &end, 10) != header->number)
        return false;
    return *end != '@' || atoi(end + 1) == comm->rank;
}

void append_to_log(const char *format, ...) {
    const char *path = getenv("STAND_IN_NCCL_LOG");
    char line[TEXT_BYTES];
    va_list arguments;
    if (!path) return;
    va_start(arguments, format);
    int bytes = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (file < 0 || write(file, line, (size_t)bytes) != bytes) refuse(SYSTEM_ERROR, "STAND_IN_NCCL_LOG: %s", path);
    if (file >= 0) close(file);
}

static double seconds_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Sends a message to all other ranks that are there. Other threads send, too. */
static void send_to_all(NcclComm *comm, const Message *message) {
    pthread_mutex_lock(&comm->sending);
    for (int q = 0; q < comm->ranks; q++)
        if (comm->peers[q].control >= 0) send_message(comm->peers[q].control, message, sizeof *message);
    pthread_mutex_unlock(&comm->sending);
}

unsigned fail(NcclComm *comm, unsigned status, const char *format, ...) {
    Message message = {.what = FAILS, .status = status};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message.text, sizeof message.text, format, arguments);
    va_end(arguments);
    if (take_failure(comm, status, message.text) && comm->ready) send_to_all(comm, &message);
    return status;
}

/* ---- messages ---- */

static void take_message(NcclComm *comm, int q) {
    Peer *peer = &comm->peers[q];
    const Message *message = &peer->message;
    if (message->what == LEAVES) peer->left = true;
    if (message->what == FAILS) take_failure(comm, message->status, message->text);
    if (message->what == BEGINS && peer->n_begun < 4) /* the running one and the next at most */
        peer->begun[peer->n_begun++] = message->header;
}

static void lose(NcclComm *comm, int q) {
    Peer *peer = &comm->peers[q];
    pthread_mutex_lock(&comm->sending);
    close(peer->control);
    peer->control = -1;
    pthread_mutex_unlock(&comm->sending);
    if (!peer->left)
        fail(comm, COLL_REMOTE_ERROR, "rank %d (host %s) is gone: its connection to rank %d was closed", q,
             comm->hellos[q].host, comm->rank);
}

static void read_messages(NcclComm *comm, int q) {
    Peer *peer = &comm->peers[q];
    while (peer->control >= 0) {
        ssize_t n = recv(peer->control, (char *)&peer->message + peer->received, sizeof(Message) - peer->received,
                         MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
        if (n <= 0) {
            lose(comm, q);
            return;
        }
        peer->received += (size_t)n;
        if (peer->received < sizeof(Message)) continue;
        peer->received = 0;
        take_message(comm, q);
    }
}

/* ---- the stages of an operation: all_reduce has two, a reduce_scatter and an all_gather ---- */

/* Describes the part of an all_reduce that a rank owns. */
static size_t part(const Header *h, int ranks, int q, size_t *begin) {
    size_t each = (h->count + (size_t)ranks - 1) / (size_t)ranks;
    *begin = each * (size_t)q < h->count ? each * (size_t)q : h->count;
    return h->count - *begin < each ? h->count - *begin : each;
}

static char *scratch(Peer *peer, size_t bytes) {
    if (bytes > peer->scratch_bytes) {
        free(peer->scratch);
        peer->scratch = malloc(peer->scratch_bytes = bytes);
        if (!peer->scratch) abort();
    }
    return peer->scratch;
}

static void prepare_peer(NcclComm *comm, const Operation *op, int q) {
    const Header *h = &op->header;
    Peer *peer = &comm->peers[q];
    size_t element = element_bytes(h->type), bytes = h->count * element, theirs, mine;
    size_t of_theirs = element * part(h, comm->ranks, q, &theirs);
    size_t of_mine = element * part(h, comm->ranks, comm->rank, &mine);
    bool sends = true, receives = true;
    peer->send = op->from;
    peer->to_send = peer->to_receive = bytes;
    switch (h->kind) {
    case BROADCAST:
        sends = (uint32_t)comm->rank == h->root;
        receives = (uint32_t)q == h->root;
        peer->receive = op->to;
        break;
    case ALL_GATHER:
        peer->receive = op->to + (size_t)q * bytes;
        break;
    case REDUCE_SCATTER:
        peer->send = op->from + (size_t)q * bytes;
        peer->receive = scratch(peer, bytes);
        break;
    case ALL_REDUCE:
        peer->send = comm->stage ? op->to + mine * element : op->from + theirs * element;
        peer->to_send = comm->stage ? of_mine : of_theirs;
        peer->to_receive = comm->stage ? of_theirs : of_mine;
        peer->receive = comm->stage ? op->to + theirs * element : scratch(peer, of_mine);
        break;
    }
    if (!sends) peer->to_send = 0;
    if (!receives) peer->to_receive = 0;
}

static void start_stage(NcclComm *comm, const Operation *op) {
    const Header *h = &op->header;
    size_t bytes = h->count * element_bytes(h->type);
    bool gathers = h->kind == ALL_GATHER, is_root = h->kind == BROADCAST && h->root == (uint32_t)comm->rank;
    for (int q = 0; q < comm->ranks; q++)
        if (q != comm->rank) prepare_peer(comm, op, q);
    if (gathers || is_root) memmove(op->to + (gathers ? (size_t)comm->rank * bytes : 0), op->from, bytes);
}

/* Reduces what has come to the part that this rank owns. */
static void reduce_own(const NcclComm *comm, const Operation *op) {
    const Header *h = &op->header;
    size_t element = element_bytes(h->type), begin = h->count * (size_t)comm->rank, n = h->count;
    const void *parts[MOST_RANKS];
    if (h->kind == ALL_REDUCE) n = part(h, comm->ranks, comm->rank, &begin);
    for (int q = 0; q < comm->ranks; q++)
        parts[q] = q == comm->rank ? op->from + begin * element : comm->peers[q].scratch;
    reduce(op->to + (h->kind == ALL_REDUCE ? begin * element : 0), parts, comm->ranks, comm->rank, n, h->type,
           h->reduction);
}

/* Moves what the connections take. Returns whether the stage is complete. */
static bool move_data(NcclComm *comm) {
    bool complete = true;
    for (int q = 0; q < comm->ranks; q++) {
        Peer *peer = &comm->peers[q];
        if (peer->data < 0) continue;
        ssize_t n = 0, m = 0;
        if (peer->to_send) n = send(peer->data, peer->send, peer->to_send, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (peer->to_receive) m = recv(peer->data, peer->receive, peer->to_receive, MSG_DONTWAIT);
        if (n > 0) peer->send += n, peer->to_send -= (size_t)n;
        if (m > 0) peer->receive += m, peer->to_receive -= (size_t)m;
        complete &= !peer->to_send && !peer->to_receive;
    }
    return complete;
}

/* Returns the seconds before which an operation may not end: what NCCL's ring sends at the rate that is set. */
static double least_seconds(const NcclComm *comm, const Header *h) {
    const char *rate = getenv("STAND_IN_NCCL_GBPS");
    double bytes = (double)h->count * (double)element_bytes(h->type), others = comm->ranks - 1;
    if (!rate || !(atof(rate) > 0)) return 0;
    if (h->kind == ALL_REDUCE) bytes *= 2 * others / comm->ranks;
    if (h->kind == REDUCE_SCATTER || h->kind == ALL_GATHER) bytes *= others;
    return bytes / (1e9 * atof(rate));
}

/* ---- operations ---- */

static void begin(NcclComm *comm, Operation *op) {
    Message message = {.what = BEGINS};
    char text[TEXT_BYTES / 4];
    uint64_t number = op->header.number;
    message.header = op->header;
    describe(&op->header, text);
    append_to_log("operation rank=%d number=%llu %s\n", comm->rank, (unsigned long long)number, text);
    comm->stage = -1;
    for (int q = 0; q < comm->ranks; q++) comm->peers[q].agrees = q == comm->rank;
    comm->hangs = setting_names("STAND_IN_NCCL_HANG_AT", comm, &op->header);
    if (setting_names("STAND_IN_NCCL_ERROR_AT", comm, &op->header))
        fail(comm, SYSTEM_ERROR, "rank %d, operation %llu: STAND_IN_NCCL_ERROR_AT", comm->rank,
             (unsigned long long)number);
    else if (!comm->hangs)
        send_to_all(comm, &message);
}

/* Compares the running operation with those that others have begun. Returns whether all have, and agree. */
static bool all_agree(NcclComm *comm, const Operation *op) {
    bool all = true;
    for (int q = 0; q < comm->ranks; q++) {
        Peer *peer = &comm->peers[q];
        if (!peer->agrees && peer->n_begun) {
            char mine[TEXT_BYTES / 4], theirs[TEXT_BYTES / 4];
            describe(&op->header, mine);
            describe(&peer->begun[0], theirs);
            peer->agrees = !memcmp(&op->header, &peer->begun[0], sizeof op->header);
            bool first = comm->rank < q;
            if (!peer->agrees)
                fail(comm, INVALID_USAGE, "operation %llu is %s on rank %d, and %s on rank %d",
                     (unsigned long long)op->header.number, first ? mine : theirs, first ? comm->rank : q,
                     first ? theirs : mine, first ? q : comm->rank);
            memmove(peer->begun, peer->begun + 1, sizeof peer->begun - sizeof peer->begun[0]);
            peer->n_begun--;
        } else if (!peer->agrees && peer->left) {
            fail(comm, COLL_REMOTE_ERROR, "rank %d has left the communicator; rank %d waits for it in operation %llu",
                 q, comm->rank, (unsigned long long)op->header.number);
        }
        all &= peer->agrees;
    }
    return all;
}

static void end(NcclComm *comm, Operation *op) {
    pthread_mutex_lock(&comm->lock);
    op->state = ENDED;
    comm->running = NULL;
    pthread_mutex_unlock(&comm->lock);
}

/* Takes the running operation further. Returns the milliseconds after which it must be called again at the latest. */
static int run(NcclComm *comm) {
    pthread_mutex_lock(&comm->lock);
    Operation *op = comm->running;
    bool is_new = comm->posted;
    comm->posted = false;
    pthread_mutex_unlock(&comm->lock);
    if (!op) return 100;
    if (is_new) begin(comm, op);
    if (comm->hangs || has_failed(comm)) return 100;
    if (comm->stage < 0) {
        if (!all_agree(comm, op) || has_failed(comm)) return 100;
        comm->stage = 0;
        comm->begin = seconds_now();
        start_stage(comm, op);
    }
    if (!move_data(comm)) return 100;
    if (comm->stage == 0 && (op->header.kind == REDUCE_SCATTER || op->header.kind == ALL_REDUCE)) {
        reduce_own(comm, op);
        comm->stage = 1;
        if (op->header.kind == ALL_REDUCE) start_stage(comm, op);
        return 0;
    }
    double left = comm->begin + least_seconds(comm, &op->header) - seconds_now();
    if (left > 0) return left < 0.1 ? 1 + (int)(1e3 * left) : 100;
    end(comm, op);
    return 100;
}

/* ---- the end ---- */

static void leave(NcclComm *comm) {
    const Message message = {.what = LEAVES};
    pthread_mutex_lock(&comm->lock);
    bool leaves = comm->phase == FINALIZING && !comm->pending && !comm->running && !comm->deferred, all_left = true;
    pthread_mutex_unlock(&comm->lock);
    if (!leaves || has_failed(comm)) return;
    if (!comm->said_goodbye) send_to_all(comm, &message);
    comm->said_goodbye = true;
    for (int q = 0; q < comm->ranks; q++) all_left &= q == comm->rank || comm->peers[q].left;
    if (!all_left) return;
    pthread_mutex_lock(&comm->lock);
    comm->phase = FINALIZED;
    comm->status = COLL_SUCCESS;
    pthread_mutex_unlock(&comm->lock);
}

/* Waits until a connection or another thread has something. */
static void wait_for_events(NcclComm *comm, int milliseconds) {
    struct pollfd wanted[1 + 2 * MOST_RANKS];
    uint64_t count;
    nfds_t n = 0;
    bool moves = comm->running && comm->stage >= 0 && !has_failed(comm);
    wanted[n++] = (struct pollfd){.fd = comm->wake, .events = POLLIN};
    for (int q = 0; q < comm->ranks; q++) {
        const Peer *peer = &comm->peers[q];
        short data = (short)((peer->to_receive ? POLLIN : 0) | (peer->to_send ? POLLOUT : 0));
        if (peer->control >= 0) wanted[n++] = (struct pollfd){.fd = peer->control, .events = POLLIN};
        if (moves && data && peer->control >= 0) wanted[n++] = (struct pollfd){.fd = peer->data, .events = data};
    }
    poll(wanted, n, milliseconds);
    if (wanted[0].revents && read(comm->wake, &count, sizeof count) < 0) return;
}

void *progress(void *argument) {
    NcclComm *comm = argument;
    char text[TEXT_BYTES] = "";
    const char *algorithm = getenv("NCCL_ALGO"), *protocol = getenv("NCCL_PROTO");
    unsigned status = meet(comm, text);
    if (comm->stop) return NULL;
    if (status) {
        take_failure(comm, status, text);
        return NULL;
    }
    append_to_log("ready rank=%d ranks=%d NCCL_ALGO=%s NCCL_PROTO=%s\n", comm->rank, comm->ranks,
                  algorithm ? algorithm : "", protocol ? protocol : "");
    pthread_mutex_lock(&comm->lock);
    comm->ready = true;
    comm->status = COLL_SUCCESS;
    pthread_mutex_unlock(&comm->lock);
    while (!comm->stop) {
        for (int q = 0; q < comm->ranks; q++) read_messages(comm, q);
        int milliseconds = run(comm);
        leave(comm);
        wait_for_events(comm, milliseconds);
    }
    return NULL;
}
