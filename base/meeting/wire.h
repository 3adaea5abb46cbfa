/* Frames on TCP connections that never block: a type, a length of four bytes (big endian), and as many bytes. */
#pragma once

#include <netdb.h>

#include "base/base.h"

enum { FRAME_HEAD = 5, FRAME_MOST = 1 << 20 };

typedef struct {
    int file;      /* -1: none */
    Bytes in, out; /* what was received and not yet taken, what was not yet sent */
} Wire;

typedef struct {
    char type;
    size_t size;
    const uint8_t *bytes; /* in the wire, until the frame is dropped */
} Frame;

/* Puts a frame behind what is to be sent. */
void wire_put(Wire *wire, char type, const void *bytes, size_t size);
/* Finds the first frame that was received. Returns 1, 0 if it is not complete, -1 if there is none, or one of more than
 * `most` bytes. */
int wire_next(const Wire *wire, size_t most, Frame *frame);
void wire_drop(Wire *wire, const Frame *frame);
/* Receives what is there. Returns false if no more will come. */
bool wire_receive(Wire *wire);
/* Sends what there is room for. Returns false if the connection is lost. */
bool wire_send(Wire *wire);
/* Sends all, until a time of seconds_now. Returns whether it did. */
bool wire_flush(Wire *wire, double until);
/* Sends all and a last frame without allocating memory, and waits until the other machine has them, until a time. */
void wire_send_last(Wire *wire, char type, const void *bytes, size_t size, double until);
/* Waits for a frame until a time. Returns as wire_next, and -1 if the connection is lost, 0 if the time is over. */
int wire_wait(Wire *wire, size_t most, Frame *frame, double until);
/* Closes the connection and frees the buffers. */
void wire_close(Wire *wire);

/* Connects to an address until a time. Returns the socket, -1 with errno. */
int wire_connect(const struct sockaddr *address, socklen_t size, double until);
/* Listens there. Returns the socket, -1 with errno. */
int wire_listen(const struct sockaddr *address, socklen_t size);
/* Returns the socket of a process that has connected; -1: none has. */
int wire_accept(int listener);
/* Writes "127.0.0.1:29500" or "[::1]:29500". Returns text. */
enum { WIRE_NAME = 64 };
const char *wire_name(const struct sockaddr *address, socklen_t size, char text[WIRE_NAME]);
