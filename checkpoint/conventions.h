/* Conventions by which other programs write the weights of the same model: other names, transposed matrices, copies and
 * constants among the tensors. */
#pragma once

#include "data/formats/tensor_file.h"
#include "model/params.h"

/* Two names of one thing. */
typedef struct {
    const char *theirs, *ours;
} NamePair;

/* Lists end with NULL, those of pairs with a pair of NULL; a list that is NULL has nothing. */
typedef struct {
    const char *root; /* "decoder.": put before all names of a file in which none begins with it; NULL: nothing is */
    const char *const *rootless; /* but not before names that begin so */
    const NamePair *ends;        /* ends of names: ".gamma" is ".weight" */
    /* Ends of the names of matrices that some programs store transposed. A file stores all of them transposed, the
     * square ones too, if its first one that is not square has rows and columns exchanged. */
    const char *const *transposed;
    const char *const *constants; /* ends of the names of tensors that no weights are (masks) */
    const char *const *ignored;   /* beginnings of the names of tensors that only other models have: heads of other
                                   * tasks; at most CONVENTIONS_IGNORED */
    const NamePair *copies;       /* names: `theirs` must equal the tensor `ours` */
    const char *biases;           /* the option with which the model has biases: without it, biases must be 0; NULL: it
                                   * has them */
} ImportConventions;

enum { CONVENTIONS_IGNORED = 4 };

/* Tensors that conventions_apply has removed or found. */
typedef struct {
    int copies, constants, zero_biases;
    int ignored[CONVENTIONS_IGNORED]; /* of each beginning */
    bool transposed;
} ConventionsReport;

/* Renames the tensors of a file as the table has them and removes copies, constants, ignored ones and biases of zeros
 * that the model lacks; tensor_file_index comes next. False with the name of a tensor that the model cannot take: a
 * copy that differs, or a bias that is not 0. */
bool conventions_apply(const ImportConventions *conventions, const ParamTable *table, TensorFile *file,
                       ConventionsReport *report, Error *error);
/* Returns whether the tensor is one that a file may store transposed. */
bool conventions_may_transpose(const ImportConventions *conventions, const char *name);
/* Writes the transpose of in [rows, columns]. */
void conventions_transpose(const float *in, int64_t rows, int64_t columns, float *out);
/* Returns whether all numbers of the tensor are 0. */
bool tensor_is_zero(const StoredTensor *tensor);
