/* Reads texts with their labels. By the end of the path, a file is
 * .csv    records of RFC 4180 below a row of column names; fields may contain line ends
 * .tsv    the same with tabs between the fields
 * .jsonl  a JSON object per line; the label is a string or a whole number
 * .txt    a text per line, without columns: for predictions and for pretraining
 * Texts are kept as they are written: "null", "NA" and "" are texts. Labels lose white space at both ends. Columns
 * that nobody asked for are ignored; empty lines of tables are no records. */
#ifndef DATA_BERT_COMMENTS_H
#define DATA_BERT_COMMENTS_H

#include "base/base.h"

typedef struct {
    const char *text, *label, *id; /* names. NULL: "text", "label", no ids */
} CommentColumns;

typedef struct {
    char *path; /* or "standard input" */
    int64_t n;
    char **texts;   /* [n] UTF-8 without zero bytes */
    char **labels;  /* [n]; NULL: the file has no such column */
    char **ids;     /* [n]; NULL: no column was named */
    int64_t *lines; /* [n] where the record begins, from 1 */
    char *buffer;   /* of the strings */
} Comments;

/* Reads a file with at least one text. labels_needed, for training and evaluation: a missing column of labels, a
 * missing label and a text without a visible character are errors. The error names path, line and column. */
bool comments_read(const char *path, const CommentColumns *columns, bool labels_needed, Comments *out, Error *error);
void comments_free(Comments *comments);

/* Standard input, which has an object per line if its first byte is "{", otherwise a text per line. Begins as {0}. */
typedef struct {
    char *bytes; /* read, and not yet taken */
    size_t size, capacity;
    int64_t n, line; /* texts and lines that were taken */
    bool objects, ended;
} CommentInput;

/* Takes the lines that are ready, about a megabyte at most, and waits for one if there is none; out->n is 0 behind the
 * last. Errors as of comments_read, without labels, also if there is no text at all. */
bool comments_next(CommentInput *input, const CommentColumns *columns, Comments *out, Error *error);
void comments_input_close(CommentInput *input);

#endif
