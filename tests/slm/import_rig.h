/* The models in tests/reference/golden that other programs wrote, and logits of imported weights. */
#ifndef TESTS_SLM_IMPORT_RIG_H
#define TESTS_SLM_IMPORT_RIG_H

#include "commands/slm/base.h"
#include "tests/files.h"

/* A model with the weights of a file. */
typedef struct {
    bool ok; /* false: `error` says why, and there is nothing else */
    Error error;
    SlmConfig config;
    Model *model;
    float *weights;
    ImportReport report;
} Imported;

/* Reads a file as --base-checkpoint does. options: words of the command line, "--heads", "2"; the last is NULL. */
Imported slm_import_file(const char *path, const char *const *options);
/* The same into a model of a given configuration. */
Imported slm_import_into(const char *path, const SlmConfig *config);
void slm_import_close(Imported *imported);

/* Fails unless two models have the same weights bit by bit. */
void slm_assert_same_weights(const Imported *a, const Imported *b);
/* Fails unless the logits on the CPU are those of golden/slm_logits.safetensors, "plain" or "biased", to 1e-5. */
void slm_assert_logits(const Imported *imported, const char *name);

#endif
