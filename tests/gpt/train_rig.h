/* For tests that run train_gpt as a user runs it: a data set of a few npy files, and a run to compare others with. The
 * program and its data are those of `fixture`. */
#pragma once

#include "tests/train_rig.h"

enum { GPT_SAMPLES = 24, GPT_D_MODEL = 64, GPT_TEXT_PIECES = 50, GPT_CODES = 40 };

extern const char *const gpt_model_options; /* a small model, 2 threads */
extern const char *const gpt_short_run;     /* 12 steps with logs, validations and checkpoints */

/* Opens the fixture, as the setup of a group of tests: train_gpt of the build under test, and data of 24 samples. */
int gpt_fixture_open(void **state);

/* Writes the four files of one utterance and its manifest line. long_codes: the number of codes; 0: 10 to 59. */
void gpt_write_sample(FILE *manifest, const char *directory, int i, int long_codes);

/* Makes a directory with manifest.jsonl and its files; free() the name. */
char *gpt_make_data(int long_codes);

/* Writes a copy of a run's last weights, in which the weights of one norm are the largest finite number, so that the
 * loss is not a number. Returns its path. */
char *gpt_write_overflowing_base(const char *run, const char *directory);
