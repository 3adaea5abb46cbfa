/* Synthetic Vietnamese comments for demonstrations and tests, made up by a grammar: polite and rude ones, as people
 * write them in forums (lost tone marks, repeated letters, short forms, emoji).
 *
 * The meaning decides the class, not a word: what is denied, quoted, said of oneself or of a thing is polite, and the
 * words of praise are in rude comments too. Words alone tell the class of many comments, but not of all.
 *
 * DIRECTORY/train.csv, valid.csv, test.csv with the columns text, label ("polite", "rude") and kind (of sentence), and
 * unlabelled.txt with a comment per line. No two comments are the same. The sentences of validation and test have
 * patterns that no training comment has, and words that no labelled training comment has; the unlabelled comments have
 * all words, and the patterns of training and validation. */
#pragma once

#include "data/bert/grammar.h"

typedef struct {
    int64_t rows[SYNTHETIC_FILES];
    double noise; /* how many comments are written carelessly: 1 as in a forum, 0 none */
    uint64_t seed;
} BertSynthetic;

typedef struct {
    char *text;       /* UTF-8, perhaps of several lines; free() */
    const char *kind; /* of the sentence that decides the class */
    bool rude;
} BertSyntheticComment;

/* Returns comment number `draw` of an endless list for this file; equal ones occur. */
BertSyntheticComment bert_synthetic_comment(const BertSynthetic *options, int file, uint32_t draw);
/* Writes the four files, of which none may exist, unless a killed program began them with the same options. */
bool bert_synthetic_write(const char *directory, const BertSynthetic *options, Error *error);
