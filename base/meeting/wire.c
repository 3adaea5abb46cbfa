#include "base/meeting/wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/sockios.h>
#include <math.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Waits for an event until a time. Returns false if the time is over. */
static bool wait_event(int file, short event, double until) {
    for (;;) {
        double left = until - seconds_now();
        int ready = poll(&(struct pollfd){.fd = file, .events = event}, 1, left > 0 ? (int)ceil(1e3 * left) : 0);
        if (ready > 0) return true;
        if (ready < 0 && errno != EINTR) return false;
        if (left <= 0) return false;
    }
}

static void write_head(uint8_t head[FRAME_HEAD], char type, size_t size) {
    head[0] = (uint8_t)type;
    for (int i = 0; i < 4; i++) head[1 + i] = (uint8_t)(size >> (24 - 8 * i));
}

void wire_put(Wire *wire, char type, const void *bytes, size_t size) {
    uint8_t head[FRAME_HEAD];
    write_head(head, type, size);
    bytes_add(&wire->out, head, sizeof head);
    bytes_add(&wire->out, bytes, size);
}

int wire_next(const Wire *wire, size_t most, Frame *frame) {
    const uint8_t *at = (const uint8_t *)wire->in.at;
    if (wire->in.n < FRAME_HEAD) return 0;
    *frame =
        (Frame){(char)at[0], (size_t)at[1] << 24 | (size_t)at[2] << 16 | (size_t)at[3] << 8 | at[4], at + FRAME_HEAD};
    if (frame->size > most) return -1;
    return wire->in.n - FRAME_HEAD >= frame->size;
}

void wire_drop(Wire *wire, const Frame *frame) {
    size_t size = FRAME_HEAD + frame->size;
    wire->in.n -= size;
    memmove(wire->in.at, wire->in.at + size, wire->in.n);
}

bool wire_receive(Wire *wire) {
    char bytes[1 << 14];
    while (wire->in.n < FRAME_HEAD + FRAME_MOST) {
        ssize_t n = recv(wire->file, bytes, sizeof bytes, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno == EAGAIN;
        if (!n) return false;
        bytes_add(&wire->in, bytes, (size_t)n);
    }
    return true;
}

/* Sends the beginning of these bytes that there is room for. Returns its length, -1 if the connection is lost. */
static ssize_t send_some(int file, const void *bytes, size_t size) {
    for (;;) {
        ssize_t n = send(file, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0 || errno == EAGAIN) return n < 0 ? 0 : n;
        if (errno != EINTR) return -1;
    }
}

bool wire_send(Wire *wire) {
    ssize_t n = wire->out.n ? send_some(wire->file, wire->out.at, wire->out.n) : 0;
    if (n < 0) return false;
    wire->out.n -= (size_t)n;
    if (n) memmove(wire->out.at, wire->out.at + n, wire->out.n);
    return true;
}

bool wire_flush(Wire *wire, double until) {
    while (wire_send(wire)) {
        if (!wire->out.n) return true;
        if (!wait_event(wire->file, POLLOUT, until)) return false;
    }
    return false;
}

static bool send_all(int file, const uint8_t *bytes, size_t size, double until) {
    while (size) {
        ssize_t n = send_some(file, bytes, size);
        if (n < 0 || (!n && !wait_event(file, POLLOUT, until))) return false;
        bytes += n;
        size -= (size_t)n;
    }
    return true;
}

void wire_send_last(Wire *wire, char type, const void *bytes, size_t size, double until) {
    uint8_t head[FRAME_HEAD];
    write_head(head, type, size);
    if (!wire_flush(wire, until) || !send_all(wire->file, head, sizeof head, until) ||
        !send_all(wire->file, bytes, size, until))
        return;
    for (int left = 0; !ioctl(wire->file, SIOCOUTQ, &left) && left && seconds_now() < until;) usleep(1000);
}

int wire_wait(Wire *wire, size_t most, Frame *frame, double until) {
    for (bool more = true;;) {
        int found = wire_next(wire, most, frame);
        if (found) return found;
        if (!more) return -1;
        if (!wait_event(wire->file, POLLIN, until)) return 0;
        more = wire_receive(wire);
    }
}

void wire_close(Wire *wire) {
    if (wire->file >= 0) close(wire->file);
    FREE(wire->in.at, wire->out.at);
    *wire = (Wire){.file = -1};
}

static void set_option(int file, int level, int option) {
    setsockopt(file, level, option, &(int){1}, sizeof(int)); /* without it, all works, but slower */
}

/* Closes a socket without a change of errno. Returns -1. */
static int give_up(int file) {
    int reason = errno;
    close(file);
    errno = reason;
    return -1;
}

int wire_connect(const struct sockaddr *address, socklen_t size, double until) {
    int file = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (file < 0) return -1;
    if (connect(file, address, size)) {
        if (errno != EINPROGRESS && errno != EINTR) return give_up(file);
        errno = ETIMEDOUT;
        if (!wait_event(file, POLLOUT, until)) return give_up(file);
        socklen_t length = sizeof errno;
        int reason = 0;
        if (getsockopt(file, SOL_SOCKET, SO_ERROR, &reason, &length)) return give_up(file);
        errno = reason;
        if (reason) return give_up(file);
    }
    set_option(file, IPPROTO_TCP, TCP_NODELAY);
    return file;
}

int wire_listen(const struct sockaddr *address, socklen_t size) {
    int file = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (file < 0) return -1;
    set_option(file, SOL_SOCKET, SO_REUSEADDR);
    return bind(file, address, size) || listen(file, 4096) ? give_up(file) : file;
}

int wire_accept(int listener) {
    int file = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (file >= 0) set_option(file, IPPROTO_TCP, TCP_NODELAY);
    return file;
}

const char *wire_name(const struct sockaddr *address, socklen_t size, char text[WIRE_NAME]) {
    char host[48], port[8];
    if (getnameinfo(address, size, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV))
        snprintf(text, WIRE_NAME, "an unknown address");
    else
        snprintf(text, WIRE_NAME, address->sa_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
    return text;
}
