/* The text files of a corpus: files that are named, and those of folders, with the folders below, sorted by name.
 *
 * Files that end in .txt, .text, .md, .jsonl or .ndjson are taken from a folder, each also with .gz behind it, in any
 * case; hidden files and folders and all others are left out and counted. A file that is named itself is taken whatever
 * its name. Files that end in .jsonl or .ndjson (.gz) hold a JSON object per line, all others plain text. */
#ifndef DATA_SLM_CORPUS_FILES_H
#define DATA_SLM_CORPUS_FILES_H

#include "base/base.h"

typedef struct {
    char *path, *name; /* name: below the folder that was given, or the last component of the path */
    bool jsonl, held_out;
    int64_t size; /* bytes as they are on the disk; -1: not measured */
    uint64_t sum;
} CorpusFile;

typedef struct {
    CorpusFile *files;
    int64_t n, capacity;
    int64_t left_out;
    char *first_left_out; /* NULL: none */
} CorpusFiles;

/* Adds a file, or those of a folder. held_out: their documents are for validation. */
bool corpus_files_add(CorpusFiles *files, const char *path, bool held_out, Error *error);
/* Reads all files and keeps their sizes and checksums. */
bool corpus_files_measure(CorpusFiles *files, int n_threads, Error *error);
void corpus_files_close(CorpusFiles *files);

#endif
