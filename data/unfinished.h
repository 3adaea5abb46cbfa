/* Folders that are made of many files: DIRECTORY/.unfinished says from what, until all are there. A program that was
 * killed amid them, and is started again, goes on; another one does not mix its files with those. */
#ifndef DATA_UNFINISHED_H
#define DATA_UNFINISHED_H

#include "base/base.h"

/* Whether such a folder is unfinished; an error if it was begun from something else than `what`, a line of text. */
bool unfinished_find(const char *directory, const char *what, bool *found, Error *error);
/* For who reads such a folder: an error if it is unfinished. */
bool unfinished_check(const char *directory, Error *error);
/* Makes the directory, if need be, and notes that it is unfinished. */
bool unfinished_begin(const char *directory, const char *what, Error *error);
bool unfinished_end(const char *directory, Error *error);

#endif
