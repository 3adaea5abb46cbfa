/* Makes the store of a folder of cells (cells.h) from its files: reads their counts, and computes the columns. */
#pragma once

#include "data/cv/cell_files.h"
#include "kernels/augment.h"

/* Reads the files that were found, and writes the store `path`, with the source cell_files_source. Counts in
 * files->found what is odd in them. An error names the first bad file, whatever the number of threads. */
bool cell_store_make(CellFiles *files, bool compat, const char *path, const char *source, int n_threads, Error *error);

/* Returns -sum p log2 p, in bits, of the image at the first of the bins with most photons; 0 if there are no photons.
 * compat: takes rows for time if T < H, as the reference does. */
double cell_store_entropy(const uint16_t *counts, AugmentShape shape, bool compat);
