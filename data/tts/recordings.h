/* A list of recordings and their texts, as people bring them.
 *
 * .tsv: id, speaker, audio file, text, separated by tabs, without a header line. .jsonl: objects with the strings "id",
 * "speaker", "audio", "text" and, optionally, "language"; other fields are ignored. Audio paths are relative to the
 * list. Empty lines are skipped. */
#ifndef DATA_TTS_RECORDINGS_H
#define DATA_TTS_RECORDINGS_H

#include "base/base.h"

typedef struct {
    int64_t line;
    char *id; /* unique; can be the name of a file */
    char *speaker, *audio, *text;
    char *language; /* NULL: not given */
} Recording;

typedef struct {
    Recording *items;
    int64_t count;
} Recordings;

/* Parses the bytes of a list. Returns false with "LINE: ..." or "LINE:COLUMN: ..." for the first bad line or duplicate
 * id. */
bool recordings_parse(const char *text, size_t size, bool json_lines, Recordings *out, Error *error);
/* Reads a list from a file, whose name decides the format. The error begins with the path. */
bool recordings_read(const char *path, Recordings *out, Error *error);
void recordings_close(Recordings *recordings);

#endif
