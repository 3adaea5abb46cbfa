/* Reads lines of fields between tabs (list, table, Common Voice, FLEURS) or bars (LJSpeech and others). Quotes mean
 * nothing: the texts of both data sets have single ones. */
#ifndef DATA_GPT_RECORDINGS_FIELDS_H
#define DATA_GPT_RECORDINGS_FIELDS_H

#include "data/gpt/list_reader.h"

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

#endif
