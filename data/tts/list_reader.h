/* What the readers of the lines of a list share. */
#ifndef DATA_TTS_LIST_READER_H
#define DATA_TTS_LIST_READER_H

#include "data/tts/recordings.h"

typedef struct {
    Recordings *out;                     /* its format is known */
    bool started;                        /* the first line was read */
    const char *names[RECORDING_FIELDS]; /* of JSON fields or columns; NULL: none */
    bool given[RECORDING_FIELDS];        /* the name is that of an option, so the field must be there */
    bool has_language;                   /* in JSON: a line so far has the field of the language */
    int columns[RECORDING_FIELDS];       /* places in a line, 0 in JSON; -1: none */
    int n_columns;
} ListReader;

#endif
