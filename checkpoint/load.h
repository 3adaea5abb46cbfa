/* Reads checkpoints: a run's own, to resume from, and base checkpoints of this or another program. */
#pragma once

#include "checkpoint/checkpoint.h"
#include "checkpoint/conventions.h"

/* Tensors of a weights file that the model does not know, for checkpointer_carry. */
typedef struct {
    TensorFile file; /* holds the tensors' names and data */
    StoredTensor *tensors;
    int n;
} CarriedTensors;
void carried_close(CarriedTensors *carried);

/* Reads all three files of a checkpoint. Names and shapes must match the model's exactly; the error lists those that do
 * not, with both shapes. The caller frees state->options_json with free() and carried with carried_close(), even if
 * empty. After a failure there is nothing to free. */
bool checkpoint_load(const char *path, const CheckpointBuffers *into, TrainState *state, CarriedTensors *carried,
                     Error *error);

/* Returns the file of weights that a path means: in a folder model.safetensors or the index of its shards, else
 * pytorch_model.bin, as older models of Hugging Face's transformers have it, or the index of its shards, else those of
 * a LoRA adapter; free(). The path itself if it is no folder with one of them. */
char *checkpoint_weights(const char *path);
/* Opens a base checkpoint: a file of tensors, or a checkpoint directory, whose weights are opened. Refuses a LoRA
 * adapter, and weights that have tensors of one. */
bool checkpoint_open_base(const char *path, TensorFile *file, Error *error);
/* Returns the folder of a base checkpoint: its own, or the one in which its file lies; free(). */
char *checkpoint_folder(const char *path);
/* Returns whether the path of a base checkpoint leads to anything. */
bool checkpoint_exists(const char *path);
/* Returns the checksum stored in our weights files, which identifies a file wherever it lies; 0 for a file of another
 * program. */
uint64_t checkpoint_base_sum(const TensorFile *file);
/* Returns whether `stored`, the name of a tensor in a base checkpoint, means the model's `name`: ignores the key of a
 * larger dictionary (state_dict.), and what compiled modules add. */
bool checkpoint_name_is(const char *stored, const char *name);
/* Returns the first tensor that means the model's `name`, or NULL. */
const StoredTensor *checkpoint_tensor(const TensorFile *file, const char *name);
enum { IMPORT_OPTIONAL = 2 };
/* A model whose files are often taken for ours. They have a tensor whose name begins with `has`, and none whose name
 * begins with `lacks`; NULL: they may have any. */
typedef struct {
    const char *has, *lacks;
    const char *name, *instead; /* "IndexTTS 2.5", and which file to give instead */
} OtherModel;

/* The rules of an import. Every row of the parameter table must be in the file, but for buffers that training does not
 * change and for the rows that a rule excepts; and a tensor that is no row of the table must be one that a rule allows.
 */
typedef struct {
    const char *const *resizable; /* names of tables whose number of rows may differ */
    int n_resizable;
    /* Prefixes of names; none: no restriction. Only rows and tensors with one of these prefixes are imported. */
    const char *const *only;
    int n_only;
    /* Prefixes of names that the file may lack altogether: heads, which keep their initial values in a training. If it
     * has one of them, it must have all with this prefix. At most IMPORT_OPTIONAL. */
    const char *const *optional;
    int n_optional;
    const char *const *extra; /* prefixes of names that only the file has: of modules that the model does without */
    int n_extra;
    const OtherModel *others; /* what the file may be instead, for the error */
    int n_others;
    const AbsorbedBias *absorbed; /* biases that are absorbed by a norm's running mean */
    int n_absorbed;
    const ImportConventions *conventions; /* of other programs' files; NULL: none */
} ImportRules;
/* The result of an import. Counts are tensors of the base checkpoint; `missing` counts tensors of the model. */
typedef struct {
    int loaded, resized, carried, missing;
    int skipped;            /* names that are never loaded, an optimizer's for example */
    int unwanted;           /* names that ImportRules.only leaves out */
    int absorbed, counters; /* biases; counters of batches of norms, which are not needed */
    int moments;            /* skipped tensors of the base checkpoint's optimizer */
    int transposed;         /* of the loaded ones */
    ConventionsReport conventions;
    uint64_t sum;        /* checkpoint_base_sum */
    int64_t base_rows;   /* rows of the base checkpoint's first resizable table; 0: there is none */
    char *missing_names; /* comma-separated, the first few; free() */
} ImportReport;
/* Keeps the tensors of a base checkpoint's state dict, under the names that a model with this table has, as
 * checkpoint_import reads them; counts the others in report->skipped and ->moments. tensor_file_index comes next. */
void checkpoint_normalize(TensorFile *file, const ParamTable *table, ImportReport *report);
/* Checks that names and shapes of a base checkpoint's tensors are those of a model with this table, by the rules, as
 * checkpoint_import does before it reads a number: so a program can refuse weights of another model before it reads its
 * data. The error lists the tensors that do not fit. Afterwards the file can only be closed. */
bool checkpoint_check(TensorFile *file, const ParamTable *table, const ImportRules *rules, Error *error);
/* Opens a base checkpoint for this check. */
bool checkpoint_check_base(const char *path, const ParamTable *table, const ImportRules *rules, Error *error);
/* Reads the weights of a base checkpoint (safetensors, .pth, .ckpt, or a checkpoint directory of ours) into a freshly
 * initialised flat buffer. The base checkpoint is a state dict, at top level or under "model.", "state_dict." or
 * "model_state_dict.". The keys "inference_model.*" and gpt.wte.weight are skipped. "_orig_mod." (a compiled module), a
 * leading "module." (a module on several GPUs) and ".base_layer" are dropped from names. A resizable table takes the
 * leading rows that both tables have, and its other rows keep their initial values. All other shapes must match; the
 * error lists what does not fit. Tensors that the rules allow besides the model's are carried, as in checkpoint_load.
 */
bool checkpoint_import(const char *path, const CheckpointBuffers *into, const ImportRules *rules,
                       CarriedTensors *carried, ImportReport *report, Error *error);
