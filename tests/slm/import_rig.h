/* The models in tests/reference/golden that other programs wrote, and logits of imported weights. */
#pragma once

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
Imported import_file(const char *path, const char *const *options);
/* The same into a model of a given configuration. */
Imported import_into(const char *path, const SlmConfig *config);
void import_close(Imported *imported);

/* Fails unless two models have the same weights bit by bit. */
void assert_same_imported(const Imported *a, const Imported *b);
/* Fails unless the logits on the CPU are those of golden/slm_logits.safetensors, "plain" or "biased", to 1e-5. */
void assert_logits(const Imported *imported, const char *name);
