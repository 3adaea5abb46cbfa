/* A fold's predictions as they are judged: threshold, scores, baselines, temperature. Reports are made of these. */
#ifndef TRAIN_BINARY_JUDGE_H
#define TRAIN_BINARY_JUDGE_H

#include "train/binary_baselines.h"
#include "train/table.h"

typedef struct {
    const BinaryFold *fold;
    double training_share;
    Threshold threshold;
    BinaryRow *validation, *test; /* [n] */
    BinaryScores plain, tuned;    /* of validation: un-augmented at 0.5, as epochs are compared; p at the threshold */
    BinaryScores network;         /* of the test cells */
    BinaryScores kept, dropped;   /* of those that the training's filter keeps, and drops; n is 0 where it has none */
    BinaryBaselines baselines;
    double temperature;         /* of the un-augmented logits, fitted on validation; NaN: none is best, */
    Error no_temperature;       /* and why */
    BinaryScores before, after; /* of the test cells: sigmoid(logit), sigmoid(logit / temperature), at 0.5 */
} BinaryJudged;

/* number: the fold's, for its rows. An error names the fold, and there is nothing to free. */
bool binary_judge(const BinaryFold *fold, int number, BinaryJudged *judged, Error *error);
void binary_judged_free(BinaryJudged *judged);

/* A row for the network, for what it makes of cells that the filter keeps and drops, and for each baseline. */
void binary_judged_rows(const BinaryJudged *judged, Table *table);
/* With the keys of the reference's cross_validation_results.json and of its final test's results, and our own. */
json_t *binary_judged_to_json(const BinaryJudged *judged);
/* The donors of some cells: "D1 D2". free() */
char *binary_donors(const BinaryCells *cells, const int32_t *ids, int64_t n);

#endif
