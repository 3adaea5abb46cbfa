/* Writes a zip of entries without compression straight into a file, in one go: what is in memory is not copied. */
#pragma once

#include "base/base.h"

enum { ZIP_STORE_ALIGNMENT = 64 };

typedef struct {
    char *name; /* UTF-8, at most 65,535 bytes */
    const void *bytes;
    size_t size;
} ZipEntry;

/* Writes the file whole or not at all. The data of every entry begin at a multiple of ZIP_STORE_ALIGNMENT bytes, so
 * that they can be mapped; an extra field of the entry's header fills the gap. The same entries give the same bytes:
 * all times are the first day of the zip's calendar. Files and entries may be larger than 4 GiB. */
bool zip_store(const char *path, const ZipEntry *entries, int n, Error *error);
