/* Where the ranks of a job meet. */
#pragma once

#include <netdb.h>

#include "base/launch.h"

typedef struct {
    const char *address;
    int port, n_ports; /* those that rank 0 tries in turn */
    bool told;         /* by MASTER_ADDR and MASTER_PORT */
} Place;

/* Finds the place: the one that was told, or, if all ranks are on this machine, ports that the name of the job chooses.
 * False if neither. */
bool place_find(const Launch *launch, Place *place, Error *error);
/* Writes "127.0.0.1:29500", or "127.0.0.1:29500-29531". Returns text. */
enum { PLACE_NAME = 300 };
const char *place_name(const Place *place, char text[PLACE_NAME]);
/* Returns the addresses; release with freeaddrinfo. NULL: there is none. */
struct addrinfo *place_resolve(const Place *place, Error *error);
void place_set_port(struct sockaddr *address, int port);
bool place_is_loopback(const struct sockaddr *address);
/* Listens as rank 0 on the first port that is free. Returns the socket and writes where that is; -1 with the reason. */
int place_listen(const Launch *launch, char name[], Error *error);
