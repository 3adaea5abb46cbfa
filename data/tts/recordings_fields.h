/* Reads lines of fields between tabs (list, table, Common Voice) or bars (LJSpeech). Quotes mean nothing: the texts of
 * both data sets have single ones. */
#ifndef DATA_TTS_RECORDINGS_FIELDS_H
#define DATA_TTS_RECORDINGS_FIELDS_H

#include "data/tts/list_reader.h"

/* Returns the place of the column with this name in a header between tabs, or -1. */
int recordings_find_column(const char *line, size_t n, const char *name);
/* Finds the columns of reader->names in a header. */
bool recordings_read_header(ListReader *reader, const char *line, size_t n, Error *error);
/* Sets the fields of `r` that the line has. */
bool recordings_read_fields(ListReader *reader, const char *line, size_t n, Recording *r, Error *error);

#endif
