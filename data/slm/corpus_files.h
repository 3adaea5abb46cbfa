/* The text files of a corpus: files that are named, and those of folders, with the folders below, sorted by name.
 *
 * The end of a name says what a file is, in any case, also with .gz behind it: .txt, .text and .md plain text, .jsonl
 * and .ndjson a JSON object per line, .json that or an array, .csv and .tsv a table. Of a folder, plain text and lines
 * of JSON are taken, or with a given format the files whose names say it; hidden files and folders and all others are
 * left out and counted. A file that is named itself is taken whatever its name. If its name says nothing, it is plain
 * text, unless it begins as something else: then the format must be given. */
#pragma once

#include "base/base.h"

typedef enum { CORPUS_BY_NAME, CORPUS_TEXT, CORPUS_JSON, CORPUS_CSV, CORPUS_TSV } CorpusFormat;

typedef struct {
    char *path, *name;   /* name: below the folder that was given, or the last component of the path */
    CorpusFormat format; /* CORPUS_BY_NAME: neither told nor said by the name */
    bool usual;          /* plain text or lines of JSON by its name, or nothing */
    bool held_out;
    int64_t size; /* bytes as they are on the disk; -1: not measured */
    uint64_t sum;
} CorpusFile;

/* Begin with {.format = ...}. */
typedef struct {
    CorpusFormat format; /* of all files */
    CorpusFile *files;
    int64_t n;
    int64_t left_out;
    char *first_left_out; /* NULL: none */
} CorpusFiles;

/* The kinds of input that a name tells, for help. */
// clang-format off
#define CORPUS_INPUTS "texts (.txt .text .md), JSON (.jsonl .ndjson .json), tables (.csv .tsv), or folders of texts " \
                      "and JSON Lines, plain or .gz"
// clang-format on
/* Returns the format by its name as an option: auto, text, json, csv or tsv (CORPUS_FORMATS). */
#define CORPUS_FORMATS "auto|text|json|csv|tsv"
CorpusFormat corpus_format(const char *name);
/* Adds a file, or those of a folder. held_out: their documents are for validation. */
bool corpus_files_add(CorpusFiles *files, const char *path, bool held_out, Error *error);
/* Reads all files and keeps their sizes and checksums. Decides what files are whose names do not say it. */
bool corpus_files_measure(CorpusFiles *files, int n_threads, Error *error);
void corpus_files_close(CorpusFiles *files);
