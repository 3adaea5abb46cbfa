/* Reads texts with their labels. By the end of the path, which may have .gz behind it, a file is
 * .csv             records of RFC 4180 below a row of column names; fields may contain line ends
 * .tsv             the same with tabs between the fields; csv.h tells what else may separate them
 * .jsonl, .ndjson  a JSON object per line, or .json: the same, or an array of them; the label is a string, a number,
 *                  true or false
 * .txt             a text per line, without columns: for predictions and for pretraining
 * Texts are kept as they are written: "null", "NA" and "" are texts. Labels are normal (data/text/label.h). Columns
 * that nobody asked for are ignored; empty lines of tables are no records. */
#pragma once

#include "base/base.h"

typedef struct {
    const char *text, *label, *id; /* names. NULL: "text", "label", no ids */
    bool skip_bad;                 /* leave records out that cannot be used, and count them (--skip-bad) */
    bool refuse_empty;             /* --empty error */
} CommentColumns;

/* The ends of names, for help and messages: of files whose texts may have labels, and of all files of texts. */
#define COMMENTS_LABELLED COMMENTS_ENDS " or .json, also with .gz"
#define COMMENTS_ANY      COMMENTS_ENDS ", .json or .txt (a text per line), also with .gz"
#define COMMENTS_ENDS     ".csv, .tsv, .jsonl, .ndjson"

/* The records that were left out, and the labels that were changed. */
typedef struct {
    int64_t bad, empty; /* records that cannot be used; texts without a visible character */
    char *first_bad;    /* "LINE: why"; NULL: none */
    int64_t *lines;     /* [empty] of the empty ones */
    int64_t labels;     /* labels that are written in another way than they are read: label_normal */
    int64_t merged;     /* labels that classes_assign has joined with their class */
} CommentCounts;

typedef struct {
    char *path; /* or "standard input" */
    int64_t n;
    char **texts;   /* [n] UTF-8 without zero bytes */
    char **labels;  /* [n]; NULL: the file has no such column */
    char **ids;     /* [n]; NULL: no column was named */
    int64_t *lines; /* [n] where the record begins, from 1 */
    CommentCounts counts;

    char *buffer;  /* of the strings */
    char **others; /* [n_others] strings that are not in it */
    int64_t n_others;
} Comments;

/* Returns the length of a name without the end that says what the file is; 0: it has none. */
size_t comments_stem(const char *name);

typedef enum {
    LABELS_UNUSED, /* for predictions and for pretraining: nobody asks for the column */
    LABELS_NEEDED, /* for training and evaluation: a missing column and a missing label are errors; a text without a
                    * visible character is left out and counted, or an error */
    LABELS_IF_ANY  /* a missing label is "" */
} CommentLabels;

/* Reads a file with at least one text. The error names path, line and column. */
bool comments_read(const char *path, const CommentColumns *columns, CommentLabels labels, Comments *out, Error *error);
void comments_free(Comments *comments);

/* Standard input, which has an object per line if its first byte is "{", otherwise a text per line. Begins as {0}. */
typedef struct {
    char *bytes; /* read, and not yet taken */
    size_t size, capacity;
    int64_t n, line; /* texts and lines that were taken */
    bool objects, ended;
    CommentCounts counts; /* of all that was taken */
} CommentInput;

/* Takes the lines that are ready, about a megabyte at most, and waits for one if there is none; out->n is 0 behind the
 * last. Errors as of comments_read, without labels, also if there is no text at all. */
bool comments_next(CommentInput *input, const CommentColumns *columns, Comments *out, Error *error);
void comments_input_close(CommentInput *input);
