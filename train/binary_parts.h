/* What the reports of one fold and of all folds have alike: of test cells that were judged, tables, curves, pictures.
 */
#ifndef TRAIN_BINARY_PARTS_H
#define TRAIN_BINARY_PARTS_H

#include "train/binary_judge.h"
#include "train/table.h"

/* Rows whose curve is drawn. */
typedef struct {
    const char *name;
    const BinaryRow *rows;
    int64_t n;
} BinaryCurve;

typedef struct {
    /* given */
    const BinaryFold *folds; /* rows[i].fold is a place in them */
    const BinaryRow *rows;   /* [n], of all of them */
    int64_t n;
    const char *directory, *suffix, *title; /* files are DIRECTORY/WHAT SUFFIX.csv: "_D5", or "" */
    const BinaryCurve *curves;              /* [n_curves] the first is of rows */
    int n_curves;
    char *const *warnings; /* [BINARY_BASELINES] NULL: none */
    /* made */
    BinaryScores scores;
    MetricsCalibration calibration;
    BinaryIntervals intervals;
    Table summary, confusion, outcomes, deciles, donors;
    char *verdicts[3]; /* of the outcomes; NULL where there are no such cells */
    double donor_photons,
        donor_size; /* over donors: correlation of their cells' mean with their share of active cells */
} BinaryParts;

bool binary_parts_make(BinaryParts *parts, Error *error);
bool binary_parts_write(const BinaryParts *parts, Error *error);
void binary_parts_print(const BinaryParts *parts);
void binary_parts_print_markdown(const BinaryParts *parts, FILE *out);
void binary_parts_to_json(const BinaryParts *parts, json_t *root);
void binary_parts_free(BinaryParts *parts);

/* DIRECTORY/WHAT SUFFIX .EXTENSION, free() */
char *binary_file_name(const BinaryParts *parts, const char *what, const char *extension);
bool binary_write_table(const BinaryParts *parts, const Table *table, const char *what, Error *error);
/* roc.csv .svg or precision_recall.csv .svg, unless all curves' cells are of one class. */
bool binary_write_curves(const BinaryParts *parts, bool roc, Error *error);

/* The columns of all scores. */
void binary_columns(Table *table, const BinaryScores *scores);
json_t *binary_confusion_to_json(const BinaryScores *scores); /* [[TN, FP], [FN, TP]] */
void binary_timestamp(char now[32]);                          /* "2026-01-31T12:00:00Z" */

#endif
