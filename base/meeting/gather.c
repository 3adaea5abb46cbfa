#include "base/meeting/gather.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/meeting/place.h"

enum { MOST_GUESTS = 64 };
static const double guest_patience = 5; /* seconds to say hello */
static const double linger = 3;         /* seconds in which those that come too late hear why there is no meeting */

/* A process that has connected. It counts for nothing before it has proved to be a rank of this job. */
typedef struct {
    Wire wire;
    Talk talk;
    Hello hello;
    bool greeted, proved;
    double until;
} Guest;

typedef struct {
    Hello own;
    int listener;
    char place[WIRE_NAME];
    Member *members;
    int n_come, n_sent_away; /* rank 0 is among the first */
    Guest *guests;
    int n_guests;
    char refused[256]; /* the last that was: "; rank 1 (...) was refused: ..." */
    bool failed;
    Error *error;
} Gathering;

/* Sends the answer to a guest that goes: it must look elsewhere, or give up. */
static bool refuse(Guest *guest, char how, const char *why) {
    char text[HELLO_MOST];
    int n = snprintf(text, sizeof text, "%c%s", how, why);
    wire_put(&guest->wire, 'R', text, (size_t)n);
    wire_flush(&guest->wire, seconds_now());
    return false;
}

static bool refuse_secret(Gathering *g, Guest *guest, const char *why) {
    char name[RANK_NAME];
    const Hello *h = &guest->hello;
    snprintf(g->refused, sizeof g->refused, "; %s was refused: %s", hello_name(h->rank, h->host, h->process, name),
             why);
    return refuse(guest, 'x', why);
}

/* Answers a hello. Returns false if the guest must go. */
static bool answer_hello(Gathering *g, Guest *guest, const Frame *frame) {
    const Hello *h = &guest->hello;
    uint8_t challenge[HELLO_MOST];
    if (!hello_read(frame->bytes, frame->size, &guest->hello)) return false;
    if (strcmp(h->job, g->own.job) != 0 || h->port != g->own.port) return refuse(guest, 'j', "another job waits here");
    if (h->has_secret != g->own.has_secret)
        return refuse_secret(g, guest,
                             h->has_secret ? "it has a TRAINC_JOB_SECRET, and rank 0 has none"
                                           : "it has no TRAINC_JOB_SECRET, and rank 0 has one");
    size_t n = hello_write(&g->own, challenge);
    if (!talk_keep(guest->talk.greeting, &guest->talk.greeting_size, frame->bytes, frame->size) ||
        !talk_keep(guest->talk.challenge, &guest->talk.challenge_size, challenge, n))
        return false;
    wire_put(&guest->wire, 'C', challenge, n);
    guest->greeted = true;
    return wire_send(&guest->wire);
}

/* Ends the gathering, because a rank cannot belong to it. */
static bool fail(Gathering *g) {
    g->failed = true;
    g->n_sent_away++;
    return false;
}

/* Compares a rank that has come with rank 0. */
static bool belongs(Gathering *g, const Hello *h) {
    char name[RANK_NAME], other[RANK_NAME];
    hello_name(h->rank, h->host, h->process, name);
    if (strcmp(h->program, g->own.program) != 0)
        return error_set(g->error, "%s runs %s, but rank 0 runs %s", name, h->program, g->own.program);
    if (strcmp(h->revision, g->own.revision) != 0)
        return error_set(g->error, "%s is of revision %s, but rank 0 of %s: start the same build on all machines", name,
                         h->revision, g->own.revision);
    if (h->size != g->own.size || h->rank < 1 || h->rank >= h->size)
        return error_set(g->error, "%s was told of %d ranks, but rank 0 of %d", name, h->size, g->own.size);
    const Member *before = &g->members[h->rank];
    if (before->wire.file >= 0)
        return error_set(g->error, "two processes came as %s and %s: do two jobs meet at %s?", name,
                         hello_name(h->rank, before->hello.host, before->hello.process, other), g->place);
    return true;
}

/* Checks a proof, and makes the guest a member. Returns false if it must go. */
static bool answer_proof(Gathering *g, Guest *guest, const Frame *frame) {
    const Hello *h = &guest->hello;
    uint8_t proof[SHA1_SIZE];
    if (!talk_is_proof(&guest->talk, false, frame->bytes, frame->size))
        return refuse_secret(g, guest, "its TRAINC_JOB_SECRET is not that of rank 0");
    guest->proved = true;
    if (g->failed || !belongs(g, h)) return fail(g);
    wire_drop(&guest->wire, frame);
    talk_prove(&guest->talk, true, proof);
    wire_put(&guest->wire, 'A', proof, sizeof proof);
    if (!wire_send(&guest->wire)) return false;
    g->members[h->rank] = (Member){guest->wire, guest->hello};
    guest->wire = (Wire){.file = -1};
    g->n_come++;
    return false;
}

/* Hears a guest. Returns false if it goes, as a member or away. */
static bool hear_guest(Gathering *g, Guest *guest) {
    Frame frame;
    bool open = wire_receive(&guest->wire);
    int found = wire_next(&guest->wire, HELLO_MOST, &frame);
    if (!found) return open;
    if (found > 0 && frame.type == 'P' && guest->greeted) return answer_proof(g, guest, &frame);
    if (found < 0 || frame.type != 'H' || guest->greeted || !answer_hello(g, guest, &frame)) return false;
    wire_drop(&guest->wire, &frame);
    return true;
}

/* Hears those that something has come from; the events stand in the order of the guests. */
static void hear_guests(Gathering *g, const struct pollfd *events) {
    int kept = 0, n = g->n_guests;
    for (int i = 0; i < n; i++) {
        Guest *guest = &g->guests[i];
        bool stays = (!events[i].revents || hear_guest(g, guest)) && seconds_now() < guest->until;
        if (!stays && guest->proved && g->failed) { /* all that belong to the job hear why */
            wire_put(&guest->wire, FRAME_FAIL, g->error->text, strlen(g->error->text));
            wire_flush(&guest->wire, seconds_now() + 1);
        }
        if (!stays)
            wire_close(&guest->wire);
        else if (kept++ != i)
            g->guests[kept - 1] = *guest;
    }
    g->n_guests = kept;
}

static void let_in(Gathering *g) {
    while (g->n_guests < MOST_GUESTS) {
        int file = wire_accept(g->listener);
        if (file < 0) return;
        g->guests[g->n_guests++] = (Guest){.wire = {.file = file}, .until = seconds_now() + guest_patience};
    }
}

/* Hears members: while they wait they say nothing, so that only their end is news. */
static void hear_member(Gathering *g, int rank) {
    Member *m = &g->members[rank];
    char name[RANK_NAME];
    if (m->wire.file < 0 || (wire_receive(&m->wire) && m->wire.in.n <= FRAME_MOST)) return;
    hello_name(rank, m->hello.host, m->hello.process, name);
    if (!g->failed) error_set(g->error, "%s has ended without a word", name);
    wire_close(&m->wire);
    g->failed = true;
}

static void send_alive(Gathering *g) {
    for (int r = 1; r < g->own.size; r++) {
        Wire *wire = &g->members[r].wire;
        if (wire->file < 0) continue;
        if (!wire->out.n) wire_put(wire, FRAME_ALIVE, NULL, 0);
        wire_send(wire);
    }
}

/* Waits for at most this long, and hears what comes. */
static void step(Gathering *g, double seconds) {
    int size = g->own.size, guests = g->n_guests, n = 0;
    OWNED struct pollfd *events = xcalloc((size_t)(MOST_GUESTS + size + 1), sizeof *events);
    for (; n < guests; n++) events[n] = (struct pollfd){g->guests[n].wire.file, POLLIN, 0};
    for (int r = 1; r < size; r++, n++) events[n] = (struct pollfd){g->members[r].wire.file, POLLIN, 0};
    events[n++] = (struct pollfd){guests < MOST_GUESTS ? g->listener : -1, POLLIN, 0};
    if (poll(events, (nfds_t)n, (int)(1e3 * seconds) + 1) < 0) return;
    for (int r = 1; r < size; r++)
        if (events[guests + r - 1].revents) hear_member(g, r);
    hear_guests(g, events);
    if (events[n - 1].revents) let_in(g);
}

/* Writes "ranks 1, 2, 3 and 12 more". */
static void say_missing(const Gathering *g, double patience) {
    OWNED char *list = xstrdup("");
    int n = 0, missing = g->own.size - g->n_come;
    for (int r = 1; r < g->own.size; r++)
        if (g->members[r].wire.file < 0 && n++ < 8) xappend(&list, "%s%d", n > 1 ? ", " : "", r);
    if (missing > 8) xappend(&list, " and %d more", missing - 8);
    error_set(g->error, "rank%s %s %s not come to rank 0 (host %s, %s) within %g s%s", missing > 1 ? "s" : "", list,
              missing > 1 ? "have" : "has", g->own.host, g->place, patience, g->refused);
}

/* Sends the same to all that came. */
static void tell_members(Gathering *g, char type, const char *text, size_t size) {
    double until = seconds_now() + 2;
    for (int r = 1; r < g->own.size; r++)
        if (g->members[r].wire.file >= 0) wire_put(&g->members[r].wire, type, text, size);
    for (int r = 1; r < g->own.size; r++)
        if (g->members[r].wire.file >= 0) wire_flush(&g->members[r].wire, until);
}

/* Tells all that came why there is no meeting. */
static void send_away(Gathering *g) {
    tell_members(g, FRAME_FAIL, g->error->text, strlen(g->error->text));
    for (int r = 1; r < g->own.size; r++) wire_close(&g->members[r].wire);
}

/* Tells all who is there. */
static void begin(Gathering *g) {
    OWNED char *names = xmalloc((size_t)g->own.size * (sizeof g->own.host + 24));
    size_t n = 0;
    for (int r = 0; r < g->own.size; r++)
        n += (size_t)sprintf(names + n, "%s\n%ld\n", g->members[r].hello.host, g->members[r].hello.process);
    tell_members(g, FRAME_START, names, n);
}

/* Waits until as many processes as there are ranks have come, or it is known that there will be no meeting. */
static void wait_for_all(Gathering *g, double until, double every) {
    double due = seconds_now() + every;
    while (g->n_come + g->n_sent_away < g->own.size && seconds_now() < until) {
        double next = due < until ? due : until, left = next - seconds_now();
        bool before = g->failed;
        step(g, left > 0 ? left : 0);
        if (g->failed && !before) {
            send_away(g);
            if (seconds_now() + linger < until) until = seconds_now() + linger;
        }
        if (seconds_now() < due) continue;
        send_alive(g);
        due = seconds_now() + every;
    }
}

bool gather(const Launch *launch, const Hello *own, double patience, double silence, Member *members, Error *error) {
    Gathering g = {.own = *own, .members = members, .n_come = 1, .error = error};
    double until = seconds_now() + patience;
    g.listener = place_listen(launch, g.place, error);
    if (g.listener < 0) return false;
    g.guests = xcalloc(MOST_GUESTS, sizeof *g.guests);
    members[0].hello = *own;
    wait_for_all(&g, until, alive_every(silence));
    if (!g.failed && g.n_come < own->size) {
        say_missing(&g, patience);
        g.failed = true;
    }
    close(g.listener);
    if (g.failed)
        send_away(&g);
    else
        begin(&g);
    for (int i = 0; i < g.n_guests; i++) wire_close(&g.guests[i].wire);
    free(g.guests);
    return !g.failed;
}
