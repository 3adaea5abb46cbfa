/* Makes a text of the bytes of a document: UTF-8 is checked, the field of a record is taken, line ends become \n,
 * characters are composed (NFC). */
#ifndef DATA_SLM_CLEAN_H
#define DATA_SLM_CLEAN_H

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

/* Cleans a document, whose bytes it may change. line, offset: its first line, from 1, and its first byte, from 0,
 * within its file. The error begins with the line ("line 7, byte 1203: ..."). Release with free(out->owned). */
bool clean_text(char *raw, size_t size, const CleanOptions *options, int64_t line, int64_t offset, CleanText *out,
                Error *error);
/* Returns whether text that is valid UTF-8 is certainly composed; false: it may be. */
bool clean_is_composed(const char *text, size_t size);

#endif
