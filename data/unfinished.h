/* Folders that are made of many files: DIRECTORY/.unfinished says from what, until all are there. A program that was
 * killed amid them, and is started again, goes on; another one does not mix its files with those. */
#ifndef DATA_UNFINISHED_H
#define DATA_UNFINISHED_H

#include "base/base.h"
#include "base/file.h"

/* Makes the directory, if need be, and takes it for this program, from before unfinished_find to behind unfinished_end.
 * Waits while another one writes it. Release with file_unlock, whatever has failed. */
bool unfinished_lock(FileLock *lock, const char *directory, Error *error);
/* Whether such a folder is unfinished; an error if it was begun from something else than `what`, a line of text. */
bool unfinished_find(const char *directory, const char *what, bool *found, Error *error);
/* For who reads such a folder: an error if it is unfinished. */
bool unfinished_check(const char *directory, Error *error);
/* Notes that it is unfinished. */
bool unfinished_begin(const char *directory, const char *what, Error *error);
bool unfinished_end(const char *directory, Error *error);

#endif
