/* Reads the text of a file in pieces, plain or compressed with gzip, and sums up the file's bytes meanwhile. A file is
 * compressed if it begins with gzip's two magic bytes, which no UTF-8 text does; its name does not matter. */
#pragma once

#include <zlib.h>

#include "base/base.h"

typedef struct {
    int fd;
    bool compressed, ended;
    z_stream stream;      /* of a compressed file */
    unsigned char *block; /* bytes as they are in the file */
    size_t at, filled;
    int64_t size; /* of the file, read so far */
    uint64_t sum; /* of the file, read so far */
} TextSource;

/* Returns where the ending of a text's name begins, ".csv", as path_ending does, also with ".gz" behind it. */
const char *text_ending(const char *path, const char *ending);

/* The errors of these functions do not contain the path. */
bool text_source_open(TextSource *source, const char *path, Error *error);
void text_source_close(TextSource *source);
/* Fills the buffer with text; *n is smaller than `size` only at the end of the text. */
bool text_source_read(TextSource *source, char *buffer, size_t size, size_t *n, Error *error);
/* Returns size and checksum of a file's bytes, which a source has when its text has been read to the end. */
bool text_source_measure(const char *path, int64_t *size, uint64_t *sum, Error *error);

/* Reads the whole text of a file as UTF-8, plain or compressed, also from UTF-16 with a byte order mark, as Excel
 * writes it. A zero byte stands behind it; free(). What has no mark is not looked at: check it with utf8_check. */
bool text_read(const char *path, char **text, size_t *size, Error *error);
/* Does the same with the bytes of a file, which are freed if others take their place: decompresses them, and turns
 * UTF-16 with a mark into UTF-8. A zero byte stands behind them. After an error the bytes are freed and NULL. */
bool text_decode(char **bytes, size_t *size, Error *error);
