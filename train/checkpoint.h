/* Checkpoints of a run: DIR/step_00001000/{model.safetensors, optimizer.safetensors, state.json}, and the links
 * DIR/last and DIR/best. A checkpoint is written under a temporary name by a thread, flushed, then renamed: a crash or
 * a full disk at any moment leaves the earlier ones whole. What a run is follows from its newest checkpoint alone; the
 * links say the same to people and to other programs. Only what this program wrote in this directory is ever deleted.
 */
#ifndef TRAIN_CHECKPOINT_H
#define TRAIN_CHECKPOINT_H

#include "data/safetensors.h"
#include "model/model.h"

/* All that a run needs to go on as if it had never stopped. */
typedef struct {
    int64_t serial;             /* of the checkpoint: the one written last into a directory has the largest */
    int64_t step;               /* optimizer steps taken */
    int64_t micro_step;         /* micro-batches since the start: dropout's step */
    int64_t epoch, batch_index; /* the NEXT micro-batch */
    uint64_t seed;
    int64_t samples_seen, tokens_seen;
    /* Of the training data, of which a resumed run must see the same: how many, their ids and lengths, their numbers.
     */
    int64_t n_samples, data_hash, content_hash;
    int64_t validation_hash;             /* of the numbers of the validation's samples; 0: there is no validation */
    uint64_t base_sum;                   /* checkpoint_base_sum of what the run began from; 0: nothing */
    int64_t skipped_steps;               /* with a loss that was not finite */
    int64_t frozen_rows;                 /* of the base vocabulary, kept as they are */
    float loss_scale[LOSS_SCALE_FIELDS]; /* of 16-bit types that need it */
    double seconds;                      /* trained so far */
    double best;                         /* smallest validation objective so far; INFINITY: none */
    int64_t best_step;                   /* 0: none */
    int64_t worse;                       /* validations since then */
    int64_t extensions;                  /* how often the run has been given more epochs */
    int64_t validating;                  /* 1: the step is to be validated, and is not yet */
    /* Sums of the steps since the last train line of log.jsonl, so that the next one is the mean over its whole window.
     */
    double window_sums[MODEL_MAX_METRICS], window_counts[BATCH_MAX_COUNTS];
    char revision[48];  /* git revision of the program */
    char *options_json; /* the options of the run (owned by the caller) */
    int n_metrics;
    char metric_names[24][32]; /* last train and validation values */
    double metric_values[24];
} TrainState;

typedef struct Checkpointer Checkpointer;

/* keep: newest checkpoints kept (best and last are always kept). Removes temporary leftovers of a killed run of ours.
 * One program at a time writes into a directory: dies if another one does. */
Checkpointer *checkpointer_open(const char *directory, int keep);
/* Begins a run: dies if the directory holds one. */
void checkpointer_begin(const Checkpointer *checkpointer);
/* Goes on from a state that was read: does what a kill came before, from the links to the deletion of old checkpoints,
 * and says so. If the best weights are gone the state has none from now on, which is warned of. True: the state is that
 * of the newest checkpoint, which need not be written again; it says so if there is
 * a newer one. Dies if the directory holds another run than the state's,
 * or a step_N that cannot be used, which would be in the way of a later checkpoint. */
bool checkpointer_resume(Checkpointer *checkpointer, TrainState *state);
/* Returns the serial of the directory's newest checkpoint; 0: there is none. */
int64_t checkpointer_newest(const Checkpointer *checkpointer);
/* Returns where the directory is now, until the next call: the one that was opened, which may have been moved since
 * then, never another one under its old path. No write may be under way. NULL with the reason: it cannot be found. */
const char *checkpointer_directory(Checkpointer *checkpointer, Error *error);
/* Tensors of the base checkpoint that the model does not train: written into every checkpoint behind the model's own,
 * byte for byte. The array is copied; names and data must stay valid. */
void checkpointer_carry(Checkpointer *checkpointer, const StoredTensor *tensors, int count);

/* Begins to write a checkpoint of host buffers laid out by `table` (flat weights, m, v; they must not change before
 * checkpointer_wait returns). The link `best` follows state->best_step. A write that fails is tried once more. */
void checkpointer_save(Checkpointer *checkpointer, const ParamTable *table, const float *weights, const float *m,
                       const float *v, const TrainState *state);
/* Whether a write is under way: if not, checkpointer_wait returns at once. */
bool checkpointer_is_writing(const Checkpointer *checkpointer);
/* Waits for the write. False with the reason when it failed (the earlier checkpoints are whole). */
bool checkpointer_wait(Checkpointer *checkpointer, Error *error);
void checkpointer_close(Checkpointer *checkpointer);

/* Returns the checkpoint directory that `resume` means; free(). "auto": the newest checkpoint of the directory, NULL if
 * no run is there; dies if anything called step_N is there that cannot be used, whatever else is there. Otherwise a
 * path to a checkpoint directory, a link to one, or its state.json; dies with the reason if that is none. */
char *checkpoint_resolve(const char *directory, const char *resume);
/* Finds the checkpoint with a run's best weights, which its newest checkpoint names: *path, free(). NULL: the run has
 * validated nothing yet, or there is no run. False with the reason if they are not there. */
bool checkpoint_best(const char *directory, char **path, Error *error);
/* Reads all three files into flat host buffers; the model's names and shapes must match exactly (the error lists those
 * that do not, with both shapes). options_json: free(). carried: tensors of model.safetensors that the table does not
 * know, for checkpointer_carry; free() the array, its names and data live as long as `file`, which the caller closes.
 */
bool checkpoint_load(const char *path, const ParamTable *table, float *weights, float *m, float *v, TrainState *state,
                     TensorFile *file, StoredTensor **carried, int *n_carried, Error *error);

/* Opens a base checkpoint: a file of tensors, or a checkpoint directory, which stands for its weights. */
bool checkpoint_open_base(const char *path, TensorFile *file, Error *error);
/* Returns the checksum that our files of weights have in them, which tells one from another wherever they lie; 0: it is
 * another program's file. */
uint64_t checkpoint_base_sum(const TensorFile *file);
/* Whether a tensor of a base checkpoint, by the name that it has in the file, is the model's of this name: behind the
 * key of a larger dictionary (state_dict.), and without what compiled modules put in. */
bool checkpoint_name_is(const char *stored, const char *name);
/* What is special in an import. */
typedef struct {
    const char *const *resizable; /* tables that may have another number of rows */
    int n_resizable;
    /* If any: only tensors whose names begin with one of these are taken, the others are left aside; and every
     * parameter with such a name must be there, and every buffer that training moves. */
    const char *const *only;
    int n_only;
    const AbsorbedBias *absorbed; /* biases that a norm's running mean takes in */
    int n_absorbed;
} ImportRules;
/* What an import did, in tensors of the base checkpoint; missing: of the model. */
typedef struct {
    int loaded, resized, carried, skipped, aside, missing;
    int absorbed, counters; /* biases; batches that norms of the model's have counted, of no use to ours */
    int moments;            /* of those skipped: what the base's optimizer remembers */
    uint64_t sum;           /* checkpoint_base_sum */
    int64_t base_rows;      /* of the base's first resizable table; 0: it has none */
    char *missing_names;    /* comma-separated, the first few; free() */
} ImportReport;
/* Weights of a base checkpoint (safetensors, .pth, .ckpt, or a checkpoint directory of ours) into a freshly initialised
 * flat buffer. It is a state dict, bare or under "model.", "state_dict." or "model_state_dict."; keys
 * "inference_model.*", "*.lora_*" and gpt.wte.weight are skipped, "_orig_mod." (a compiled module), a leading "module."
 * (one on several GPUs) and ".base_layer" are dropped from names. Of a resizable
 * table the leading rows that both have are taken, the others keep their initial values (so the base's last row becomes
 * that row of a grown table). Every other shape must match; the error lists all that do not. Tensors that the table
 * does not know are carried, as in checkpoint_load. */
bool checkpoint_import(const char *path, const ParamTable *table, const ImportRules *rules, float *weights,
                       TensorFile *file, StoredTensor **carried, int *n_carried, ImportReport *report, Error *error);

#endif
