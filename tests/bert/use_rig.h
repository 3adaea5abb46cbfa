/* Runs the commands that use trained encoders, as a user does, in a folder of their own. */
#pragma once

#include "tests/bert/train_rig.h"

#define GOLDEN "tests/reference/golden/"

/* Runs train_bert with these words. Returns the exit status; what was printed is in fixture.output. */
int bert_use(const char *format, ...) PRINTF_LIKE(1, 2);
/* Fails the test if it fails. */
void bert_must_use(const char *format, ...) PRINTF_LIKE(1, 2);
/* Returns the path of a file in the folder of the tests; valid until the program ends. */
const char *bert_path(const char *name);
/* Returns the folder of a run that has learned the rule of the comments from files (FOLDER/noisy) in which every eighth
 * label is wrong; made once. */
const char *bert_trained(void);
/* Reads a file of JSON Lines as an array; json_decref(). */
json_t *bert_read_lines(const char *path);
/* Returns a number of a row. */
double bert_number(const json_t *rows, size_t row, const char *key);
