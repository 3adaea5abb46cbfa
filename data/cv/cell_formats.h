/* Files of one cell: an image of photon counts, [H, W, T]. */
#pragma once

#include "base/base.h"

typedef enum { CELL_NPY, CELL_TIFF, CELL_SDT, CELL_KINDS } CellKind;

/* The endings that are read, for messages. */
extern const char CELL_ENDINGS[];

/* Returns the kind of a file by the ending of its name, in capitals too; CELL_KINDS: none. */
CellKind cell_kind(const char *name);

/* The contents of a file in C order; an array of numbers may have any rank. free(values) */
typedef struct {
    int rank;
    int64_t dims[8];
    double *values;
    bool palette, inverted; /* of a TIFF (tiff.h) */
} CellImage;

/* Reads a file whose name has one of the endings. An error names the path. */
bool cell_image_read(const char *path, CellImage *image, Error *error);
