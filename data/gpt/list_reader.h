/* Parts shared by the readers of the lines of a list. */
#ifndef DATA_GPT_LIST_READER_H
#define DATA_GPT_LIST_READER_H

#include "data/gpt/recordings.h"

enum { MAX_COLUMNS = 64 };

typedef struct {
    Recordings *out;                     /* its format is known */
    bool started;                        /* the first line was read */
    char separator;                      /* of fields: a tab or a bar */
    const char *names[RECORDING_FIELDS]; /* of JSON fields or columns; NULL: none */
    bool given[RECORDING_FIELDS];        /* an option decides: the field must be there, or, without a name, is unused */
    bool has_language;                   /* in JSON: a line so far has the field of the language */
    int columns[RECORDING_FIELDS];       /* places in a line, 0 in JSON; -1: none */
    int n_columns;
    bool has_header, by_number;   /* columns have names; an option gives the number of one */
    bool open_roles;              /* between bars: of three fields the second or the third may be the speaker */
    int64_t phrases[MAX_COLUMNS]; /* bytes of the fields of a column that have a blank inside */
} ListReader;

#endif
