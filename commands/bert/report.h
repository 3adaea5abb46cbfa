/* Tests of a classifier: the decision that validation texts choose, and the reports of a split. */
#pragma once

#include "commands/threshold_decision.h"
#include "data/bert/classes.h"
#include "report/evaluation.h"

/* Labelled texts, and what a classifier says of them. */
typedef struct {
    const char *name; /* "validation", "test": a part of the names of files */
    const Classes *classes;
    int64_t n;
    const char *const *texts; /* [n] as the file has them */
    const char *const *files; /* [n] the path of each one's file; NULL: all are from the same */
    const int64_t *lines;     /* [n] in their file, from 1: how reports call a text */
    const int32_t *labels;    /* [n] */
    const float *logits;      /* [n, classes] */
    const char *cause;        /* why the classifier is at chance, if it is (chance_text); or NULL */
} BertTested;

/* Fits the temperature and, of two classes, chooses the threshold on validation texts, and prints both. If one has no
 * answer, warns, and takes none, or 0.5. training_share: of texts of the second class in training. */
ThresholdDecision bert_decide(const BertTested *validation, ThresholdRule rule, double training_share);

/* Reports one split, NAME, into a directory that exists:
 *   evaluation_NAME.csv .json .md and the other files of report_classification
 *   threshold_NAME.json and the other files of report_threshold: two classes
 *   report_NAME.json              two classes: the fields of the reference's report.json
 *   wrong_NAME.csv .json .md      wrong predictions with their texts, the most confident first; the last two have the
 *                                 first 20
 * Says last if the decisions are at chance. Fills *result (evaluation_at the threshold of the decision;
 * evaluation_free), unless it is NULL. */
bool bert_report(const BertTested *tested, const ThresholdDecision *decision, const char *directory, Evaluation *result,
                 Error *error);

/* The test that follows a training. */
typedef struct {
    const char *checkpoint; /* its best: decision.json is written there */
    const char *directory;  /* of the run: for reports */
    ThresholdRule rule;
    double training_share; /* of texts of the second class in training */
} BertTestRun;

/* Decides on validation texts, writes decision.json, reports both splits and, on test texts, the calibration
 * (report_calibration), and writes report.html. test: NULL if there are no such texts. results[2]: of validation and
 * test; evaluation_free. Dies if a file cannot be written. */
void bert_test_run(const BertTestRun *run, const BertTested *validation, const BertTested *test, Evaluation results[2]);
