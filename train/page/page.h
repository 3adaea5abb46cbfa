/* report.html: what a run, or several side by side, came to, on one page of at most 400 KB without scripts or links to
 * anything outside, from log.jsonl and the result files alone. */
#ifndef TRAIN_PAGE_PAGE_H
#define TRAIN_PAGE_PAGE_H

#include "base/base.h"

enum { PAGE_LIMIT = 400 * 1000 /* bytes */, PAGE_DEPTH = 2 };

typedef struct {
    const char *const *directories; /* [n] of runs: with log.jsonl, with folders that have one, or with results */
    int n;
    int depth;       /* how many folders below are searched for trainings and results: PAGE_DEPTH finds all */
    bool is_running; /* the run itself writes the page, before its end */
} PageRequest;

/* What a page shows. */
typedef struct {
    size_t bytes;
    int trainings, results, left_out; /* left_out: reports, pictures and sounds without room */
} PageSummary;

/* Writes the page, atomically. Fails if there is nothing to show, a log is damaged (the error names its line), or the
 * file cannot be written. *summary is optional. */
bool page_write(const char *path, const PageRequest *request, PageSummary *summary, Error *error);
/* Writes DIRECTORY/report.html about the run of that folder. Returns false with the reason. */
bool page_write_in(const char *directory, int depth, bool is_running, Error *error);

#endif
