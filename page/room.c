#include "page/room.h"

#include <stdlib.h>

#include "base/format.h"
#include "report/html.h"

void part_begin(Part *part) {
    *part = (Part){0};
    part->out = open_memstream(&part->text, &part->size);
    if (!part->out) die("out of memory for a page");
}

void part_end(Part *part) {
    if (fclose(part->out)) die("out of memory for a page");
}

void room_leave_out(Room *room, const char *name, const char *reason) {
    Part item;
    part_begin(&item);
    fputs("<li>", item.out);
    html_format(item.out, "%.100s: %.150s", name, reason);
    fputs("</li>\n", item.out);
    part_end(&item);
    room->n_left_out++;
    if (room->n_named < ROOM_NAMED && room->list_bytes + item.size <= ROOM_LIST) {
        fwrite(item.text, 1, item.size, room->left_out);
        room->list_bytes += item.size;
        room->n_named++;
    }
    free(item.text);
}

void room_end(Room *room) {
    int unnamed = room->n_left_out - room->n_named;
    if (unnamed) fprintf(room->left_out, "<li>and %d more</li>\n", unnamed);
}

bool room_take(Room *room, size_t bytes, const char *name) {
    char size[32], reason[96];
    if (bytes <= room->left) {
        room->left -= bytes;
        return true;
    }
    snprintf(reason, sizeof reason, "%s, too large for what is left of the page", format_bytes((double)bytes, size));
    room_leave_out(room, name, reason);
    return false;
}

bool part_place(Part *part, Room *room, FILE *out, const char *name) {
    part_end(part);
    bool fits = room_take(room, part->size, name);
    if (fits) fwrite(part->text, 1, part->size, out);
    free(part->text);
    return fits;
}
