/* Divides the texts of one file into splits or folds. Each class is divided in the same proportions, and equal texts
 * stay together, so that no text of one split occurs in another. The result depends on the seed and the texts' order.
 */
#pragma once

#include "base/base.h"

enum { BERT_TRAIN, BERT_VALIDATION, BERT_TEST, BERT_SPLITS };
extern const char *const BERT_SPLIT_NAMES[BERT_SPLITS]; /* "train", "validation", "test" */

typedef struct {
    int64_t n;
    const int32_t *labels; /* [n]; NULL: all are of one class */
    int classes;           /* 1 if labels is NULL */
    char *const *names;    /* [classes] for messages; NULL: numbers */
    const int32_t *groups; /* [n] the first text that equals this one (texts_groups); NULL: every text is on its own */
} SplitRows;

/* Sets split[n]. shares[BERT_SPLITS] are positive or 0 and add up to 1. Of a class with m texts, a split gets m times
 * its share, rounded so that they add up; groups may move it by less than the size of the largest. False with an error
 * if a class is too small for a split with a share. */
bool splits_divide(const SplitRows *rows, const double *shares, uint64_t seed, int32_t *split, Error *error);
/* Sets fold[n] to 0 .. k - 1: sizes of a class differ by at most one text, or by less than the largest group. False
 * with an error if a class has fewer than k groups. */
bool splits_fold(const SplitRows *rows, int k, uint64_t seed, int32_t *fold, Error *error);
/* Returns how many of split[n] are `which`, and sets *list to their indices in ascending order; free(). Also for folds.
 */
int64_t splits_list(const int32_t *split, int64_t n, int32_t which, int32_t **list);
