/* state.json: a TrainState as text, and the mark by which a checkpoint of ours is known. */
#ifndef TRAIN_CHECKPOINT_STATE_H
#define TRAIN_CHECKPOINT_STATE_H

#include "train/checkpoint.h"

/* Returns the text of state.json; free(). Dies if a field is outside of its range. */
char *state_to_json(const TrainState *state);
/* Reads that text: every byte must be as it was written, every field there and in its range; the error names the field.
 * options_json: free(). */
bool state_parse(const char *text, size_t size, TrainState *state, Error *error);
/* Reads PATH/state.json. */
bool state_read(const char *path, TrainState *state, Error *error);
/* Whether the directory is a checkpoint of ours with all its files; reads its state. */
bool checkpoint_is_whole(const char *path, TrainState *state, Error *error);

#endif
