/* A text file that is printed into memory and then written whole, as file_write_atomic does. */
#ifndef DATA_TEXT_FILE_H
#define DATA_TEXT_FILE_H

#include <stdio.h>

#include "base/base.h"

typedef struct {
    FILE *out; /* print here */
    char *text;
    size_t size;
} TextFile;

void text_file_begin(TextFile *file); /* it must stay where it is until its end */
/* Releases it. False, with the path in the error: it could not be written, and what was at `path` is still there. */
bool text_file_end(TextFile *file, const char *path, Error *error);

#endif
