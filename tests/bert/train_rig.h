/* For tests that run train_bert as a user runs it: comments made up by rule, with a tokenizer of the fastBPE kind that
 * knows their syllables, and a run to compare others with. The program and its data are those of `fixture`. */
#pragma once

#include "tests/train_rig.h"

/* Rows of the three files. A third of the comments, those with the syllables xo or zu, are of class 1. */
enum { BERT_TEST_TRAIN = 96, BERT_TEST_VALID = 24, BERT_TEST_TEST = 24 };
/* Tokens: four special ones in front, syllables as a word and as its beginning, and <mask>. */
enum { BERT_TEST_SYLLABLES = 12, BERT_TEST_TOKENS = 4 + 2 * BERT_TEST_SYLLABLES + 1 };

extern const char *const bert_model_options; /* a small model, 2 threads */
extern const char *const bert_short_run;     /* 12 steps with logs, validations and checkpoints */

/* Opens the fixture, as the setup of a group of tests: train_bert of the build under test, a folder with train.csv,
 * valid.csv and test.csv, and fixture.options with the tokenizer. */
int bert_fixture_open(void **state);

/* Writes vocab.txt and bpe.codes into a new folder. */
char *bert_make_tokenizer(void);
/* Writes comment number `row` into text; returns its class. */
int bert_make_comment(int row, char text[96]);
/* Writes comments first .. first + n - 1 as FOLDER/NAME, a CSV file with the columns text and label. */
void bert_write_comments(const char *folder, const char *name, int first, int n);
