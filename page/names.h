/* The names on a page of the folders that it was given. */
#pragma once

#include "page/folders.h"

/* Returns a name for each of n directories, free() each and the list: the last component of its real path, preceded by
 * as many of its parents as tell it from the others. The same directory given twice has one name. */
char **names_make(const char *const *directories, int n);
void names_free(char **names, int n);
/* Removes folders that are there already, as when a folder is given beside its parent. */
void names_drop_repeated(Folders *folders);
