/* How the ranks of a communicator find each other: rank 0's process, which makes the id, listens; each rank tells there
 * where it listens itself, and gets what all have told; then each connects to those before it, twice: for messages, and
 * for data. */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/nccl/stand_in/stand_in.h"

static const char MARK[8] = "StandIn";

/* Fills an NcclId. */
typedef struct {
    char mark[8];
    uint64_t secret;
    int32_t port;
    char address[64];
} Place;
_Static_assert(sizeof(Place) <= COLL_ID_BYTES, "it must fit into an id");

/* Answers every rank, from the process of rank 0. */
typedef struct {
    uint32_t status;
    char text[TEXT_BYTES];
    Hello hellos[MOST_RANKS];
} Table;

static void own_address(char address[64]) {
    const char *given = getenv("STAND_IN_NCCL_ADDRESS"), *name = getenv("NCCL_SOCKET_IFNAME");
    struct ifaddrs *all = NULL;
    snprintf(address, 64, "%s", given ? given : "127.0.0.1");
    if (given || getifaddrs(&all)) return;
    for (struct ifaddrs *at = all; at; at = at->ifa_next) {
        bool usable = at->ifa_addr && at->ifa_addr->sa_family == AF_INET && (at->ifa_flags & IFF_UP);
        if (!usable || (at->ifa_flags & IFF_LOOPBACK) || (name && strncmp(at->ifa_name, name, strlen(name)))) continue;
        inet_ntop(AF_INET, &((struct sockaddr_in *)(void *)at->ifa_addr)->sin_addr, address, 64);
        break;
    }
    freeifaddrs(all);
}

static int open_listener(char address[64], int32_t *port) {
    struct sockaddr_in place = {.sin_family = AF_INET};
    socklen_t bytes = sizeof place;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    own_address(address);
    if (listener >= 0 && inet_pton(AF_INET, address, &place.sin_addr) == 1 &&
        !bind(listener, (struct sockaddr *)&place, sizeof place) && !listen(listener, 2 * MOST_RANKS) &&
        !getsockname(listener, (struct sockaddr *)&place, &bytes)) {
        *port = ntohs(place.sin_port);
        return listener;
    }
    if (listener >= 0) close(listener);
    return -1;
}

static int connect_to(const char *address, int port) {
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connection >= 0 && inet_pton(AF_INET, address, &place.sin_addr) == 1 &&
        !connect(connection, (struct sockaddr *)&place, sizeof place))
        return connection;
    if (connection >= 0) close(connection);
    return -1;
}

/* Waits until something can be read or accepted. Returns false when the communicator is stopped; NULL never is. */
static bool wait_for(int socket, NcclComm *comm) {
    struct pollfd wanted = {.fd = socket, .events = POLLIN};
    while (!comm || !comm->stop) {
        int ready = poll(&wanted, 1, 50);
        if (ready > 0) return true;
        if (ready < 0 && errno != EINTR) return false;
    }
    return false;
}

static bool receive_whole(int socket, void *data, size_t bytes, NcclComm *comm) {
    for (size_t done = 0; done < bytes;) {
        if (!wait_for(socket, comm)) return false;
        ssize_t n = recv(socket, (char *)data + done, bytes - done, 0);
        if (n <= 0) return false;
        done += (size_t)n;
    }
    return true;
}

/* ---- rank 0's process ---- */

typedef struct {
    int listener;
    uint64_t secret;
} Root;

/* Returns whether the hello fits those before it; otherwise why not in the table. */
static bool admit(Table *table, const Hello *hello, int ranks, const int connections[MOST_RANKS]) {
    char *why = table->text;
    if (hello->ranks != ranks)
        snprintf(why, TEXT_BYTES, "rank %d counts %d ranks, others %d", hello->rank, hello->ranks, ranks);
    else if (hello->rank < 0 || hello->rank >= ranks)
        snprintf(why, TEXT_BYTES, "rank %d is none of %d ranks", hello->rank, ranks);
    else if (connections[hello->rank] >= 0)
        snprintf(why, TEXT_BYTES, "rank %d has come twice", hello->rank);
    else
        return true;
    table->status = INVALID_USAGE;
    return false;
}

static void *serve(void *argument) {
    Root root = *(Root *)argument;
    Table table = {0};
    int connections[MOST_RANKS], ranks = 0, come = 0;
    free(argument);
    for (int i = 0; i < MOST_RANKS; i++) connections[i] = -1;
    while ((!ranks || come < ranks) && !table.status) {
        Hello hello;
        int connection = accept(root.listener, NULL, NULL);
        if (connection < 0 && errno != EINTR && errno != ECONNABORTED) break;
        if (connection < 0) continue;
        if (!receive_whole(connection, &hello, sizeof hello, NULL) || hello.secret != root.secret) {
            close(connection);
            continue;
        }
        if (!ranks) ranks = hello.ranks;
        if (admit(&table, &hello, ranks, connections)) {
            connections[hello.rank] = connection;
            table.hellos[hello.rank] = hello;
            come++;
        } else {
            send_message(connection, &table, sizeof table);
            close(connection);
        }
    }
    close(root.listener);
    for (int i = 0; i < MOST_RANKS; i++) {
        if (connections[i] < 0) continue;
        send_message(connections[i], &table, sizeof table);
        close(connections[i]);
    }
    return NULL;
}

unsigned open_meeting(NcclId *id) {
    Place place = {.port = 0};
    Root *root = malloc(sizeof *root);
    pthread_t thread;
    memcpy(place.mark, MARK, sizeof MARK);
    if (!root || getrandom(&place.secret, sizeof place.secret, 0) != sizeof place.secret ||
        (root->listener = open_listener(place.address, &place.port)) < 0) {
        free(root);
        return refuse(SYSTEM_ERROR, "ncclGetUniqueId: cannot listen at %s", place.address);
    }
    root->secret = place.secret;
    if (pthread_create(&thread, NULL, serve, root)) {
        close(root->listener);
        free(root);
        return refuse(SYSTEM_ERROR, "ncclGetUniqueId: cannot begin a thread");
    }
    pthread_detach(thread);
    memset(id, 0, sizeof *id);
    memcpy(id->bytes, &place, sizeof place);
    return COLL_SUCCESS;
}

/* ---- each rank ---- */

static unsigned because(char text[TEXT_BYTES], unsigned status, const char *why) {
    snprintf(text, TEXT_BYTES, "ncclCommInitRankConfig: %.360s", why);
    return status;
}

/* Tells rank 0's process of this rank, and waits for what all have told. */
static unsigned register_rank(NcclComm *comm, Hello *own, char text[TEXT_BYTES]) {
    Place place;
    Table table;
    memcpy(&place, comm->id.bytes, sizeof place);
    if (memcmp(place.mark, MARK, sizeof MARK))
        return because(text, COLL_INVALID_ARGUMENT, "the id is not one of ncclGetUniqueId");
    int root = connect_to(place.address, place.port);
    if (root < 0) return because(text, SYSTEM_ERROR, "nobody listens where the id was made");
    own->secret = place.secret;
    bool told = send_message(root, own, sizeof *own) && receive_whole(root, &table, sizeof table, comm);
    close(root);
    if (!told) return because(text, COLL_REMOTE_ERROR, "the process where the id was made has ended");
    if (table.status) return because(text, table.status, table.text);
    memcpy(comm->hellos, table.hellos, sizeof comm->hellos);
    return COLL_SUCCESS;
}

static unsigned check_cards(const NcclComm *comm, char text[TEXT_BYTES]) {
    for (int i = 0; i < comm->ranks; i++)
        for (int k = 0; k < i; k++)
            if (!strcmp(comm->hellos[i].host, comm->hellos[k].host) &&
                !strcmp(comm->hellos[i].bus, comm->hellos[k].bus)) {
                snprintf(text, TEXT_BYTES, "Duplicate GPU detected : rank %d and rank %d both on CUDA device %s", k, i,
                         comm->hellos[i].bus);
                return INVALID_USAGE;
            }
    return COLL_SUCCESS;
}

static void keep_connection(NcclComm *comm, int rank, int channel, int connection) {
    int on = 1;
    setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    *(channel ? &comm->peers[rank].data : &comm->peers[rank].control) = connection;
}

static bool connect_ranks(NcclComm *comm, const Hello *own, int listener) {
    for (int channel = 0; channel < 2; channel++)
        for (int q = 0; q < comm->rank; q++) {
            Hello hello = *own;
            int connection = connect_to(comm->hellos[q].address, comm->hellos[q].port);
            if (connection < 0) return false;
            hello.channel = channel;
            keep_connection(comm, q, channel, connection);
            if (!send_message(connection, &hello, sizeof hello)) return false;
        }
    for (int missing = 2 * (comm->ranks - 1 - comm->rank); missing;) {
        Hello hello;
        int connection = wait_for(listener, comm) ? accept4(listener, NULL, NULL, SOCK_CLOEXEC) : -1;
        if (connection < 0) return false;
        if (!receive_whole(connection, &hello, sizeof hello, comm) || hello.secret != own->secret ||
            hello.rank <= comm->rank || hello.rank >= comm->ranks) {
            close(connection);
            continue;
        }
        keep_connection(comm, hello.rank, hello.channel, connection);
        missing--;
    }
    return true;
}

unsigned meet(NcclComm *comm, char text[TEXT_BYTES]) {
    Hello *own = &comm->hellos[comm->rank], hello;
    int listener = open_listener(own->address, &own->port);
    if (listener < 0) return because(text, SYSTEM_ERROR, "cannot listen at STAND_IN_NCCL_ADDRESS");
    hello = *own;
    unsigned status = register_rank(comm, &hello, text);
    if (!status) status = check_cards(comm, text);
    if (!status && !connect_ranks(comm, &hello, listener))
        status = because(text, COLL_REMOTE_ERROR, "another rank ended before all were connected");
    close(listener);
    return status;
}
