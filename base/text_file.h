/* Writes text files: printed into memory first, then written atomically (file_write_atomic). */
#pragma once

#include <stdio.h>

#include "base/base.h"

typedef struct {
    FILE *out; /* print here */
    char *text;
    size_t size;
} TextFile;

void text_file_begin(TextFile *file); /* do not move *file before text_file_end */
/* Writes the file and releases its memory. On failure the error contains the path, and an earlier file at `path` stays.
 */
bool text_file_end(TextFile *file, const char *path, Error *error);
