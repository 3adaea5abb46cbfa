/* Tells the class of a cell: by a word in its file's name, by the folder that it lies in, or by a table.
 *
 * A class word stands behind '_', in either case, and ends before '_', '.', a digit or the end of the name:
 * d01m2_act_7.npy, m3_IN.npy, m1_inactive_2.tif. A folder of a class has such a word as its whole name. */
#pragma once

#include "base/json.h"

enum { CV_QUIESCENT, CV_ACTIVE, CV_CLASSES };
extern const char *const CV_CLASS_NAMES[CV_CLASSES];

typedef struct {
    int label;         /* -1: neither */
    bool both;         /* has two classes that exclude each other, which is an error */
    int prefix, field; /* the lengths of "d01" and of the "m2" after it; without such an ending all is the field */
} CvCellName;
/* Reads the label and the field of view from a file's name by the usual words. */
CvCellName cv_cells_parse_name(const char *name);

typedef struct {
    const char *words[CV_CLASSES]; /* of each class, separated by '/' */
    char *own;                     /* --class-words, cut into words; NULL: the usual ones */
    const char *table;             /* --class-table; NULL: none */
    json_t *labels;                /* of the table: names of files and their labels; a list once it is used */
    uint64_t hash;                 /* of everything above; 0: the usual words and no table */
} CellClasses;

/* Reads --class-words ("rest/ctrl,act": the words of quiescent and of active cells) and --class-table (a CSV with the
 * columns file, a path below the folder of cells or a name, and class, a class word, 0 or 1); each may be NULL. */
bool cell_classes_open(CellClasses *classes, const char *words, const char *table, Error *error);
void cell_classes_close(CellClasses *classes);

/* Returns the class whose word is the whole name of a folder; -1: none. */
int cell_classes_of_folder(const CellClasses *classes, const char *folder);
/* Sets parsed->label of the file with this path below the folder of cells and parsed->field of its name: by the table
 * if there is one, otherwise by its name and the folder in its donor's folder. An error says that these have two
 * classes; the label is then -1. */
bool cell_classes_of_file(CellClasses *classes, const char *path, CvCellName *parsed, Error *error);
/* Returns the file of the table's first row; NULL: there is no table. */
const char *cell_classes_first(const CellClasses *classes);
/* Returns how many rows of the table were asked for by no file. */
int64_t cell_classes_unused(const CellClasses *classes);
