/* Checkpoints of a run: DIR/step_00001000/{model.safetensors, optimizer.safetensors, config.json, state.json}, and the
 * links DIR/last and DIR/best, for which small files stand where there are none (folder.h). A thread writes a
 * checkpoint under a temporary name, flushes it, then renames it: a crash or a full disk at any moment leaves the
 * earlier checkpoints whole. The newest checkpoint alone defines the state of the run; the links name the same
 * checkpoints for people and other programs. Only files that this program wrote in this directory are ever deleted. */
#pragma once

#include "checkpoint/state.h"
#include "data/formats/safetensors.h"
#include "model/params.h"

/* The flat buffers of a checkpoint on the host, laid out by `table`. */
typedef struct {
    const ParamTable *table;
    float *weights, *m, *v;
} CheckpointBuffers;

typedef struct Checkpointer Checkpointer;

/* Opens a directory for writing checkpoints, and removes temporary files of a killed run. `keep` is the number of
 * newest checkpoints that are kept (best and last are always kept). One that another program holds (checkpoint_hold) is
 * removed after a later checkpoint. Releases those that this program holds. Dies if another program writes checkpoints
 * into the directory. */
Checkpointer *checkpointer_open(const char *directory, int keep);
/* Begins a run: dies if the directory holds one. */
void checkpointer_begin(const Checkpointer *checkpointer);
/* Resumes from a state that was read. Finishes what a killed run left undone, from moving the links to deleting old
 * checkpoints, and prints what it did. If the best weights are gone, warns and clears them in the state. Returns
 * whether the state is that of the newest checkpoint, which then need not be written again; otherwise prints that a
 * newer one exists. Dies if the directory holds another run, or a step_N that is not a usable checkpoint and would be
 * in the way of a later one. */
bool checkpointer_resume(Checkpointer *checkpointer, TrainState *state);
/* Returns the serial of the directory's newest checkpoint; 0: there is none. */
int64_t checkpointer_newest(const Checkpointer *checkpointer);
/* Returns the current path of the directory that was opened, which may have been moved since then; valid until the next
 * call. Never returns another directory under the old path. No write may be under way. Returns NULL with the reason if
 * the directory cannot be found. */
const char *checkpointer_directory(Checkpointer *checkpointer, Error *error);
/* Sets tensors of the base checkpoint that the model does not train. Every checkpoint contains them, byte for byte,
 * after the model's own. The array is copied; names and data must stay valid. */
void checkpointer_carry(Checkpointer *checkpointer, const StoredTensor *tensors, int count);

/* Sets the text of config.json (description_text), which every checkpoint then contains. Takes ownership. */
void checkpointer_describe(Checkpointer *checkpointer, char *text);

/* Begins to write a checkpoint of these buffers, whose contents must not change before checkpointer_wait returns. The
 * link `best` follows state->best_step. A failed write is tried once more. */
void checkpointer_save(Checkpointer *checkpointer, const CheckpointBuffers *buffers, const TrainState *state);
/* Returns whether a write is under way; if not, checkpointer_wait returns at once. */
bool checkpointer_is_writing(const Checkpointer *checkpointer);
/* Waits for the write, says so if that takes long, and dies if it takes an hour. Returns false with the reason if the
 * write failed (the earlier checkpoints are whole). */
bool checkpointer_wait(Checkpointer *checkpointer, Error *error);
void checkpointer_close(Checkpointer *checkpointer);

/* Returns the checkpoint directory that `resume` names; free(). "auto" is the newest checkpoint of `directory`, or NULL
 * if there is no run; dies if the directory has any step_N that is not a usable checkpoint. Any other value is a path
 * to a checkpoint directory, a link to one, or its state.json; dies with the reason if the path leads to no checkpoint.
 */
char *checkpoint_resolve(const char *directory, const char *resume);
/* Sets *path, free(), to the checkpoint with the run's best weights, which the newest checkpoint names; NULL if the run
 * has not validated yet, or there is no run. Returns false with the reason if that checkpoint is missing. */
bool checkpoint_best(const char *directory, char **path, Error *error);
