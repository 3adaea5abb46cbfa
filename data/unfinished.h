/* Marks folders that a program fills with many files. DIRECTORY/.unfinished names the input until all files are
 * written. A program that was killed and started again continues; a program with another input does not mix its files
 * with the existing ones. */
#pragma once

#include "base/base.h"
#include "base/file.h"

/* Creates the directory if needed and locks it. Waits while another program has the lock. Hold the lock from before
 * unfinished_find until after unfinished_end; release it with file_unlock, also after errors. */
bool unfinished_lock(FileLock *lock, const char *directory, Error *error);
/* Sets *found to whether the folder is unfinished. Fails if it was begun from something other than `what`, a line of
 * text. */
bool unfinished_find(const char *directory, const char *what, bool *found, Error *error);
/* Fails if the folder is unfinished. For readers of the folder. */
bool unfinished_check(const char *directory, Error *error);
/* Marks the folder as unfinished. */
bool unfinished_begin(const char *directory, const char *what, Error *error);
bool unfinished_end(const char *directory, Error *error);
