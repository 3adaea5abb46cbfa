/* state.json: a TrainState as text, and the mark by which a checkpoint of ours is known. */
#ifndef TRAIN_CHECKPOINT_STATE_H
#define TRAIN_CHECKPOINT_STATE_H

#include "train/checkpoint.h"

char *state_to_json(const TrainState *state); /* free() */
/* Reads PATH/state.json. state may be NULL: only whether it is ours. options_json: free(). */
bool state_read(const char *path, TrainState *state, Error *error);
/* Whether the directory is a checkpoint of ours with all its files. */
bool checkpoint_is_whole(const char *path, Error *error);

#endif
