/* Scores of a fold: its threshold, the network and the baselines, the temperature. Reports are made of these. */
#pragma once

#include "commands/cv/report/baselines.h"
#include "report/table.h"

typedef struct {
    const TestedFold *fold;
    double training_share;
    Threshold threshold;
    BinaryRow *validation, *test; /* [n] */
    BinaryScores plain, tuned; /* of validation: unchanged cells at 0.5, as epochs are compared; p at the threshold */
    BinaryScores network;      /* of the test cells */
    BinaryScores kept,
        dropped; /* of test cells that the filter of training cells keeps, and drops; n 0: there are none */
    Baselines baselines;
    double temperature;         /* of the logits of unchanged cells, fitted on validation; NaN: no best one, */
    Error no_temperature;       /* and why */
    BinaryScores before, after; /* of the test cells: sigmoid(logit), sigmoid(logit / temperature), at 0.5 */
} FoldScores;

/* Checks and scores a fold. number: its index, for the rows. An error names the fold; then there is nothing to free. */
bool fold_scores_make(const TestedFold *fold, int number, FoldScores *scores, Error *error);
void fold_scores_free(FoldScores *scores);

/* Adds a row for the network, for the cells that the filter keeps and drops, and for each baseline. */
void fold_scores_rows(const FoldScores *scores, Table *table);
/* Returns the keys of the reference's cross_validation_results.json and final test results, and our own. */
json_t *fold_scores_to_json(const FoldScores *scores);
char *fold_scores_threshold_text(const FoldScores *scores); /* explains the threshold; free() */
/* Returns the donors of some cells: "D1 D2". free() */
char *donor_names_of(const CvCells *cells, const int32_t *ids, int64_t n);
