/* Maps files for reading.
 *
 * If a page of a mapped file cannot be read (the file was truncated, or its disk or network fails), the reading thread
 * gets a signal, SIGBUS. The program then ends with one line that names the file, and status 1. */
#pragma once

#include "base/base.h"

/* Maps a regular file; an empty file is an error. Reads the file into memory on a file system that maps none, and says
 * so once. The error does not contain the path. */
bool file_map(const char *path, void **bytes, size_t *size, Error *error);
void file_unmap(void *bytes, size_t size); /* NULL: does nothing */
