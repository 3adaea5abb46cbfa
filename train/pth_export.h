/* A training as torch.save would have written it, for whoever goes on in PyTorch: model_state_dict and
 * optimizer_state_dict under the reference's names and in its order, and the values that a program puts beside them.
 * It loads with torch.load(path, weights_only=True) and load_state_dict(strict=True), the optimizer's into
 * torch.optim.Adam or AdamW. The way back is checkpoint_import. */
#ifndef TRAIN_PTH_EXPORT_H
#define TRAIN_PTH_EXPORT_H

#include "model/params.h"

/* At the top of the file: a text, or a number. */
typedef struct {
    const char *name, *text;
    double number;
    bool whole; /* the number is an int of Python's */
} PthValue;

typedef struct {
    const ParamTable *table;
    const float *weights; /* flat, on the host */
    const float *m, *v;   /* the same of the optimizer's moments; NULL: without optimizer_state_dict */
    AdamW adamw;          /* train_adamw, with the learning rate of the next step; step: updates done */
    double initial_rate, weight_decay;
    int64_t batches;              /* trained on: what the batch norms have counted */
    const AbsorbedBias *absorbed; /* written as zeros */
    int n_absorbed;
    const PthValue *values;
    int n_values;
} PthExport;

/* Whole or not at all; the error names the file. */
bool pth_export(const char *path, const PthExport *what, Error *error);
/* The same of a checkpoint directory (DIR/best): what it holds (weights, moments, how many updates and batches) need
 * not be given. */
bool pth_export_checkpoint(const char *path, const char *checkpoint, PthExport what, Error *error);

#endif
