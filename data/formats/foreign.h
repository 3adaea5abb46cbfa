/* Formats of arrays that are not read: what a file is by the ending of its name, or by its first bytes if these are not
 * what the name says; and what makes .npy of it. data/text/encoding.h says the same of files that should be text, and
 * what makes text of them. */
#pragma once

#include "base/base.h"

enum { FOREIGN_FORMATS = 14 };
extern const struct ForeignFormat {
    const char *ending, *bytes, *what, *advice; /* ".npz", the first bytes or NULL, "archives of NumPy", what to do */
} foreign_formats[FOREIGN_FORMATS];

/* Returns the format of a file with this name, in capitals too; -1: it is none of them. */
int foreign_format(const char *name);
/* Describes the format of which there are most files: "; 3 files are archives of NumPy (.npz): ..."; "" if there are
 * none. free() */
char *foreign_text(const int64_t counts[FOREIGN_FORMATS]);
/* Describes what a file is that does not begin as one of its name does: "; it begins as .h5 files do (HDF5): ...", ";
 * it is a pointer of Git LFS, ...", "; it is empty"; "" if that is not known. free() */
char *foreign_of_bytes(const void *bytes, size_t size);
/* Prints a line for each format that has files, below one that counts them all: "[Store] 3 of them are ...". */
void foreign_print(const char *label, const int64_t counts[FOREIGN_FORMATS]);
