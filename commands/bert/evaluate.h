/* Tests of a classifier: the decision that validation texts choose, and the reports of a split. */
#ifndef COMMANDS_BERT_EVALUATE_H
#define COMMANDS_BERT_EVALUATE_H

#include "data/bert/classes.h"
#include "report/evaluation.h"
#include "report/threshold.h"

/* Labelled texts, and what a classifier says of them. */
typedef struct {
    const char *name; /* "validation", "test": a part of the names of files */
    const Classes *classes;
    int64_t n;
    const char *const *texts; /* [n] as the file has them */
    const int64_t *lines;     /* [n] in their file, from 1: how reports call a text */
    const int32_t *labels;    /* [n] */
    const float *logits;      /* [n, classes] */
} BertTested;

/* How decisions follow from the logits: decision.json of a checkpoint. Of two classes the second is predicted if its
 * probability, softmax(logits), is above the threshold; of more the most probable one. */
typedef struct {
    bool kept;          /* false: there is no decision.json; the threshold is 0.5 */
    double threshold;   /* NaN with more than two classes */
    double temperature; /* probabilities softmax(logits / temperature) are calibrated; NaN: there is none */
} BertDecision;

/* Fits the temperature and, of two classes, chooses the threshold on validation texts, and prints both. If one has no
 * answer, warns, and takes none, or 0.5. training_share: of texts of the second class in training. */
BertDecision bert_decide(const BertTested *validation, ThresholdRule rule, double training_share);
/* Writes decision.json beside the weights of a checkpoint (its folder). */
bool bert_decision_write(const char *checkpoint, const BertDecision *decision, Error *error);
/* Reads it. */
bool bert_decision_read(const char *checkpoint, int classes, BertDecision *decision, Error *error);

/* Reports one split, NAME, into a directory that exists:
 *   evaluation_NAME.csv .json .md and the other files of report_classification
 *   threshold_NAME.csv .json .md .svg    two classes: scores at the threshold and at 101 thresholds, histograms
 *   report_NAME.json                     two classes: the fields of the reference's report.json
 *   errors_NAME.csv .json .md            wrong predictions with their texts, the most confident first; the last two
 *                                        have the first 20
 * Fills *result (of argmax; evaluation_free), unless it is NULL. */
bool bert_report(const BertTested *tested, const BertDecision *decision, const char *directory, Evaluation *result,
                 Error *error);

/* What follows a training. */
typedef struct {
    const char *checkpoint; /* its best: decision.json is written there */
    const char *directory;  /* of the run: for reports */
    ThresholdRule rule;
    double training_share; /* of texts of the second class in training */
} BertTestRun;

/* Decides on validation texts, writes decision.json, reports both splits and the calibration (report_calibration), and
 * writes report.html. test: NULL if there are no such texts. results[2]: of validation and test; evaluation_free. Dies
 * if a file cannot be written. */
void bert_test_run(const BertTestRun *run, const BertTested *validation, const BertTested *test, Evaluation results[2]);

/* train_bert evaluate. Returns the exit status. */
int bert_evaluate(int argc, char **argv);

#endif
