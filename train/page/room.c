#include "train/page/room.h"

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
    if (room->n_left_out++ >= ROOM_NAMED) return;
    fputs("<li>", room->left_out);
    html_format(room->left_out, "%.100s: %.150s", name, reason);
    fputs("</li>\n", room->left_out);
}

void room_end(Room *room) {
    if (room->n_left_out > ROOM_NAMED) fprintf(room->left_out, "<li>and %d more</li>\n", room->n_left_out - ROOM_NAMED);
}

bool part_place(Part *part, Room *room, FILE *out, const char *name) {
    char size[32], *reason;
    part_end(part);
    bool fits = part->size <= room->left;
    if (fits) {
        fwrite(part->text, 1, part->size, out);
        room->left -= part->size;
    } else {
        reason = xformat("%s, too large for what is left of the page", format_bytes((double)part->size, size));
        room_leave_out(room, name, reason);
        free(reason);
    }
    free(part->text);
    return fits;
}
