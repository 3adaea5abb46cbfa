/* What the evaluation of a classifier leaves on disk and says on the terminal.
 *
 * Every file is written whole or not at all, into a directory that is there; an error names the file. What the terminal
 * shows are the first columns of the same tables, to four decimals. */
#ifndef TRAIN_CLASSIFICATION_REPORT_H
#define TRAIN_CLASSIFICATION_REPORT_H

#include "train/evaluation.h"

/* One evaluation, with probabilities softmax(logits / temperature). `protocol` says how rows were chosen ("pooled"),
 * `tag` what was evaluated ("finetuned"). Into the directory:
 *   PROTOCOL_TAG.csv .json .md              one line of scores; everything; everything for people
 *   confusion_matrix_PROTOCOL_TAG.svg, reliability_PROTOCOL_TAG.svg
 *   per_class_TAG.csv, per_GROUPKIND_TAG.csv, per_snr_TAG.csv (bins of 5 dB), predictions_TAG.csv */
bool report_classification(const Predictions *predictions, double temperature, const char *directory,
                           const char *protocol, const char *tag, Error *error);

/* Calibrations fitted on validation rows, judged on test rows: one temperature, vector scaling, and, where both have an
 * SNR, a temperature by SNR. Into the directory: temp_scaling_results.csv, vector_scaling_results.csv,
 * snr_aware_results.csv, calibration.json, reliability_before.svg and a reliability_*.svg for each. *fitted: false
 * if the error is that a calibration has no best parameters, as of a classifier that knows nothing, or everything. */
bool report_calibration(const Predictions *validation, const Predictions *test, const char *directory, bool *fitted,
                        Error *error);

/* One of many trainings, each tested on another group ("sensor"), or on the same from other rows. */
typedef struct {
    const char *group;            /* that was tested */
    int shots;                    /* rows a class that it was trained on; 0: none of this group */
    int64_t seed;                 /* with shots */
    const Evaluation *evaluation; /* of the same classes in all */
} FoldResult;

/* PROTOCOL_results.csv ("loso_results.csv"): a row a fold, then MEAN and STD (divisor n - 1) of every column; with
 * shots, columns k and seed, and MEAN and STD for each k. A score that a fold has not, F1 of a class without rows, is
 * empty and in no mean. PROTOCOL_results.json and .md besides, with the worst group and 95 % intervals of the means by
 * the bootstrap over groups. */
bool report_folds(const FoldResult *folds, int n, const char *group_kind, const char *protocol, const char *directory,
                  Error *error);

#endif
