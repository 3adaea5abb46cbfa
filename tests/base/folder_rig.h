/* A new folder for each test of files, and the files in it. */
#pragma once

#include "tests/test.h"

extern const char *root; /* the folder */

/* Sets up a test: makes the folder. */
int fresh(void **state);
/* Returns the path of a name in root; valid for a few more calls. */
const char *in(const char *name);
/* Returns the names in root, each followed by a space, until the next call. */
const char *listing(void);
/* Fails unless the file has this text. */
void expect_text(const char *path, const char *want);
/* Writes a file with file_write_atomic. */
void must_write(const char *path, const char *text);
