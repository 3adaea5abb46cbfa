/* The files that the commands of a program wrote beside a training: reports, pictures and sounds. */
#pragma once

#include "page/folders.h"
#include "page/room.h"

/* Writes every report of the folders (.md beside .json) with the pictures (.svg) that belong to it, except the curves
 * of trainings, which a page draws itself. A picture belongs to the report whose name it ends like ("roc_D1",
 * "test_results_D1"). Returns the number of reports. */
int results_write(FILE *out, Room *room, const Folders *folders);
/* Returns the first line of text of a folder's first report that is not of a calibration: its result in a line; NULL:
 * there is none. free() */
char *results_lead(const Folder *folder);
/* Writes players of the sounds in the folders' samples/ (.wav .flac .ogg .mp3), compressed. Returns how many. While the
 * run goes on, which must not wait for the encoding, the sounds are only listed as left out. */
int samples_write(FILE *out, Room *room, const Folders *folders, bool is_running);
