/* The classes of a training, and the labels of texts as numbers of classes. */
#pragma once

#include "data/bert/comments.h"

enum { BERT_MAX_CLASSES = 1000 };

typedef struct {
    int n;
    char **names; /* [n]; a class is an index into them */
    bool merge;   /* --merge-labels: a label is of the class that differs from it in case only, or is the same number */
} Classes;

/* Makes the classes from the labels of the training texts: whole numbers in ascending order if all labels are,
 * otherwise in the order of their bytes. Labels that differ in case only, or are the same number ("0", "0.0"), are an
 * error; with `merge` they are one class with the name that most of its texts have. False with an error if there are
 * fewer than 2 or more than BERT_MAX_CLASSES. */
bool classes_find(const Comments *training, bool merge, Classes *out, Error *error);
/* Makes the classes from names separated by commas (--labels), in this order. They become normal, as labels do. */
bool classes_parse(const char *names, Classes *out, Error *error);
/* Makes the classes of a training: those of --labels or, if there is no list, of the texts. */
bool classes_make(const char *names, bool merge, const Comments *training, Classes *out, Error *error);
/* Makes n classes with these names, such as those of a checkpoint. */
Classes classes_of(const char *const *names, int n);
void classes_free(Classes *classes);
/* Returns the class with this name, which is normal (label_normal); -1: none. A name that is not normal, of a model
 * that was trained by an older program, counts as its normal form. */
int32_t classes_at(const Classes *classes, const char *name);
/* Returns the first names, separated by commas, for a message; free(). There must be one. */
char *classes_list(const Classes *classes);
/* Sets labels[comments->n], and comments->counts.merged. False with path, line, label and the known classes if a label
 * is none of them. */
bool classes_assign(const Classes *classes, Comments *comments, int32_t *labels, Error *error);
/* Adds to counts[classes] the texts of each class. */
void classes_count(const int32_t *labels, int64_t n, int64_t *counts);
/* Returns false, naming `split` ("validation", or its file) and the class, if a class has no text. */
bool classes_check(const Classes *classes, const int32_t *labels, int64_t n, const char *split, Error *error);
/* Sets weights[classes] to n / (classes * texts of the class), as scikit-learn's "balanced"; every class must have a
 * text. */
void classes_balance(const int32_t *labels, int64_t n, int classes, float *weights);
