/* Goes through the documents of a corpus: in order, in several threads, with a few megabytes of it in memory.
 *
 * Plain text is cut by SplitAt; a record of JSON or of a table is a document always. Lines of white space alone
 * separate documents, or are passed over, unless the document is a whole file, which stays as it is. A byte order mark
 * at the beginning of a file is no part of the text. A record that cannot be used is an error, or is left out and
 * counted. */
#pragma once

#include "data/slm/corpus_files.h"

typedef enum { SPLIT_AT_FILE, SPLIT_AT_BLANK_LINES, SPLIT_AT_LINE } SplitAt;

/* The largest document, in bytes of its file. */
#define CORPUS_MAX_DOCUMENT ((size_t)1 << 28)

/* The records that a pass has left out. Begin with {0}; free(first). */
typedef struct {
    int64_t n;
    char *first; /* "PATH: line N: why" */
} BadRecords;

typedef struct {
    const CorpusFiles *files; /* measured: a file that has changed since is an error */
    SplitAt split_at;
    const char *text_field; /* of JSON records, or the column of tables */
    bool nfc;
    int n_threads;
    BadRecords *bad; /* NULL: a record that cannot be used is an error, which names --skip-bad */
} Corpus;

typedef struct {
    int64_t number; /* in the corpus, from 0 */
    const CorpusFile *file;
    int64_t line;     /* where it begins, from 1 */
    const char *text; /* [size] clean (data/slm/clean.h) */
    size_t size;
    bool bad; /* it is a record that cannot be used, and has no text */
} Document;

/* The work that is done on each document. */
typedef struct {
    const char *purpose; /* for the line of progress: "reading" */
    void *context;
    size_t result_bytes; /* of a result, which begins as zeros */
    /* Computes the result of a document, but not of a bad one. thread: 0 .. n_threads - 1. Runs in several threads. */
    void (*work)(void *context, int thread, const Document *document, void *result);
    /* Takes the results in the order of the documents, in one thread; NULL: there is nothing to take. False with an
     * error ends the pass. */
    bool (*take)(void *context, const Document *document, void *result, Error *error);
} CorpusPass;

/* Runs a pass. The error names file and line. */
bool corpus_pass(const Corpus *corpus, const CorpusPass *pass, Error *error);
