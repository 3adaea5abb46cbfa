/* For tests that run train_slm as a user runs it: texts made up by rule, prepared once, and a run to compare others
 * with. The program and its data are those of `fixture`. */
#pragma once

#include "tests/train_rig.h"

enum { SLM_TEST_DOCUMENTS = 60, SLM_TEST_VOCABULARY = 300 };

extern const char *const slm_model_options; /* a small model, 2 threads */
extern const char *const slm_short_run;     /* 12 steps with logs, validations and checkpoints */

/* Opens the fixture, as the setup of a group of tests: train_slm of the build under test, and prepared data. */
int slm_fixture_open(void **state);

/* Prepares documents made up by rule into a new folder, with further options; free() its name. */
char *slm_make_data(int documents, const char *options);
