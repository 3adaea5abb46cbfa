/* Tables, curves and pictures of scored test cells, which the reports of one fold and of all folds have in common. */
#pragma once

#include "commands/cv/report/fold_scores.h"
#include "report/curves.h"
#include "report/table.h"

typedef struct {
    /* given */
    const TestedFold *folds; /* rows[i].fold is an index of them */
    const BinaryRow *rows;   /* [n], of all of them */
    int64_t n;
    const char *directory, *suffix, *title; /* files are DIRECTORY/WHAT SUFFIX.csv: "_D5", or "" */
    CurveSet curves;
    char *const *warnings; /* [BASELINES] NULL: none */
    /* made */
    BinaryScores scores;
    MetricsCalibration calibration;
    Intervals intervals;
    Table summary, confusion, outcomes, deciles, donors;
    char *verdicts[3]; /* about the outcomes; NULL: there are no such cells */
    /* Over donors: correlation of the mean of their cells with their share of active cells. */
    double donor_photons, donor_size;
} CellTables;

bool cell_tables_make(CellTables *tables, Error *error);
bool cell_tables_write(const CellTables *tables, Error *error);
/* Prints a line for each warning, with a text before it. */
void cell_tables_print_warnings(const CellTables *tables, const char *before, FILE *out);
void cell_tables_print(const CellTables *tables);
void cell_tables_print_markdown(const CellTables *tables, FILE *out);
void cell_tables_to_json(const CellTables *tables, json_t *root);
void cell_tables_free(CellTables *tables);

/* Returns DIRECTORY/WHAT SUFFIX .EXTENSION. free() */
char *cell_tables_path(const CellTables *tables, const char *what, const char *extension);
bool cell_tables_write_csv(const CellTables *tables, const Table *table, const char *what, Error *error);
