/* Reports of a classifier of K classes: files, and the first columns of the same tables on the terminal.
 *
 * Every file is written whole or not at all, into a directory that exists; an error names the file. */
#pragma once

#include "report/evaluation.h"

/* Reports one evaluation, with probabilities softmax(logits / temperature). `protocol` names how rows were chosen
 * ("pooled"), `tag` what was evaluated ("finetuned"). Into the directory:
 *   PROTOCOL_TAG.csv .json .md              one line of scores; everything; everything for people
 *   confusion_matrix_PROTOCOL_TAG.svg, reliability_PROTOCOL_TAG.svg
 *   roc_PROTOCOL_TAG.svg, precision_recall_PROTOCOL_TAG.svg      each class against the rest
 *   per_class_TAG.csv, per_GROUPKIND_TAG.csv, per_COVARIATE_TAG.csv, predictions_TAG.csv */
bool report_classification(const Predictions *predictions, double temperature, const char *directory,
                           const char *protocol, const char *tag, Error *error);

/* Fits calibrations on validation rows and evaluates them on test rows: one temperature, vector scaling, and, where
 * both have a covariate, a temperature by it. Into the directory: temp_scaling_results.csv, vector_scaling_results.csv,
 * COVARIATE_aware_results.csv, calibration.json and .md, reliability_before.svg and a reliability_*.svg for each.
 * *fitted: false if the error is that a calibration has no best parameters, as for a classifier that knows nothing, or
 * everything. Appends each calibration to the array `fits` (calibration_to_json), unless it is NULL. */
bool report_calibration(const Predictions *validation, const Predictions *test, const char *directory, json_t *fits,
                        bool *fitted, Error *error);

/* One of many trainings, tested on another group ("sensor") each, or on the same one after other training rows. */
typedef struct {
    const char *group;            /* that was tested */
    int shots;                    /* rows of each class of this group that it was trained on; 0: none */
    int64_t seed;                 /* with shots */
    const Evaluation *evaluation; /* of the same classes in all */
} FoldResult;

/* Reports folds in PROTOCOL_results.csv ("loso_results.csv"): a row per fold, then MEAN and STD (divisor n - 1) of
 * every column; with shots, columns k and seed, and MEAN and STD for each k. A score that a fold lacks, F1 of a class
 * without rows, is empty and in no mean. Those of two classes at a threshold (evaluation_at) also have precision and
 * recall of the second, the area below the ROC curve and the threshold. PROTOCOL_results.json and .md have besides the
 * worst group and 95 % intervals of the means by the bootstrap over groups. */
bool report_folds(const FoldResult *folds, int n, const char *group_kind, const char *protocol, const char *directory,
                  Error *error);
