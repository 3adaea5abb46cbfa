#include "base/meeting/place.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/meeting/hello.h"
#include "base/meeting/wire.h"

enum { TRIED_PORTS = 32, FIRST_PORT = 20000, CHOSEN_PORTS = 40000 };

bool place_find(const Launch *launch, Place *place, Error *error) {
    *place = (Place){launch->address, launch->port, 1, true};
    if (*launch->address && launch->port) {
        if (launch->port_in_use) {
            place->port++;
            place->n_ports = TRIED_PORTS;
        }
        if (place->port + place->n_ports > 65536) place->n_ports = 65536 - place->port;
        if (place->n_ports > 0) return true;
        return error_set(error, "MASTER_PORT=%d: expected a smaller number, because rank 0 takes a port after it",
                         launch->port);
    }
    if (launch->local_size != launch->size)
        return error_set(error,
                         "the processes may be on several machines, and nothing tells where rank 0 can be reached: set "
                         "MASTER_ADDR to an address of its machine and MASTER_PORT to a free port there, for all "
                         "(mpirun -x MASTER_ADDR -x MASTER_PORT)");
    uint64_t hash = hash_bytes(HASH_START, launch->job, strlen(launch->job));
    *place = (Place){"127.0.0.1", FIRST_PORT + (int)(hash % CHOSEN_PORTS), TRIED_PORTS, false};
    return true;
}

const char *place_name(const Place *place, char text[PLACE_NAME]) {
    int n = snprintf(text, PLACE_NAME, "%s:%d", place->address, place->port);
    if (place->n_ports > 1) snprintf(text + n, (size_t)(PLACE_NAME - n), "-%d", place->port + place->n_ports - 1);
    return text;
}

struct addrinfo *place_resolve(const Place *place, Error *error) {
    const struct addrinfo want = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int reason = getaddrinfo(place->address, NULL, &want, &found);
    if (!reason) return found;
    error_set(error, "%s%s: %s", place->told ? "MASTER_ADDR=" : "", place->address,
              reason == EAI_SYSTEM ? strerror(errno) : gai_strerror(reason));
    return NULL;
}

void place_set_port(struct sockaddr *address, int port) {
    if (address->sa_family == AF_INET6)
        ((struct sockaddr_in6 *)address)->sin6_port = htons((uint16_t)port);
    else
        ((struct sockaddr_in *)address)->sin_port = htons((uint16_t)port);
}

bool place_is_loopback(const struct sockaddr *address) {
    if (address->sa_family == AF_INET6) return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
    return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == 127;
}

static int say_why_not(const Place *place, int reason, Error *error) {
    char name[PLACE_NAME];
    place_name(place, name);
    if (reason != EADDRINUSE)
        error_set(error, "rank 0 cannot wait at %s: %s%s", name, strerror(reason),
                  reason == EADDRNOTAVAIL ? "; MASTER_ADDR must be an address of the machine that rank 0 runs on" : "");
    else if (place->n_ports > 1)
        error_set(error, "rank 0 cannot wait at %s: all these ports are taken; set MASTER_ADDR and MASTER_PORT", name);
    else
        error_set(error, "rank 0 cannot wait at %s: the port is taken by another process; choose another MASTER_PORT",
                  name);
    return -1;
}

/* Checks what address rank 0 waits at: a host's own name is often in 127.0.0.0/8 on that host alone. */
static bool fits(const Launch *launch, const struct sockaddr *address, const char *name, Error *error) {
    bool loopback = place_is_loopback(address);
    if (loopback && launch->local_size && launch->local_size < launch->size)
        return error_set(error,
                         "MASTER_ADDR=%s is %s on the machine of rank 0, which other machines cannot reach: set it to "
                         "the address of a network",
                         launch->address, name);
    if (!loopback && !*job_secret())
        warn("anyone who can reach %s can join this job; set TRAINC_JOB_SECRET to the same text on all machines", name);
    return true;
}

int place_listen(const Launch *launch, char name[], Error *error) {
    Place place;
    int file = -1, reason = 0;
    struct addrinfo *all = place_find(launch, &place, error) ? place_resolve(&place, error) : NULL;
    if (!all) return -1;
    for (int i = 0; i < place.n_ports && file < 0; i++)
        for (const struct addrinfo *a = all; a && file < 0; a = a->ai_next) {
            place_set_port(a->ai_addr, place.port + i);
            file = wire_listen(a->ai_addr, a->ai_addrlen);
            if (file < 0 && (!reason || errno == EADDRINUSE)) reason = errno;
            if (file >= 0 && !fits(launch, a->ai_addr, wire_name(a->ai_addr, a->ai_addrlen, name), error)) {
                close(file);
                freeaddrinfo(all);
                return -1;
            }
        }
    freeaddrinfo(all);
    return file < 0 ? say_why_not(&place, reason, error) : file;
}
