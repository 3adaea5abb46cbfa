/* Reads a TIFF stack of photon counts with libtiff: a page for each time bin. Pages of 8- to 64-bit integers or 16- to
 * 64-bit floats, of either byte order, BigTIFF, strips or tiles, without compression or with a lossless one. Also
 * stacks of ImageJ that have one page, which the others' numbers follow.
 *
 * Descriptions of ImageJ, OME and tifffile say what the pages are. A stack of several axes (channels, slices, frames)
 * beside height and width is refused: none of them is known to be the time. So is a file of several series, as tifffile
 * writes them: all pages must be those of the first, or each page a series of its own. */
#pragma once

#include "base/base.h"

/* Flags of pages whose numbers may be no counts: indices of a palette; 0 is said to be white. */
typedef struct {
    bool palette, inverted;
} TiffKind;

/* Converts the pages to values [H, W, T]; dims: H, W, T. free(*values), which is NULL after an error. libtiff's own
 * messages become part of the error and are never printed. kind: may be NULL. */
bool tiff_read(const void *bytes, size_t size, int64_t dims[3], double **values, TiffKind *kind, Error *error);
