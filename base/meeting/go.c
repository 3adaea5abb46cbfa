#include "base/meeting/go.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/meeting/place.h"

static const double answer_patience = 2; /* seconds for the first words of what listens at a port */

typedef enum { MET, ELSEWHERE, FAILED } Outcome;

typedef struct {
    const Hello *own;
    double silence;
    Member *members;
    char place[WIRE_NAME]; /* that is tried */
    Error *error;          /* of what fails, or what was seen last */
} Search;

static Outcome note(Search *s, Outcome outcome, const char *why) {
    error_set(s->error, "%s: %s", s->place, why);
    return outcome;
}

/* Hears why rank 0 does not take this one. */
static Outcome refused(Search *s, const Frame *frame) {
    int n = (int)frame->size;
    const char *text = (const char *)frame->bytes;
    if (frame->type == FRAME_FAIL) {
        error_set(s->error, "%.*s", n, text);
        return FAILED;
    }
    if (!n || *text == 'j') return note(s, ELSEWHERE, "another job waits there");
    error_set(s->error, "rank 0 at %s refuses rank %d: %.*s", s->place, s->own->rank, n - 1, text + 1);
    return FAILED;
}

static Outcome talk(Search *s, Wire *wire) {
    Talk t;
    Frame frame;
    Hello *host = &s->members[0].hello;
    uint8_t greeting[HELLO_MOST], proof[SHA1_SIZE];
    size_t n = hello_write(s->own, greeting);
    double until = seconds_now() + answer_patience;
    talk_keep(t.greeting, &t.greeting_size, greeting, n);
    wire_put(wire, 'H', greeting, n);
    if (!wire_flush(wire, until) || wire_wait(wire, HELLO_MOST, &frame, until) <= 0)
        return note(s, ELSEWHERE, "what listens there is not rank 0");
    if (frame.type == 'R') return refused(s, &frame);
    if (frame.type != 'C' || !hello_read(frame.bytes, frame.size, host))
        return note(s, ELSEWHERE, "what listens there is not rank 0");
    if (strcmp(host->job, s->own->job) != 0 || host->port != s->own->port)
        return note(s, ELSEWHERE, "another job waits there");
    if (host->has_secret != s->own->has_secret)
        return note(s, FAILED, "only one of rank 0 and this process has a TRAINC_JOB_SECRET");
    talk_keep(t.challenge, &t.challenge_size, frame.bytes, frame.size);
    wire_drop(wire, &frame);
    talk_prove(&t, false, proof);
    wire_put(wire, 'P', proof, sizeof proof);
    until = seconds_now() + (s->silence > answer_patience ? s->silence : answer_patience);
    if (!wire_flush(wire, until) || wire_wait(wire, HELLO_MOST, &frame, until) <= 0)
        return note(s, ELSEWHERE, "rank 0 does not answer");
    if (frame.type == 'R' || frame.type == FRAME_FAIL) return refused(s, &frame);
    if (frame.type != 'A' || !talk_is_proof(&t, true, frame.bytes, frame.size))
        return note(s, FAILED, "what listens there does not know TRAINC_JOB_SECRET");
    wire_drop(wire, &frame);
    return MET;
}

/* Reads the host and process of each rank. */
static bool read_names(Search *s, const Frame *frame) {
    OWNED char *text = xmalloc(frame->size + 1);
    char *at = text;
    memcpy(text, frame->bytes, frame->size);
    text[frame->size] = 0;
    for (int r = 0; r < s->own->size; r++) {
        Hello *h = &s->members[r].hello;
        size_t n = strcspn(at, "\n");
        if (n >= sizeof h->host || !at[n]) return false;
        memcpy(h->host, at, n);
        h->host[n] = 0;
        h->process = strtol(at + n + 1, &at, 10);
        if (*at++ != '\n') return false;
    }
    return !*at;
}

/* Waits until rank 0 says that all have come, or why not. */
static bool await_start(Search *s, Wire *wire) {
    char name[RANK_NAME];
    Frame frame;
    hello_name(0, s->members[0].hello.host, s->members[0].hello.process, name);
    for (;;) {
        double began = seconds_now();
        int found = wire_wait(wire, FRAME_MOST, &frame, began + s->silence);
        if (!found && seconds_now() - began > 1.5 * s->silence) continue; /* it was this process that was stopped */
        if (!found) return error_set(s->error, "%s has not answered for %g s", name, s->silence);
        if (found < 0) return error_set(s->error, "%s has ended without a word", name);
        if (frame.type == FRAME_ALIVE) {
            wire_drop(wire, &frame);
            continue;
        }
        if (frame.type == FRAME_FAIL) return error_set(s->error, "%.*s", (int)frame.size, (const char *)frame.bytes);
        if (frame.type != FRAME_START || !read_names(s, &frame))
            return error_set(s->error, "%s sends what it should not", name);
        wire_drop(wire, &frame);
        return true;
    }
}

static Outcome try_address(Search *s, const struct addrinfo *at, double until) {
    Wire wire = {.file = wire_connect(at->ai_addr, at->ai_addrlen, until)};
    if (wire.file < 0) {
        const char *why = strerror(errno);
        wire_name(at->ai_addr, at->ai_addrlen, s->place);
        if (!*s->error->text) note(s, ELSEWHERE, why);
        return ELSEWHERE;
    }
    wire_name(at->ai_addr, at->ai_addrlen, s->place);
    Outcome outcome = talk(s, &wire);
    if (outcome == MET && !await_start(s, &wire)) outcome = FAILED;
    if (outcome == MET)
        s->members[0].wire = wire;
    else
        wire_close(&wire);
    return outcome;
}

/* Tries all ports once. */
static Outcome try_place(Search *s, const Place *place, double until) {
    struct addrinfo *all = place_resolve(place, s->error);
    Outcome outcome = ELSEWHERE;
    for (int i = 0; all && i < place->n_ports && outcome == ELSEWHERE; i++)
        for (const struct addrinfo *a = all; a && outcome == ELSEWHERE && seconds_now() < until; a = a->ai_next) {
            double soon = seconds_now() + answer_patience;
            place_set_port(a->ai_addr, place->port + i);
            outcome = try_address(s, a, soon < until ? soon : until);
        }
    if (all) freeaddrinfo(all);
    return outcome;
}

bool go_to_rank_0(const Launch *launch, const Hello *own, double patience, double silence, Member *members,
                  Error *error) {
    Place place;
    Error why = {""};
    Search s = {.own = own, .silence = silence, .members = members, .error = &why};
    double until = seconds_now() + patience, pause = 0.02;
    char name[PLACE_NAME];
    if (!place_find(launch, &place, error)) return false;
    do {
        *why.text = 0;
        Outcome outcome = try_place(&s, &place, until);
        if (outcome == MET) return true;
        if (outcome == FAILED) return error_set(error, "%s", why.text);
        usleep((useconds_t)(1e6 * pause));
        if (pause < 0.5) pause *= 2;
    } while (seconds_now() < until);
    return error_set(error, "rank 0 was not found at %s within %g s (%s)", place_name(&place, name), patience,
                     why.text);
}
