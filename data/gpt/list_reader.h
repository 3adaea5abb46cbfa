/* The readers of the lines of a list. */
#pragma once

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

/* ---- lines of fields between tabs (list, table, Common Voice, FLEURS) or bars (LJSpeech and others); quotes mean
 * nothing: the texts of both data sets have single ones ---- */

/* Returns the place of the column with this name in a header, or -1. */
int recordings_find_column(const char *line, size_t n, char separator, const char *name);
/* Returns the place of a column that is named by its number, "1" for the first; -1: the name is not a number. */
int recordings_column_number(const char *name);
/* Returns the name in a header of the column for a field: `given`, or the first of the usual names that is there; NULL:
 * the header has none. */
const char *recordings_column_name(const char *line, size_t n, char separator, int field, const char *given);
/* Returns whether two or more of the fields are names of columns, in any case. */
bool recordings_look_like_header(const char *line, size_t n, char separator);
/* Returns whether a line is one of FLEURS: id, audio file, two texts, characters, number of samples, gender. */
bool recordings_look_like_fleurs(const char *line, size_t n);
/* Returns whether the first field is the path of a file, or there are four fields: path|speaker|language|text. */
bool recordings_begin_with_path(const char *line, size_t n);

/* Finds the columns of reader->names in a header, or, if all are numbers, without one. */
bool recordings_read_header(ListReader *reader, const char *line, size_t n, Error *error);
/* Finds the columns of a list without a header by its first line. */
bool recordings_choose_columns(ListReader *reader, const char *line, size_t n, Error *error);
/* Sets the fields of `r` that the line has. */
bool recordings_read_fields(ListReader *reader, const char *line, size_t n, Recording *r, Error *error);

/* ---- lines with a JSON object each ---- */

/* Sets the fields of `r` that the object has; others are ignored. Id, speaker and language may be integers, and are
 * ignored if they are of another type, unless an option names them. The first line decides whether there are ids and
 * speakers: all lines have them, or none. The object begins in line *number and, in an array, *column (0: it is a
 * line); both are moved to where the JSON is invalid. */
bool recordings_read_json(ListReader *reader, const char *line, size_t n, Recording *r, int64_t *number, int *column,
                          Error *error);
/* Returns whether a text is one object over several lines, which is no list, and says what to do. */
bool recordings_are_one_object(const char *text, size_t size, Error *words);

/* ---- what the columns are, when all lines are known ---- */

/* Decides whether three fields between bars are id|text|normalized text, id|speaker|text or id|text|speaker, and sets
 * out->read_as. Refuses a text that the program has chosen and that is the same in all lines, or a tenth as long as
 * another column; of one that is named, sets out->doubt. Counts texts in quotes. The error begins with "LINE: ". */
bool recordings_settle_columns(ListReader *reader, Error *error);
