/* Files mapped for reading.
 *
 * A page of a mapped file that cannot be read (the file was cut off since, its disk or network fails) ends the program
 * with one line that names the file, and status 1: a signal (SIGBUS) is all that a reader gets, wherever it is. */
#ifndef BASE_MAPPING_H
#define BASE_MAPPING_H

#include "base/base.h"

/* Maps a regular file; an empty one is refused. The error lacks the path. */
bool file_map(const char *path, void **bytes, size_t *size, Error *error);
void file_unmap(void *bytes, size_t size); /* NULL: nothing is done */

#endif
