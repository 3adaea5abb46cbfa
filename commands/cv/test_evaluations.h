/* The record of every evaluation of a test donor, test_evaluations.jsonl: settings chosen after many of them have seen
 * the donor, and its scores are no longer those of an unseen one. */
#pragma once

typedef struct {
    const char *fold, *weights, *revision;
    const char *base_checkpoint; /* NULL: none */
} CvTestEvaluation;

/* Adds a line to DIRECTORY/test_evaluations.jsonl, and says how often the fold has been tested
 * before. Dies on an error.  */
void cv_test_evaluations_add(const char *directory, const CvTestEvaluation *evaluation);
/* Removes what a killed program left of the file. */
void cv_test_evaluations_clean(const char *directory);
