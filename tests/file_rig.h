/* Helpers for tests of functions that read or write a file whose name a user gives. */
#pragma once

#include "tests/test.h"

typedef struct {
    const char *name;
    bool (*read)(const char *path, Error *error);
} FileReaderCase;

typedef struct {
    const char *name;
    bool (*write)(const char *path, Error *error);
    bool appends, reads; /* reads: reads an existing file first, which must have the right format */
} FileWriterCase;

typedef struct {
    const FileReaderCase *readers;
    int n_readers;
    const FileWriterCase *writers;
    int n_writers;
} FileCases;

/* Runs the tests of these readers and writers and returns the exit status of the test program. Every reader must refuse
 * a FIFO, a folder and a device without reading them (paths end in .tsv). Every writer must refuse to replace what is
 * not a regular file, and must leave the old file whole, and no other file, when the disk is full. */
int file_tests_run(FileCases cases);
#define FILE_TESTS_RUN(readers, writers)                                                                               \
    file_tests_run((FileCases){readers, sizeof readers / sizeof *readers, writers, sizeof writers / sizeof *writers})
