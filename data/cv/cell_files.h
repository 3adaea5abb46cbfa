/* Finds the files of cells in a folder of donors' folders, with the class, the donor and the field of view that their
 * names and folders tell; and counts what is left out, or odd. */
#pragma once

#include "data/cv/cell_classes.h"
#include "data/cv/cell_formats.h"
#include "data/formats/foreign.h"

/* The file of one cell. */
typedef struct {
    char *path;        /* below the root: "isolated_cells_D1/d01m2_act_cell_7.npy" */
    const char *name;  /* the end of path */
    const char *donor; /* [donor_length] in path, after isolated_cells_; of a file in the root: the root's name */
    int donor_length, folder; /* folder: the length of the donor's folder in path; 0: the file is in the root */
    CvCellName parsed;
    int64_t state[5]; /* bytes; seconds and nanoseconds of the last change of the contents, and of any change */
} CellFile;

/* Kinds of files and folders that are counted, and then reported: while the folder is listed, and from CELL_PALETTE on
 * while the files are read. */
enum {
    CELL_UNLABELLED = CELL_KINDS,
    CELL_BOTH,
    CELL_ROWS,
    CELL_OTHERS,
    CELL_NOT_REGULAR,
    CELL_DEEPER,
    CELL_PALETTE,
    CELL_INVERTED,
    CELL_SUMS,
    CELL_FINDINGS
};
extern const struct CellFinding {
    const char *key, *text; /* "npy", "cells are .npy files" */
} cell_findings[CELL_FINDINGS];

typedef struct {
    const char *root;
    bool unlabelled; /* for cells to be predicted: CvCellsOptions (cells.h) */
    CellClasses classes;
    CellFile *files;
    int64_t n, found[CELL_FINDINGS], foreign[FOREIGN_FORMATS];
    char *nameless; /* the first file that has no class; NULL: none */
} CellFiles;

/* Lists the folder files->root. Sorted by donor, then by path; numbers in names count as numbers. An error names the
 * first file or folder that cannot be taken; cell_files_close also then. */
bool cell_files_find(CellFiles *files, Error *error);
void cell_files_close(CellFiles *files);
/* Returns a hash of what the store of these files is made from: its version, what tells the classes, and the files'
 * names, sizes and times. free() */
char *cell_files_source(const CellFiles *files, bool compat);
/* Checks that a donor's name, name[n], can be given in options. */
bool cell_files_check_donor(const char *name, int n, Error *error);
