/* Single cells of fluorescence lifetime imaging (FLIM): a folder of donors' folders with one array (H, W, T) of photon
 * counts per cell: .npy, a TIFF stack with a page for each time bin (tiff.h), or .sdt (sdt.h). All cells are collected
 * in one file beside the folder, the store: cells/ has cells.flim.safetensors, which is made anew when the name, size
 * or a time of a file changes, also that of its inode, which cp -p and rsync do not keep.
 *
 * The donor is the name of the folder without a leading "isolated_cells_". The class is a word of the file's name,
 * "_in" of a quiescent cell (0), "_act" of an active one (1), or the name of a folder in the donor's, or is in a table
 * (cell_classes.h). What comes before the word is a prefix and the field of view: d01m2_act_cell_7.npy has prefix d01
 * and field m2. File names are unique only together with their folder.
 *
 * Tensors of the store: counts U8 or U16 [n, T, H, W], the smaller type that holds the largest count; footprint U8
 * [n, H, W]; I32 [n] label, donor, field, size, peak, same_as; F64 [n] photons, entropy. Metadata: "donors", "fields"
 * and "files", JSON lists of names; "findings", how many files of each kind there are and what was odd;
 * "source", a hash of what the store was made from. */
#pragma once

#include "base/base.h"
#include "data/cv/cell_classes.h"
#include "data/formats/safetensors.h"
#include "kernels/augment.h"

/* The arrays lie in the mapped file and cannot be written. */
typedef struct {
    int64_t n; /* cells, sorted by donor, then by path; numbers in names count as numbers: D2 comes before D10 */
    AugmentShape shape;
    int bits;                        /* per count: 8 or 16 */
    const void *counts;              /* [n, T, H, W] */
    const unsigned char *footprints; /* [n, H, W] 1: the pixel has photons */
    const int32_t *labels, *donors;  /* [n] labels: -1 if unknown, only in a store for prediction */
    const int32_t *fields;           /* [n] the field of view; each belongs to one donor */
    const int32_t *sizes;            /* [n] pixels of the footprint */
    const int32_t *peaks;            /* [n] the first of the bins with most photons */
    const int32_t *same_as; /* [n] the first cell with the same counts; the cell itself if there is none before, or
                               without a photon, where all are alike */
    const double *photons;  /* [n] */
    const double *entropy;  /* [n] bits, of the image at the peak bin */
    int n_donors, n_fields;
    const char **donor_names, **field_names, **file_names; /* "D1"; "D1 m2"; "isolated_cells_D1/d01m2_act_cell_7.npy" */

    void *lists[3]; /* own the names */
    void *memory;   /* of cv_cells_blank: owns the columns */
    TensorFile file;
} CvCells;

typedef struct {
    bool compat;     /* entropies as the reference's, which takes rows for time if T < H */
    bool unlabelled; /* for cells to be predicted: labels may be unknown, and files may lie in the folder itself, as
                        cells of a donor of its name. The store is cells.predict.flim.safetensors */
    const char *class_words, *class_table; /* cell_classes_open; NULL: the usual words, no table */
    int n_threads;                         /* 0: all cores */
} CvCellsOptions;

/* Opens the store of a folder, made first if need be, and prints what was found. A path that ends in .safetensors is a
 * store itself, and has its classes in it. */
bool cv_cells_open(CvCells *cells, const char *path, const CvCellsOptions *options, Error *error);
/* Makes n cells of two donors without any photon, every other one active, for estimates without data. */
void cv_cells_blank(CvCells *cells, int64_t n, AugmentShape shape);
void cv_cells_close(CvCells *cells);
/* Returns the path of a file beside the folder: "some/cells/", ".x" -> "some/cells.x". free() */
char *cv_cells_path(const char *root, const char *ending);
extern const char CV_CELLS_ENDING[]; /* the store's: ".flim.safetensors" */
/* Copies the counts of a cell, [T, H, W]. */
void cv_cells_counts(const CvCells *cells, int64_t cell, float *out);
/* Returns the checksum of a cell's counts, the same for 8 and 16 bits. */
uint64_t cv_cells_checksum(const CvCells *cells, int64_t cell);
