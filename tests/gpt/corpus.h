/* For tests of train_gpt prepare and decode: a corpus of babble in several formats, folders prepared from it, and what
 * their files hold. Outputs are folders below corpus_root; what a program prints is in fixture.output. */
#pragma once

#include <jansson.h>

#include "data/gpt/dataset.h"
#include "tests/train_rig.h"

/* 16 clips of four speakers, the last of whom has only one; 6 more that the filters reject. */
enum { CORPUS_KEPT = 16, CORPUS_REJECTED = 6, CORPUS_ENTRIES = 32, CORPUS_WIDTH = 16 };
extern const char *const corpus_ids[CORPUS_KEPT];
/* Returns the seconds of clip i: from 1, the minimum, to 3, the maximum. */
double corpus_seconds(int i);

extern char *corpus_root;          /* has list.tsv and audio/ */
extern const char *corpus_options; /* of every run */

/* Makes the corpus. */
int corpus_open(void **state);
/* Returns the path of a file or folder below corpus_root. */
char *corpus_folder(const char *name);
/* Returns the path of a file in an output. */
char *corpus_path(const char *output, const char *name);

/* Prepares a list into an output with more options. Returns the exit status. */
int corpus_try_prepare(const char *output, const char *list, const char *more);
/* Prepares list.tsv, which must succeed. */
void corpus_prepare(const char *output, const char *more);
/* Returns the name of the output that all others are compared with, made once by one worker, and what the program
 * printed; `told` may be NULL. */
const char *corpus_reference(const char **told);
/* Fails unless two outputs hold the same files. The ledger is left out: its lines come in the order in which the
 * workers finish. */
void corpus_assert_same(const char *a, const char *b);

/* Trains a GPT with one block for three steps on the prepared folder `data` into `run`, with validation; both are
 * paths. Returns the exit status. */
int corpus_train(const char *data, const char *run, const char *more);
void corpus_must_train(const char *data, const char *run, const char *more);

json_t *corpus_read_json(const char *output, const char *name);
/* Returns the list of the objects of a JSON lines file. */
json_t *corpus_read_lines(const char *output, const char *name);
/* Returns the text or the integer at a key, which must be there. */
const char *corpus_text(const json_t *object, const char *key);
int64_t corpus_number(const json_t *object, const char *key);
/* Returns the line with this id, which must be there. */
const json_t *corpus_line(const json_t *lines, const char *id);
/* Returns the elements of FOLDER/ID.npy, int32 (kind 'i') or float32 ('f'), and its dims, the second 0 if there is
 * one; free(). */
void *corpus_read_array(const char *output, const char *folder, const char *id, char kind, int64_t *dims);
/* Opens a manifest of an output as a data set, closes it and returns the report. */
GptDatasetReport corpus_open_manifest(const char *output, const char *name, Split split, bool repair);

/* Returns |a - b|^2 of two frames. */
double frames_square_distance(const float *a, const float *b);
/* Returns the number of lines of the ledger of an output; -1: it has none. */
int64_t corpus_ledger_lines(const char *output);
/* Starts a shell command and sends it a signal once the ledger of an output has so many lines, unless it ends before.
 * Returns its status, as waitpid gives it. */
int corpus_end_at(const char *command, const char *output, int64_t lines, int signal);
