/* report.html: what a run, or several side by side, came to, on one page of at most 400 KB without scripts or links to
 * anything outside, from log.jsonl and the result files alone. */
#pragma once

#include "base/base.h"

enum { PAGE_LIMIT = 400 * 1000 /* bytes */, PAGE_DEPTH = 2 };

typedef struct {
    const char *const *directories; /* [n] of runs: with log.jsonl, with folders that have one, or with results */
    int n;
    int depth;       /* how many folders below are searched for trainings and results: PAGE_DEPTH finds all */
    bool is_running; /* the run of directories[0], or what trains within it, writes the page before its end */
} PageRequest;

/* The contents of a page. */
typedef struct {
    size_t bytes;
    int trainings, results, left_out; /* left_out: reports, pictures and sounds without room */
} PageSummary;

/* Writes the page, atomically. Fails if there is nothing to show, one of the directories cannot be read, its log is
 * damaged (the error names the line), or the file cannot be written. Folders within that cannot be read, or have a
 * damaged log, are listed as left out. *summary is optional. */
bool page_write(const char *path, const PageRequest *request, PageSummary *summary, Error *error);
/* Writes DIRECTORY/report.html about the run of that folder. Returns false with the reason. */
bool page_write_in(const char *directory, int depth, bool is_running, Error *error);
/* Writes that page after work that has succeeded without it: warns if it fails, and returns false. */
bool page_write_or_warn(const char *directory, int depth, bool is_running);
