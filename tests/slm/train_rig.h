/* For tests that run train_slm as a user runs it: texts made up by rule, prepared once, and a run to compare others
 * with. The program and its data are those of `fixture`. */
#ifndef TESTS_SLM_TRAIN_RIG_H
#define TESTS_SLM_TRAIN_RIG_H

#include "tests/train_rig.h"

enum { SLM_TEST_DOCUMENTS = 60, SLM_TEST_VOCABULARY = 300 };

extern const char *const slm_model_options; /* a small model, 2 threads */
extern const char *const slm_short_run;     /* 12 steps with logs, validations and checkpoints */

/* Opens the fixture, as the setup of a group of tests: train_slm of the build under test, and prepared data. */
int slm_fixture_open(void **state);

/* Prepares documents made up by rule into a new folder, with further options; free() its name. */
char *slm_make_data(int documents, const char *options);

/* Trains into `run` with extra options. Returns the exit status; what was printed is in fixture.output. */
int slm_train(const char *run, const char *extra, ...) PRINTF_LIKE(2, 3);
void slm_must_train(const char *run, const char *extra);

/* Returns the folder of a short run to compare others with, made once. */
const char *slm_reference_run(void);

/* Starts a training in the background and sends it a signal at a step, as signal_at_step does. */
int slm_train_and_signal(const char *run, const char *options, int step, int number);

/* Fails unless two runs have logged the same losses. */
void slm_assert_same_losses(const char *a, const char *b);

#endif
