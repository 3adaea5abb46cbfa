/* Makes a text of the bytes of a document: UTF-8 is checked, the field of a record is taken, line ends become \n,
 * characters are composed (NFC). */
#pragma once

#include "data/slm/corpus_table.h"

typedef struct {
    const char *field;        /* of JSON records; NULL: no JSON */
    const CorpusTable *table; /* of records of a table; NULL: no table */
    bool nfc;                 /* canonical composition */
    bool keep_last_end;       /* keep the line end behind the last line of plain text */
} CleanOptions;

typedef struct {
    char *text; /* [size], not zero-terminated; in `raw`, or owned */
    size_t size;
    char *owned; /* NULL: the text lies in `raw` */
} CleanText;

/* Where a document begins in its file. */
typedef struct {
    int64_t line;   /* from 1 */
    int column;     /* in characters, from 1; only an element of an array begins behind 1 */
    int64_t offset; /* in bytes, from 0 */
} CleanPlace;

/* Cleans a document, whose bytes it may change. The error begins with the line ("line 7, byte 1203: ..."). Release with
 * free(out->owned). */
bool clean_text(char *raw, size_t size, const CleanOptions *options, const CleanPlace *place, CleanText *out,
                Error *error);
/* Returns whether text that is valid UTF-8 is certainly composed; false: it may be. */
bool clean_is_composed(const char *text, size_t size);
