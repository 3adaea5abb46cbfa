/* Exports a training as torch.save would have written it, to continue in PyTorch: model_state_dict and
 * optimizer_state_dict under the reference's names and in its order, with further values from the program. It loads
 * with torch.load(path, weights_only=True) and load_state_dict(strict=True), the optimizer's into torch.optim.Adam or
 * AdamW. checkpoint_import reads such a file. */
#pragma once

#include "model/params.h"

/* A value at the top level of the file: a text or a number. */
typedef struct {
    const char *name, *text;
    double number;
    bool whole; /* the number is a Python int */
} PthValue;

typedef struct {
    const ParamTable *table;
    const float *weights; /* flat, on the host */
    const float *m, *v;   /* the optimizer's moments, likewise; NULL: without optimizer_state_dict */
    AdamW adamw;          /* train_adamw with step = the number of updates done */
    float learning_rate;  /* of the next step */
    double initial_rate, weight_decay;
    int64_t batches;              /* batches trained on, as counted by the batch norms */
    const AbsorbedBias *absorbed; /* written as zeros */
    int n_absorbed;
    const PthValue *values;
    int n_values;
} PthExport;

/* Writes the file completely or not at all; the error names the file. */
bool pth_export(const char *path, const PthExport *what, Error *error);
/* Exports a checkpoint directory (DIR/best). Takes weights, moments and the numbers of updates and batches from the
 * checkpoint, so these fields of `what` need not be set. */
bool pth_export_checkpoint(const char *path, const char *checkpoint, PthExport what, Error *error);
