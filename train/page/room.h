/* The room that is left on a page of limited size, and the list of what did not fit. */
#ifndef TRAIN_PAGE_ROOM_H
#define TRAIN_PAGE_ROOM_H

#include <stdio.h>

#include "base/base.h"

enum { ROOM_NAMED = 25 };

typedef struct {
    size_t left;    /* bytes */
    FILE *left_out; /* list items: what is not on the page, and why */
    int n_left_out;
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
/* Lists something that is not on the page, with the reason. */
void room_leave_out(Room *room, const char *name, const char *reason);
/* Ends the list, which names the first ROOM_NAMED only. */
void room_end(Room *room);

#endif
