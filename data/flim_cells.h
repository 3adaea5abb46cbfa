/* Single cells of FLIM: a folder of donors' folders of arrays (H, W, T) of photon counts, one a cell, and all of them
 * in one file beside it, so that they are read once: cells/ has cells.flim.safetensors, made anew when a name, size or
 * time of a file is another.
 *
 * The donor is the folder, less a leading "isolated_cells_". A name with "_in" is of an inactive cell (0), else
 * one with "_act" of an active cell (1); what is before that is the field of view, with a prefix: d01m2_act_cell_7.npy
 * is of field m2, prefix d01. Names are unique only together with their folder.
 *
 * Tensors: counts U8 or U16 [n, T, H, W], the smaller that holds the greatest; footprint U8 [n, H, W]; I32 [n] label,
 * donor, field, size, peak, same_as; F64 [n] photons, entropy. The metadata hold "donors", "fields" and "files", JSON
 * lists of names, "told", what was found in the files, and "source", the hash of what the store was made from. */
#ifndef DATA_FLIM_CELLS_H
#define DATA_FLIM_CELLS_H

#include "base/base.h"
#include "data/safetensors.h"
#include "kernels/flim.h"

enum { FLIM_INACTIVE, FLIM_ACTIVE, FLIM_CLASSES };
extern const char *const FLIM_CLASS_NAMES[FLIM_CLASSES];

/* The arrays lie in the file, which is mapped: they are not to be written. */
typedef struct {
    int64_t n; /* cells, by donor, then by name; numbers in names in their order: D2 before D10 */
    FlimShape shape;
    int bits;                        /* of a count: 8 or 16 */
    const void *counts;              /* [n, T, H, W] */
    const unsigned char *footprints; /* [n, H, W] 0, 1: has photons at any time */
    const int32_t *labels, *donors;  /* [n] */
    const int32_t *fields;           /* [n] the field of view; of different donors different */
    const int32_t *sizes;            /* [n] pixels of the footprint */
    const int32_t *peaks;            /* [n] the first bin of most photons */
    const int32_t *same_as;          /* [n] the first cell of the same counts; itself if there is none before it */
    const double *photons;           /* [n] */
    const double *entropy;           /* [n] bits: of the image at the peak bin */
    int n_donors, n_fields;
    const char **donor_names, **field_names, **file_names; /* "D1"; "D1 m2"; "isolated_cells_D1/d01m2_act_cell_7.npy" */

    void *lists[3]; /* own the names */
    TensorFile file;
} FlimCells;

/* Opens the store of a folder, which is made first if need be, in parallel; what was found is printed. A path that ends
 * in .safetensors is a store itself. With `compat` the entropy's axes are repaired as the reference has it: if T < H,
 * rows are taken for time. n_threads 0: all cores. */
bool flim_cells_open(FlimCells *cells, const char *path, bool compat, int n_threads, Error *error);
void flim_cells_close(FlimCells *cells);
/* "some/cells/", ".doctor.json" -> "some/cells.doctor.json": what lies beside the folder. free() */
char *flim_cells_path(const char *root, const char *ending);
extern const char FLIM_CELLS_ENDING[]; /* of the store: ".flim.safetensors" */
/* The counts of a cell, [T, H, W]. */
void flim_cells_counts(const FlimCells *cells, int64_t cell, float *out);
/* Returns the checksum of the counts of a cell, whether the store has them as bytes or not. */
uint64_t flim_cells_sum(const FlimCells *cells, int64_t cell);

/* What a file's name says. */
typedef struct {
    int label;         /* -1: neither */
    bool both;         /* has both marks: it is taken for inactive */
    int prefix, field; /* the lengths of "d01" and, behind it, "m2"; without such an end all of it is the field */
} FlimName;
FlimName flim_name(const char *name);

/* -sum p log2 p of the image at the first bin of most photons; 0 of an empty one. */
double flim_entropy(const uint16_t *counts, FlimShape shape, bool compat);

#endif
