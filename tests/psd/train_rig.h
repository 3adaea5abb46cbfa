/* For tests that run train_psd as a user runs it: a toy data set, and what runs leave behind. The folder of the data is
 * fixture.data; what the program printed last is fixture.output. */
#pragma once

#include "base/file.h"
#include "tests/psd/rig.h"
#include "tests/train_rig.h"

/* Runs train_psd with these words; returns the exit status. */
int psd_program(const char *format, ...) PRINTF_LIKE(1, 2);
/* Runs train_psd, which must succeed. */
#define psd_must(...)                                                                                                  \
    do {                                                                                                               \
        int status_ = psd_program(__VA_ARGS__);                                                                        \
        if (status_) fail_msg("exit status %d:\n%s", status_, fixture.output);                                         \
    } while (0)

/* Runs train_psd and sends it SIGTERM at a step; what it prints goes to DIRECTORY/output. Returns the exit status, or
 * 128 + the signal that ended it. */
int psd_program_and_signal(const char *directory, const char *run, int step, const char *options);

/* Writes a store; sensors: a JSON list of names. */
void psd_write_store(const char *path, const PsdStore *store, const char *sensors);

/* The toy data: three sensors with all six classes, TOY_ROWS of each; a class is a bump of its own width. Row i has the
 * class i / TOY_ROWS % 6 and the sensor i / TOY_ROWS / 6. */
enum { TOY_SENSORS = 3, TOY_ROWS = 16, TOY_SAMPLES = TOY_SENSORS * PSD_CLASSES * TOY_ROWS };
/* Sets up the tests of a file: writes the toy data and its split files into fixture.data. */
int psd_make_toy(void **state);
/* Returns the options that most runs share: the toy data and its pooled splits. Valid for the next seven calls. */
const char *psd_toy_options(const char *command);

/* A row of predictions_TAG.csv. */
typedef struct {
    int id, truth, predicted;
    double p[PSD_CLASSES];
} PsdPredicted;
/* Reads DIRECTORY/predictions_finetuned.csv; returns the number of rows. */
int psd_read_predictions(const char *directory, PsdPredicted *rows, int most);
