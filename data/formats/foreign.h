/* Formats of arrays that are not read: what a file is by the ending of its name, and what makes .npy of it. */
#ifndef DATA_FORMATS_FOREIGN_H
#define DATA_FORMATS_FOREIGN_H

#include "base/base.h"

enum { FOREIGN_FORMATS = 13 };
extern const struct ForeignFormat {
    const char *ending, *what, *advice; /* ".npz", "archives of NumPy", what to do */
} foreign_formats[FOREIGN_FORMATS];

/* Returns the format of a file with this name, in capitals too; -1: it is none of them. */
int foreign_format(const char *name);
/* Describes the format of which there are most files: "; 3 files are archives of NumPy (.npz): ..."; "" if there are
 * none. free() */
char *foreign_text(const int64_t counts[FOREIGN_FORMATS]);
/* Prints a line for each format that has files, below one that counts them all: "[Store] 3 of them are ...". */
void foreign_print(const char *label, const int64_t counts[FOREIGN_FORMATS]);

#endif
