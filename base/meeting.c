#include "base/meeting.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/meeting/gather.h"
#include "base/meeting/go.h"

/* The types of frames between ranks that have met. */
enum {
    FACTS = 'f',
    SIZE = 's',
    GATHER = 'g',
    PART = 'p',
    THANKS = 't',
    VERDICT = 'v',
    LOSS = 'L',
    LAST_WORDS = 'W',
    GOODBYE = 'G'
};
/* A rank sends no second frame of what is taken in turn before it got an answer to the first. */
enum { MOST_WAITING = 4 };

typedef struct {
    char type;
    size_t size;
    uint8_t *bytes;
} Letter;

/* Another rank. */
typedef struct {
    Member is;
    double heard; /* when, by seconds_now */
    bool goodbye; /* said so: no loss if it ends */
    Letter letters[MOST_WAITING];
    int n_letters;
} Peer;

struct Meeting {
    int rank, size;
    double silence;
    Peer *peers; /* by rank; that of this one, and on ranks other than 0 all but rank 0, have no wire */
    pthread_t thread;
    pthread_mutex_t lock; /* of all that follows, and of peers */
    pthread_cond_t news;
    int wake; /* tells the thread that there is something to send */
    bool stops;
    void (*_Atomic watch)(const char *why); /* see meeting_watch */
    atomic_bool is_lost;                    /* after which `lost` stays as it is */
    Error lost;
};

static bool connected(const Peer *peer) { return peer->is.wire.file >= 0; }

static const char *peer_name(const Meeting *m, int rank, char text[RANK_NAME]) {
    const Hello *h = &m->peers[rank].is.hello;
    return hello_name(rank, h->host, h->process, text);
}

/* ---- the thread ---- */

/* Notes why the job cannot go on, and tells all but the one that said so. Only the first reason counts. */
static void lose(Meeting *m, int from, const char *text, size_t size) {
    if (m->is_lost) return;
    error_set(&m->lost, "%.*s", (int)size, text);
    m->is_lost = true;
    for (int r = 0; r < m->size; r++)
        if (r != from && connected(&m->peers[r]))
            wire_put(&m->peers[r].is.wire, LOSS, m->lost.text, strlen(m->lost.text));
    pthread_cond_broadcast(&m->news);
}

static void lose_peer(Meeting *m, int rank, const char *how) {
    char name[RANK_NAME];
    OWNED char *text = xformat("%s %s", peer_name(m, rank, name), how);
    lose(m, -1, text, strlen(text));
}

/* Ends the connection with a rank that is gone, or sends what it should not. */
static void part_from(Meeting *m, int rank, const char *how) {
    Peer *peer = &m->peers[rank];
    wire_close(&peer->is.wire);
    if (!peer->goodbye) lose_peer(m, rank, how);
    pthread_cond_broadcast(&m->news);
}

/* Keeps what the program will ask for. Returns false if there is too much of it. */
static bool keep_letter(Meeting *m, Peer *peer, const Frame *frame) {
    if (peer->n_letters == MOST_WAITING) return false;
    Letter *letter = &peer->letters[peer->n_letters++];
    *letter = (Letter){frame->type, frame->size, xmalloc(frame->size + 1)};
    memcpy(letter->bytes, frame->bytes, frame->size);
    letter->bytes[frame->size] = 0;
    pthread_cond_broadcast(&m->news);
    return true;
}

/* Answers a frame. Returns false if it has no place here. */
static bool hear_frame(Meeting *m, int rank, const Frame *frame) {
    Peer *peer = &m->peers[rank];
    const char *text = (const char *)frame->bytes;
    switch (frame->type) {
    case FRAME_ALIVE:
        return true;
    case FACTS:
    case SIZE:
    case GATHER:
    case PART:
    case THANKS:
    case VERDICT:
        return keep_letter(m, peer, frame);
    case LOSS:
        lose(m, rank, text, frame->size < sizeof m->lost.text ? frame->size : sizeof m->lost.text);
        return true;
    case LAST_WORDS: {
        OWNED char *how = xformat("has ended: %.*s", (int)(frame->size < 400 ? frame->size : 400), text);
        lose_peer(m, rank, how);
        peer->goodbye = true;
        return true;
    }
    case GOODBYE:
        peer->goodbye = true;
        pthread_cond_broadcast(&m->news);
        return true;
    default:
        return false;
    }
}

/* Hears all that a rank has sent. */
static void hear(Meeting *m, int rank, double now) {
    Peer *peer = &m->peers[rank];
    Wire *wire = &peer->is.wire;
    Frame frame;
    size_t before = wire->in.n;
    bool open = wire_receive(wire);
    int found;
    if (wire->in.n > before) peer->heard = now;
    while ((found = wire_next(wire, FRAME_MOST, &frame)) > 0) {
        if (!hear_frame(m, rank, &frame)) found = -1;
        if (found < 0) break;
        wire_drop(wire, &frame);
    }
    if (found < 0)
        part_from(m, rank, "sends what it should not");
    else if (!open)
        part_from(m, rank, "has ended without a word");
}

static void send_waiting(Meeting *m, bool alive) {
    for (int r = 0; r < m->size; r++) {
        Peer *peer = &m->peers[r];
        if (!connected(peer)) continue;
        if (alive && !peer->is.wire.out.n) wire_put(&peer->is.wire, FRAME_ALIVE, NULL, 0);
        if (!wire_send(&peer->is.wire)) hear(m, r, seconds_now()); /* its last words may be there */
        if (connected(peer) && !wire_send(&peer->is.wire)) part_from(m, r, "has ended without a word");
    }
}

static void note_silence(Meeting *m, double now) {
    for (int r = 0; r < m->size; r++) {
        const Peer *peer = &m->peers[r];
        if (!connected(peer) || peer->goodbye || now - peer->heard <= m->silence) continue;
        OWNED char *how = xformat("has not answered for %g s", m->silence);
        lose_peer(m, r, how);
    }
}

/* Waits for events until a time, without the lock. */
static void wait_for_events(Meeting *m, struct pollfd *events, double until) {
    for (int r = 0; r < m->size; r++) {
        const Wire *wire = &m->peers[r].is.wire;
        events[r] = (struct pollfd){wire->file, (short)(POLLIN | (wire->out.n ? POLLOUT : 0)), 0};
    }
    events[m->size] = (struct pollfd){m->wake, POLLIN, 0};
    double left = until - seconds_now();
    pthread_mutex_unlock(&m->lock);
    poll(events, (nfds_t)m->size + 1, left > 0 ? (int)(1e3 * left) + 1 : 0);
    pthread_mutex_lock(&m->lock);
    if (events[m->size].revents) {
        uint64_t count;
        ssize_t unused = read(m->wake, &count, sizeof count);
        (void)unused;
    }
}

static void tell_watch(Meeting *m) {
    void (*watch)(const char *why) = m->watch;
    pthread_mutex_unlock(&m->lock);
    watch(m->lost.text);
    pthread_mutex_lock(&m->lock);
}

/* Keeps up the connections, so that a rank which computes for long is not silent. */
static void *attend(void *meeting) {
    Meeting *m = meeting;
    const double every = alive_every(m->silence);
    double due = 0, last = seconds_now();
    OWNED struct pollfd *events = xcalloc((size_t)m->size + 1, sizeof *events);
    pthread_mutex_lock(&m->lock);
    for (int r = 0; r < m->size; r++) m->peers[r].heard = last;
    while (!m->stops) {
        wait_for_events(m, events, due);
        /* The time is taken before the others are heard: if this process is stopped in between, none is late. */
        double now = seconds_now();
        for (int r = 0; r < m->size; r++) {
            if (now - last > m->silence / 2) m->peers[r].heard = now; /* it was stopped: nothing is known of them */
            if (connected(&m->peers[r])) hear(m, r, now);
        }
        last = now;
        note_silence(m, now);
        send_waiting(m, now >= due);
        if (now >= due) due = now + every;
        if (m->is_lost && m->watch) tell_watch(m);
    }
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

/* ---- opening and closing ---- */

static void wake(const Meeting *m) {
    const uint64_t one = 1;
    ssize_t unused = write(m->wake, &one, sizeof one);
    (void)unused;
}

/* Starts the thread, with all signals blocked: they are another's (base/stop.h). */
static void start(Meeting *m) {
    sigset_t all, before;
    m->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (m->wake < 0) die("cannot open an eventfd: %s", strerror(errno));
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_start(&m->thread, attend, m, "for the connections with other ranks");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void release(Meeting *m) {
    for (int r = 0; r < m->size; r++) {
        Peer *peer = &m->peers[r];
        wire_close(&peer->is.wire);
        while (peer->n_letters) free(peer->letters[--peer->n_letters].bytes);
    }
    pthread_mutex_destroy(&m->lock);
    pthread_cond_destroy(&m->news);
    FREE(m->peers, m);
}

Meeting *meeting_open(const Launch *launch, const MeetingLimits *limits, Error *error) {
    const MeetingLimits usual = {.patience = 120, .silence = 20};
    const Hello own = hello_own(launch);
    Error why = {""};
    if (!limits) limits = &usual;
    Meeting *m = xcalloc(1, sizeof *m);
    m->rank = launch->rank;
    m->size = launch->size;
    m->silence = limits->silence;
    m->peers = xcalloc((size_t)m->size, sizeof *m->peers);
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->news, NULL);
    OWNED Member *members = xcalloc((size_t)m->size, sizeof *members);
    for (int r = 0; r < m->size; r++) members[r] = (Member){.wire = {.file = -1}, .hello = own};
    bool met = m->size == 1 || (m->rank ? go_to_rank_0(launch, &own, limits->patience, limits->silence, members, &why)
                                        : gather(launch, &own, limits->patience, limits->silence, members, &why));
    for (int r = 0; r < m->size; r++) m->peers[r].is = members[r];
    if (met) {
        if (m->size > 1) start(m);
        return m;
    }
    error_set(error, "%s", why.text);
    release(m);
    return NULL;
}

/* Returns whether a rank has said goodbye or is gone. */
static bool has_left(const Peer *peer) { return peer->goodbye || !connected(peer); }

static bool all_left(const Meeting *m) {
    for (int r = 0; r < m->size; r++)
        if (!has_left(&m->peers[r])) return false;
    return true;
}

/* Sends a frame to all that are connected: to rank 0, or from there. */
static void send_all(Meeting *m, char type, const void *bytes, size_t size) {
    for (int r = 0; r < m->size; r++)
        if (connected(&m->peers[r])) wire_put(&m->peers[r].is.wire, type, bytes, size);
    wake(m);
}

/* Sends what is left when the thread has ended. Rank 0 then waits for the others to close first: if it did, what they
 * have not read yet could be lost. */
static void finish(Meeting *m) {
    double until = seconds_now() + 2;
    Frame frame;
    for (int r = 0; r < m->size; r++)
        if (connected(&m->peers[r])) wire_flush(&m->peers[r].is.wire, until);
    for (int r = 0; r < m->size && !m->rank; r++) {
        Wire *wire = &m->peers[r].is.wire;
        while (connected(&m->peers[r]) && wire_wait(wire, FRAME_MOST, &frame, until) > 0) wire_drop(wire, &frame);
    }
}

void meeting_close(Meeting *m) {
    if (!m) return;
    if (m->size > 1) {
        pthread_mutex_lock(&m->lock);
        if (m->rank) send_all(m, GOODBYE, NULL, 0);
        while (!m->is_lost && !all_left(m)) pthread_cond_wait(&m->news, &m->lock);
        if (!m->rank) send_all(m, GOODBYE, NULL, 0);
        m->stops = true;
        pthread_mutex_unlock(&m->lock);
        wake(m);
        pthread_join(m->thread, NULL);
        finish(m);
        close(m->wake);
    }
    release(m);
}

void meeting_wait_for_first(Meeting *m) {
    if (!m->rank) return;
    pthread_mutex_lock(&m->lock);
    const Peer *first = &m->peers[0];
    while (connected(first) && !has_left(first) && seconds_now() - first->heard < m->silence) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
        pthread_cond_timedwait(&m->news, &m->lock, &until);
    }
    pthread_mutex_unlock(&m->lock);
}

void meeting_watch(Meeting *m, void (*lost)(const char *why)) {
    m->watch = lost;
    if (m->size > 1) wake(m);
}

const char *meeting_lost(const Meeting *m) { return m->is_lost ? m->lost.text : NULL; }

const char *meeting_host(const Meeting *m, int rank) { return m->peers[rank].is.hello.host; }

void meeting_last_words(Meeting *m, const char *why) {
    if (!m || m->size == 1) return;
    double until = seconds_now() + 1;
    while (pthread_mutex_trylock(&m->lock)) { /* this thread may hold it, and die of what it does */
        if (seconds_now() > until) return;
        usleep(1000);
    }
    until = seconds_now() + 1;
    for (int r = 0; r < m->size; r++)
        if (connected(&m->peers[r])) wire_send_last(&m->peers[r].is.wire, LAST_WORDS, why, strlen(why), until);
    pthread_mutex_unlock(&m->lock);
}

/* ---- what all do together ---- */

static bool say_lost(const Meeting *m, Error *error) { return error_set(error, "%s", m->lost.text); }

/* Ends the job because ranks do different things, which no rank may go on from. */
static bool out_of_step(Meeting *m, int rank, Error *error) {
    lose_peer(m, rank,
              m->peers[rank].goodbye ? "has left the others, which work on" : "does something else than the others");
    wake(m);
    return say_lost(m, error);
}

/* Waits for the next letter of a rank, which must be of this type; free(letter->bytes). */
static bool take_letter(Meeting *m, int rank, char type, Letter *letter, Error *error) {
    Peer *peer = &m->peers[rank];
    pthread_mutex_lock(&m->lock);
    while (!m->is_lost && !peer->n_letters && !has_left(peer)) pthread_cond_wait(&m->news, &m->lock);
    bool taken = peer->n_letters && peer->letters[0].type == type;
    if (taken) {
        *letter = peer->letters[0];
        memmove(peer->letters, peer->letters + 1, (size_t)--peer->n_letters * sizeof *letter);
    } else if (m->is_lost)
        say_lost(m, error);
    else
        out_of_step(m, rank, error);
    pthread_mutex_unlock(&m->lock);
    return taken;
}

static void post(Meeting *m, char type, const void *bytes, size_t size) {
    pthread_mutex_lock(&m->lock);
    send_all(m, type, bytes, size);
    pthread_mutex_unlock(&m->lock);
}

/* Returns what rank 0 finds about a letter of another; NULL: all is well. free() */
typedef char *Judge(const Meeting *meeting, int rank, const Letter *theirs, const Letter *own);

/* Sends a letter to rank 0, which judges it. Returns false, on all ranks with the same text, if it finds something. */
static bool agree(Meeting *m, char type, const void *bytes, size_t size, Judge *judge, Error *error) {
    const Letter own = {type, size, (uint8_t *)bytes};
    OWNED char *verdict = NULL;
    if (m->size == 1) return true;
    if (m->rank) {
        Letter answer;
        post(m, type, bytes, size);
        if (!take_letter(m, 0, VERDICT, &answer, error)) return false;
        verdict = (char *)answer.bytes;
        return !answer.size || error_set(error, "%s", verdict);
    }
    for (int r = 1; r < m->size; r++) {
        Letter letter;
        if (!take_letter(m, r, type, &letter, error)) return false;
        if (!verdict && judge) verdict = judge(m, r, &letter, &own);
        free(letter.bytes);
    }
    Error text = {""};
    if (verdict) error_set(&text, "%s", verdict);
    post(m, VERDICT, text.text, strlen(text.text));
    return !verdict || error_set(error, "%s", text.text);
}

/* Returns a copy of the line that begins here, without its end; free(). */
static char *copy_line(const char *at) { return xformat("%.*s", (int)strcspn(at, "\n"), at); }

static char *judge_facts(const Meeting *m, int rank, const Letter *theirs, const Letter *own) {
    const char *a = (const char *)own->bytes, *b = (const char *)theirs->bytes;
    char name[RANK_NAME];
    peer_name(m, rank, name);
    while (*a || *b) {
        size_t n = strcspn(a, "\n"), o = strcspn(b, "\n");
        if (n != o || memcmp(a, b, n) != 0) {
            OWNED char *ours = copy_line(a), *other = copy_line(b);
            size_t fact = strcspn(ours, "\t");
            if (strcspn(other, "\t") != fact || memcmp(ours, other, fact) != 0 || !ours[fact] || !other[fact])
                return xformat("%s states the fact \"%.*s\" where rank 0 (host %s) states \"%.*s\"", name,
                               (int)strcspn(other, "\t"), other, m->peers[0].is.hello.host, (int)fact, ours);
            return xformat("%s has %.*s %s, but rank 0 (host %s) has %s", name, (int)fact, ours, other + fact + 1,
                           m->peers[0].is.hello.host, ours + fact + 1);
        }
        a += n + (a[n] == '\n');
        b += o + (b[o] == '\n');
    }
    return NULL;
}

bool meeting_compare(Meeting *m, const char *facts, Error *error) {
    size_t size = strlen(facts);
    if (size > FRAME_MOST)
        return error_set(error, "the facts to compare have %zu bytes: more than %d", size, FRAME_MOST);
    return agree(m, FACTS, facts, size, judge_facts, error);
}

static char *judge_size(const Meeting *m, int rank, const Letter *theirs, const Letter *own) {
    char name[RANK_NAME];
    if (!strcmp((const char *)theirs->bytes, (const char *)own->bytes)) return NULL;
    return xformat("%s expects %s bytes from rank 0, which has %s", peer_name(m, rank, name), theirs->bytes,
                   own->bytes);
}

bool meeting_share(Meeting *m, void *data, size_t bytes, Error *error) {
    char text[24];
    snprintf(text, sizeof text, "%zu", bytes);
    if (!agree(m, SIZE, text, strlen(text), judge_size, error)) return false;
    uint8_t *at = data;
    for (size_t done = 0, n; done < bytes && m->size > 1; done += n) {
        n = bytes - done < FRAME_MOST ? bytes - done : FRAME_MOST;
        if (m->rank) {
            Letter part;
            if (!take_letter(m, 0, PART, &part, error)) return false;
            if (part.size == n) memcpy(at + done, part.bytes, n);
            free(part.bytes);
            if (part.size != n) return error_set(error, "rank 0 sends %zu bytes instead of %zu", part.size, n);
        } else
            post(m, PART, at + done, n);
        if (!agree(m, THANKS, NULL, 0, NULL, error)) return false;
    }
    return true;
}

static char *judge_gathered(const Meeting *m, int rank, const Letter *theirs, const Letter *own) {
    char name[RANK_NAME];
    if (!strcmp((const char *)theirs->bytes, (const char *)own->bytes)) return NULL;
    return xformat("%s gives %s bytes, but rank 0 gives %s", peer_name(m, rank, name), theirs->bytes, own->bytes);
}

bool meeting_gather(Meeting *m, const void *mine, size_t bytes, void *all, Error *error) {
    uint8_t *at = all;
    char text[24];
    if (bytes > FRAME_MOST)
        return error_set(error, "the bytes to gather of each rank are %zu: more than %d", bytes, FRAME_MOST);
    snprintf(text, sizeof text, "%zu", bytes);
    if (!agree(m, GATHER, text, strlen(text), judge_gathered, error)) return false;
    if (bytes) memcpy(at + (size_t)m->rank * bytes, mine, bytes);
    if (m->rank) post(m, PART, mine, bytes);
    for (int r = 1; r < m->size && !m->rank; r++) {
        Letter part;
        if (!take_letter(m, r, PART, &part, error)) return false;
        if (part.size == bytes && bytes) memcpy(at + (size_t)r * bytes, part.bytes, bytes);
        free(part.bytes);
        if (part.size != bytes) return error_set(error, "rank %d sends %zu bytes instead of %zu", r, part.size, bytes);
    }
    return meeting_share(m, all, (size_t)m->size * bytes, error);
}
