/* The room that is left on a page of limited size, and the list of what did not fit. */
#pragma once

#include <stdio.h>

#include "base/base.h"

enum { ROOM_NAMED = 25, ROOM_LIST = 7000 };

typedef struct {
    size_t left;       /* bytes */
    FILE *left_out;    /* list items: what is not on the page, and why */
    size_t list_bytes; /* of these items, at most ROOM_LIST */
    int n_left_out, n_named;
} Room;

/* A part of a page that is made in memory before it is known whether it fits. */
typedef struct {
    FILE *out; /* print here */
    char *text;
    size_t size;
} Part;

void part_begin(Part *part); /* do not move *part before its end */
/* Ends a part that is then in text[size]; free(text). */
void part_end(Part *part);
/* Ends a part: writes it to `out` if there is room, else lists it by its name. Returns whether it fits. */
bool part_place(Part *part, Room *room, FILE *out, const char *name);
/* Takes bytes of the room if there are as many, else lists what they are for. Returns whether it fits. */
bool room_take(Room *room, size_t bytes, const char *name);
/* Lists something that is not on the page, with the reason. */
void room_leave_out(Room *room, const char *name, const char *reason);
/* Ends the list, which names at most ROOM_NAMED. */
void room_end(Room *room);
